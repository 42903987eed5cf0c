# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a remedy may say of a process that is in the way: to end it, where that is proven, or whom to ask."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import ExaminedProcess
    from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Case

_UNIT = re.compile(r"\S+\.(?:service|scope)\Z")
_SHOWS = (
    (re.compile(r"job (\d+) of Slurm"), "scontrol show job {}"),
    (re.compile(r"session (\S+)"), "loginctl session-status {}"),
)


def is_left(record: ExaminedProcess) -> bool:
    """Tell whether it is proven that nobody has a process: see keepers.py, which looks on the node."""
    return record.pid > 1 and record.keeper is None and not record.connected


def show(pid: int, keeper: str | None) -> str:
    """Return the command that shows a process, or better what owns it."""
    if keeper and _UNIT.fullmatch(keeper):
        return f"systemctl status {keeper}"
    shows = (command.format(match[1]) for form, command in _SHOWS if (match := form.fullmatch(keeper or "")))
    return next(shows, f"ps -o pid,ppid,user,lstart,args -p {pid}")


def ask(case: Case, pids: Iterable[int]) -> str:
    """Return whom to ask to end these processes, and what shows them; no command that ends one."""
    said = []
    for pid in pids:
        record = case.process(pid)
        if pid == 1:
            said.append("PID 1 is the system's first process and goes on")
        elif record is None:
            said.append(f"Find out whose process {pid} is: {show(pid, None)}")
        else:
            of = record.keeper or ("somebody who is connected to it" if record.connected else "nobody any more")
            said.append(f"Ask {record.user} about PID {pid}, which belongs to {of}: {show(pid, record.keeper)}")
    return "; ".join(said)
