# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs that slurmd runs as root on a node: before a job, after it, and every few minutes.

Before and after a job, Slurm takes nothing but the exit status: other than 0 drains the node, and the job waits again.
These two ask Slurm nothing, for hundreds of jobs may start at once (https://slurm.schedmd.com/prolog_epilog.html).
The third one sets the reason that people read. None of them waits longer than its deadline.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import syslog
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.child import Child
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job, Node
from ansible_collections.gpulab.node.plugins.module_utils.facts import users
from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import owner
from ansible_collections.gpulab.node.plugins.module_utils.nvml import library as nvml
from ansible_collections.gpulab.node.plugins.module_utils.nvml import query
from ansible_collections.gpulab.node.plugins.module_utils.slurm import control
from ansible_collections.gpulab.node.plugins.module_utils.slurm_node import judge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import Nvml

PROLOG_SECONDS, HEALTH_SECONDS = 5.0, 20.0  # what the driver has to answer in
AGAIN_SECONDS = 2.0  # until the driver is looked at again that serves nobody: it may just be being loaded
KILL_SECONDS = 5.0  # what a killed process has to end in
RUN = "health"
SETTINGS = Path(__file__).parents[6] / "node.json"


def say(line: str) -> None:
    """Write a line to the log, and to the log of slurmd."""
    syslog.openlog("gpulab-slurm", 0, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_ERR, line)
    sys.stdout.write(f"{line}\n")


def answers(seconds: float, library: str = nvml.LIBRARY) -> Nvml:
    """Read the facts ``nvml``; they say so where the driver is late."""

    def read(emit: Callable[[Any], None]) -> None:
        query.take_name()
        query.read_node(emit, library)

    child = Child(read, seconds)
    outcome = child.wait()
    return query.assemble(child.messages, outcome, child.reason)


def confirmed(look: Callable[[float], Nvml], seconds: float) -> Nvml:
    """Return what a driver answers; one that serves nobody is looked at twice before that counts."""
    read = look(seconds)
    if judge.is_broken(read):
        time.sleep(AGAIN_SECONDS)
        read = look(seconds)
    return read


def prolog(environment: Mapping[str, str], settings: Mapping[str, int], look: Callable[[float], Nvml]) -> int:
    """Return 0 where the GPUs of a job are fit for it, 1 with a line in the log where not."""
    wanted = environment.get("SLURM_JOB_GPUS", "")
    if not wanted:
        return 0
    read = confirmed(look, PROLOG_SECONDS)
    found = judge.findings(read, settings["gpus"], judge.numbers(wanted) or None)
    if read["state"] == judge.LATE:
        say(f"job {environment.get('SLURM_JOB_ID')}: its GPUs could not be looked at ({read['state']})")
    for told in found:
        say(f"job {environment.get('SLURM_JOB_ID')}: {told}")
    return 1 if found else 0


def left_over(node: Node, job: str, user: str, minors: list[int]) -> tuple[list[int], list[int]]:
    """Return the processes that have a GPU of a job open: those that are the job's own, and all others.

    The job's own have its number in their environment, and its user.
    """
    devices = {f"/dev/nvidia{minor}" for minor in minors}
    mine: list[int] = []
    others: list[int] = []
    for pid, device in users.holders(node, os.getpid())[0].items():
        if device not in devices:
            continue
        told = f"SLURM_JOB_ID={job}" in node.text(f"/proc/{pid}/environ").split("\0")
        uid = owner(node, pid)
        if uid is not None:
            (mine if told and str(uid) == user else others).append(pid)
    return mine, others


def epilog(environment: Mapping[str, str], node: Node) -> int:
    """End what a job left on its GPUs; return 1 where it cannot be ended. Nothing of anybody else's is touched."""
    job, user = environment.get("SLURM_JOB_ID", ""), environment.get("SLURM_JOB_UID", "")
    minors = judge.numbers(environment.get("SLURM_JOB_GPUS", ""))
    if not (job and user and minors):
        return 0
    mine, others = left_over(node, job, user, minors)
    if others:
        say(f"job {job}: its GPUs are open in processes that are not its own: {', '.join(map(str, others))}")
    end = time.monotonic() + KILL_SECONDS
    while mine and time.monotonic() < end:
        for pid in mine:
            say(f"job {job}: ends process {pid}, which it left on its GPU")
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.2)
        mine = left_over(node, job, user, minors)[0]
    if mine:
        say(f"job {job}: {', '.join(map(str, mine))} cannot be ended")
    return 1 if mine else 0


def health(
    hostname: str,
    settings: Mapping[str, int],
    look: Callable[[float], Nvml],
    ask: Callable[[list[str]], str | None],
) -> int:
    """Drain the node with what is wrong with its GPUs as the reason. Return 0: slurmd takes nothing else from it.

    A drain that somebody set is left as it is, but for the reason of a prolog that failed, which says nothing. A node
    is never brought back: that is done after a proof. ask runs a command and returns what it prints.
    """
    found = judge.findings(confirmed(look, HEALTH_SECONDS), settings["gpus"])
    if not found:
        return 0
    why = control.reason(RUN, "; ".join(found))
    nodes = control.nodes(ask(list(control.SHOW_NODES)) or "")
    own = control.own(nodes, hostname)
    if own is None or (own.drained and not own.reason.startswith(("Prolog", "Epilog", "batch job"))):
        return 0
    others = [node.reason or "drained" if node.drained else "" for node in nodes if node is not own]
    if not own.drained and not judge.may_drain([*others, ""], settings["most_drained"]):
        say(f"{why}; the node is not drained, as {sum(map(bool, others))} others are")
        return 0
    say(why)
    ask(control.drain(own.name, why))
    return 0


def read_settings(path: Path) -> dict[str, int]:
    """Return {"gpus", "most_drained"} from the file that the role wrote, JSON below a comment that says so."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found: dict[str, int] = json.loads("\n".join(line for line in lines if not line.startswith("#")))
    return found


def main(name: str) -> None:
    """Be the program of this name. Whatever goes wrong in it does not drain a node."""
    try:
        settings = read_settings(SETTINGS)
        if name == "prolog":
            status = prolog(os.environ, settings, answers)
        elif name == "epilog":
            status = epilog(os.environ, Node())
        else:
            status = health(os.uname().nodename, settings, answers, lambda argv: Job(argv, HEALTH_SECONDS).output())
    except Exception as error:  # noqa: BLE001 - whatever it is
        say(f"{name}: {type(error).__name__}: {error}")
        status = 0
    raise SystemExit(status)
