# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about values and the files that they are written to; none of these shows the value, which may be secret."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    "I030": ("{variable} has {problem}", "Expected: {form}."),
    "I031": ("{variable} contains a password, which would be readable in the plan, in reports and in files", "{way}."),
    "I032": ("{option} has {problem}, which a file in {format} format cannot hold", "Remove it from the value."),
}
refuse = partial(build, CODES)
