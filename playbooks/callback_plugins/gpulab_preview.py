# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback gpulab.node.preview for plan.yml: Ansible loads what lies here without any setting."""

from __future__ import annotations

from ansible_collections.gpulab.node.plugins.callback.preview import CallbackModule as Preview


class CallbackModule(Preview):
    """The same."""
