# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about the diagnosis of a program."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    "G001": (
        "{host} has no process {pid}",
        "Name one that runs there: ps -ef. To look at all that use a GPU, leave pid out.",
    ),
    "G002": ("{option} is {value}, not {wanted}", "Correct it, or leave it out. Nothing was looked at."),
    "G003": ("the diagnosis cannot be written to {path}: {detail}", "Use another directory, or free space there."),
}
refuse = partial(build, CODES)
