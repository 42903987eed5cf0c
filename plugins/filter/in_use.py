# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses a node, as a filter over its facts."""

from __future__ import annotations

from typing import Callable

from ansible_collections.gpulab.node.plugins.module_utils.facts.users import in_use


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """Return the filters by name."""
        return {"in_use": in_use}
