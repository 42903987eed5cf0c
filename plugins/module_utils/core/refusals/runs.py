# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about long steps, and several runs on one node."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    # S001 to S008: long steps
    "S001": ("{name} is not a valid name for a long step", "Use letters, digits, '.', '_' and '-', at most 100."),
    "S002": (
        "systemd is not the init of this node, so a step cannot outlive the connection",
        "Boot the node with systemd as its init. A container needs /sbin/init as its command.",
    ),
    "S003": (
        "the long step {name} is still running another command: {command}",
        "Wait until it ends (its log on the node: {log}); only where it hangs: systemctl stop gpulab-{name}.",
    ),
    "S004": ("the long step {name} could not be started: {detail}", "Check that the task runs as root (become: true)."),
    "S005": (
        "the long step {name} was stopped after {seconds} s; its last line: {line}",
        "Read {log} on the node. If the step was only slow, raise the task's timeout.",
    ),
    "S006": (
        "the long step {name} ended without a result ({detail}); its last line: {line}",
        "Run again. Its log is {log} on the node.",
    ),
    "S007": (
        "the node has not answered for {seconds} s while the long step {name} runs there: {detail}",
        "Run again when the node is reachable. gpulab continues with the step, whether it still runs or has ended.",
    ),
    "S008": ("the long step {name} failed with status {rc}; its last line: {line}", "Read {log} on the node."),
    # S010 to S012: several runs on one node
    "S010": (
        (
            "another run is working on this node: process {pid} of {user} on {machine}, since {since}; last active"
            " {seconds} s ago"
        ),
        "Wait until it ends. If it failed or was killed, run again from {machine}, or in {left} s from any machine.",
    ),
    "S011": (
        (
            "another run has taken over this node, because this run was silent for minutes: process {pid} of {user}"
            " on {machine}, since {since}"
        ),
        "Wait until it ends (last active {seconds} s ago), then run again.",
    ),
    "S012": (
        "long steps of an earlier run are still running on this node: {names}",
        "Wait until they end (logs: /var/lib/gpulab/steps/NAME/log), then run again. Nothing was changed.",
    ),
    # S022: a lock
    "S022": (
        "{holder} for more than {seconds} s",
        "Wait until that has ended, then run again. ps -fp PID shows what it is.",
    ),
}
refuse = partial(build, CODES)
