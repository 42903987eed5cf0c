# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every way in which gpulab says no: a stable code, one line of cause, one line of remedy.

The codes live in this file and nowhere else. A code is never given another meaning.
Families: H host and connection, I inventory and input, P plan, D driver, S long step, V proof.
"""

from __future__ import annotations

from dataclasses import dataclass

# code: (cause, remedy), both str.format templates over the values given to refuse()
CODES = {
    "H001": ("{host} is unreachable: {detail}", "Check its address, power and SSH: ssh {host}; then run again."),
    # S: long steps
    "S001": ("{name} is no name for a long step", "Use letters, digits, '.', '_' and '-', at most 100."),
    "S002": (
        "systemd is not the first process of this node, so no step can outlive the connection",
        "Boot the node with systemd as its init; a container needs /sbin/init as its command.",
    ),
    "S003": (
        "the long step {name} is still running another command: {command}",
        "Wait for it to end (its log on the node: {log}), or stop it there: systemctl stop gpulab-{name}.",
    ),
    "S004": ("the long step {name} could not be started: {detail}", "Check that the task runs as root (become: true)."),
    "S005": (
        "the long step {name} was stopped after {seconds} s, its last line: {line}",
        "Read {log} on the node; raise the task's timeout if it was only slow.",
    ),
    "S006": (
        "the long step {name} ended without a result ({detail}), its last line: {line}",
        "Run again; what it wrote is in {log} on the node.",
    ),
    "S007": (
        "the node has not answered for {seconds} s while the long step {name} runs there: {detail}",
        "Run again once it is reachable: a step that still runs, or has ended, is picked up.",
    ),
    "S008": ("the long step {name} failed with status {rc}, its last line: {line}", "Read {log} on the node."),
    # V: proof
    "V001": ("{host} is not proven fit: {count} findings of severity {level} or above", "See each finding below."),
    "V002": (
        "there are no facts of {host}: gpulab.node.gpu_facts did not run there, or failed",
        "Run it before this task, and look at its own error.",
    ),
    "V003": ("the report cannot be written to {path}: {detail}", "Name another directory, or free space there."),
    "V004": ("{path} cannot be compared with: {detail}", "Name a report.json that gpulab wrote."),
}


@dataclass
class Refusal(Exception):
    """A refusal as data, and as an exception where one is raised."""

    code: str
    cause: str
    remedy: str

    def __str__(self) -> str:
        """Return the one form in which users meet a refusal."""
        return f"GPULAB-{self.code} {self.cause} Remedy: {self.remedy}"


def refuse(code: str, **values: object) -> Refusal:
    """Build the refusal with this code; the values fill its cause and remedy.

    Raises KeyError for a code that is not listed or a value that is missing.
    """
    cause, remedy = CODES[code]
    return Refusal(code, cause.format(**values).rstrip(".") + ".", remedy.format(**values))
