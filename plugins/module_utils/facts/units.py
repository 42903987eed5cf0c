# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which running services of systemd a boot would not bring back: jobs at work, and what somebody started by hand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import unit_states

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

RUNS_HERE = "/run/systemd/system"  # sd_booted(3)
TRANSIENT = "/run/systemd/transient"
GPULAB = "gpulab-"
_ASKED = (
    "type", "bus_name", "active_state", "restart", "path", "file_state", "triggered_by", "wanted_by", "required_by",
    "upheld_by",
)  # fmt: skip
_OWN_FILES = ("/etc/systemd/system/", "/run/systemd/system/")  # of the administrator, not of a package
_OTHERS = ("snap.", "slurmd.")  # snapd starts its own; who works below slurmd is asked by users and by Slurm's steps
_WAITS = re.compile(r"wait")  # units of the boot that only wait: for the network, the clock, the splash screen
JOB, BY_HAND, SILENT = "a job at work", "started by hand and not enabled", "systemd does not answer"


def work(node: Node, names: Iterable[str]) -> dict[str, str]:
    """Say of each of these services that a boot would end for good why that is so."""
    asked = [name for name in dict.fromkeys(names) if not name.startswith((GPULAB, *_OTHERS))]
    transient = {name: BY_HAND for name in asked if node.exists(f"{TRANSIENT}/{name}")}
    left = [name for name in asked if name not in transient and name.endswith(".service")]
    if not left or not node.exists(RUNS_HERE):
        return transient
    answer = node.start(unit_states.show(_ASKED, *left)).output()
    if not answer:
        return {**transient, **dict.fromkeys(left, SILENT)}
    said = {unit.id: judged(unit) for unit in unit_states.parse(answer)}
    return {**transient, **{name: why for name, why in said.items() if why}}


def judged(unit: unit_states.Unit) -> str:
    """Say why a boot would end the work of a running service for good; nothing where it starts again at boot."""
    state, triggers = unit.active_state, unit.triggered_by
    if unit.type == "oneshot" and state == "activating" and not _WAITS.search(unit.id):
        return JOB
    if any(name.endswith(".timer") for name in triggers) and state in ("active", "activating"):
        return JOB
    if triggers or unit.wanted_by or unit.required_by or unit.upheld_by or unit.bus_name:
        return ""
    if unit.path.startswith(_OWN_FILES) and unit.file_state in ("disabled", "static", "linked", "linked-runtime"):
        return BY_HAND
    return BY_HAND if unit.file_state == "disabled" and unit.restart == "no" else ""
