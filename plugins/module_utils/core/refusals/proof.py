# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about the proof of a node."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    "V001": (
        "{host} failed verification: {findings} of severity {level} or above",
        "Each finding below has its own remedy.",
    ),
    "V002": (
        "the facts of {host} are missing: gpulab.node.gpu_facts did not run there, or failed",
        "Run it before this task, and read its error.",
    ),
    "V003": (
        "the report cannot be written to {path}: {detail}",
        'Where a run with sudo made it: sudo chown -R "$USER" {path}. Else use another directory, or free space there.',
    ),
    "V004": ("the report cannot be compared with {path}: {detail}", "Use a report.json that gpulab wrote."),
    "V005": (
        "the lab's own checks in {path} cannot be made: {problems}",
        "Mend the files as docs/own-checks.md says. No node was asked.",
    ),
    "V006": (
        "advisories_accepted cannot be used: {problems}",
        "Correct each of them, as docs/advisories.md says. Nothing was changed.",
    ),
    "V007": (
        "what {host} says of its board is not recorded: {field} is not known, or its value has not its form",
        "It might tell a name, so nothing was written. Report the name of the field, and not its value.",
    ),
    "V008": (
        "{count} hosts cannot be recorded at once",
        "Name one (-l), and look through its recording before the next. No file was written.",
    ),
    "V009": (
        "no node can be exported: {why}",
        "Prove the nodes with the playbook verify, mend what the proof finds, and run again. No file was written.",
    ),
}
refuse = partial(build, CODES)
