# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about what every module asks of a node: root, files that gpulab wrote, records that can be read."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    "H011": ("this task needs root on the node, but runs there as {user}", "Set become: true, or connect as root."),
    # H020: files that gpulab did not write
    "H020": (
        "{path} exists, but gpulab did not write it",
        "Copy the settings that you need into your inventory. Then move the file away.",
    ),
    # H220 to H226: gpulab's records on a node, and what it says of itself
    "H220": (
        "gpulab's record {path} is damaged: {detail}",
        "Restore it from a backup, or move it away (mv {path} {path}.damaged) and run again. {lost}",
    ),
    "H221": (
        "gpulab's record {path} cannot be written: {detail}",
        "Free space there (df -h, df -i), or make that file system writable. Then run again.",
    ),
    "H222": (
        "{path} is {kind}, but gpulab keeps a file there",
        "Look what it is for. Move it away (mv {path} {path}.moved), then run again. Nothing of it was changed.",
    ),
    "H226": (
        "{host} says of itself what cannot be: {what}",
        (
            "Set it right there (a hostname: hostnamectl set-hostname NAME). If nobody has set it so, find out who has"
            " root on that node. Nothing was changed."
        ),
    ),
}
refuse = partial(build, CODES)
