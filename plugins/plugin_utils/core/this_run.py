# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What identifies a run of ansible-playbook (see module_utils/core/run_lock.py), and whether a run still lives."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

from ansible_collections.gpulab.node.plugins.module_utils.core.run_lock import Run, same

PROC = Path("/proc")


def this_run(pid: int) -> Run:
    """Return the run that a process is."""
    return {
        "user": _user(),
        "machine": socket.gethostname(),
        "boot": _boot(),
        "pid": pid,
        "started": _started(pid),
    }


def is_dead(run: Run) -> bool:
    """Tell whether a run of this machine has ended. False for runs of other machines, which nobody can check here."""
    here = this_run(run["pid"])
    of_here = bool(_boot()) and (run["machine"], run["boot"]) == (here["machine"], here["boot"])
    return of_here and not same({**run, "user": here["user"]}, here)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a number without a name, as in a container
        return str(os.getuid())


def _boot() -> str:
    """Return what names this boot and this view of its processes; empty where there is no /proc."""
    try:
        return f"{(PROC / 'sys/kernel/random/boot_id').read_text().strip()} {(PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> int:
    """Return when a process started, in the kernel's ticks; 0 where it is not there."""
    try:
        return int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0
