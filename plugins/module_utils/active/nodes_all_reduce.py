# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node's part of an all_reduce over several nodes: meet the others, let torchrun start processes, report."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.active import nodes_all_reduce_program, programs, roll_call

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.active.shapes import Across, Ended

START_LINE = "/etc/gpulab/torchrun.sh"  # of the role nccl
IMPORT_SECONDS = 120.0
ROUND_SECONDS = 10.0  # for the nodes to tell each other how far they came; their deadlines end together
PATIENCE = 5.0  # for torchrun to end its processes, each of which leads a session
NOWHERE = "nothing"


@dataclass(frozen=True)
class Part:
    """What this node does: nodes in order, the first has address; own_address is this one's, gpus are its GPUs' uuids.

    taking_part says of each node how many GPUs take part, and how many it has.
    seconds is how long the nodes wait for each other, program_seconds what the run itself may take.
    """

    nodes: tuple[str, ...]
    name: str
    address: str
    port: int
    run: str
    backend: str
    interface: str
    own_address: str
    python: str
    gpus: tuple[str, ...] = ()
    taking_part: dict[str, list[int]] = field(default_factory=dict)
    seconds: float = 60.0
    program_seconds: float = 180.0
    start_line: str = START_LINE


def measure(part: Part) -> Across:
    """Return the record of the run as this node saw it.

    ``state`` is done (with ``wrong``, ``algorithm_gbs``, ``all_reduce_gbs``), failed (``error``), late (``seconds``;
    ``stands`` tells how far each node came), missing (``missing``: other nodes, and why), or unreachable (``reason``).
    """
    cannot = _cannot(part.python)
    why = cannot["error"]["name"] if cannot else None
    call = roll_call.RollCall(part.nodes, part.name, part.address, part.port, part.run, part.seconds, why)
    about: Across = {
        "backend": part.backend,
        "name": part.name,
        "nodes": list(part.nodes),
        "meeting_point": call.meeting_point,
        "interface": part.interface,
        "taking_part": part.taking_part,
    }
    try:
        if cannot:
            roll_call.attend(call)  # so that the others hear why
        return {**about, **(cannot or _meet(part, call))}
    except OSError as error:
        return {**about, **call.failed(error)}


def _meet(part: Part, call: roll_call.RollCall) -> Across:
    """Meet the others and run; where the run does not end, ask all how far they came."""
    met = roll_call.attend(call)
    if "unreachable" in met:
        return {"state": "unreachable", "reason": met["unreachable"], "seconds": part.seconds}
    if met["missing"]:
        return {"state": "missing", "missing": met["missing"]}
    record = _run(part)
    if record["state"] == "late":
        again = replace(call, run=f"{call.run} stands", seconds=ROUND_SECONDS, cannot=record["phase"] or NOWHERE)
        with contextlib.suppress(OSError):  # what holds the port still hangs itself
            record["stands"] = roll_call.attend(again).get("missing", {})
    return record


def _cannot(python: str) -> Across | None:
    """Return why an interpreter has no PyTorch, or None."""
    try:
        record = programs.Program([python, "-c", "import torch.distributed"], IMPORT_SECONDS).finish()
    except OSError as error:
        return {"state": "failed", "error": {"code": None, "name": f"{python}: {error.strerror}"}}
    if record["state"] == "late":
        return {"state": "failed", "error": {"code": None, "name": f"{python} does not load PyTorch"}}
    return {"state": "failed", "error": record["error"]} if record["state"] == "failed" else None


def _run(part: Part) -> Across:
    """Let torchrun start a process for each GPU, or one where there are none, and gather what they say."""
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "nodes_all_reduce.py"
        program.write_bytes(programs.source(nodes_all_reduce_program))
        argv = [*_torchrun(part, directory), str(program), part.backend, str(int(part.program_seconds))]
        record = programs.Program(
            argv, part.program_seconds, environment=_environment(part), patience=PATIENCE
        ).finish()
    lines = [said for said in map(_said, record.pop("output").splitlines()) if said]
    failures = [said["failure"] for said in lines if "failure" in said]
    if failures and record["state"] == "failed":
        record["error"] = {"code": None, "name": failures[0]}
    phases = [said["phase"] for said in lines if "phase" in said]
    measured = [said for said in lines if "all_reduce_gbs" in said]
    if record["state"] != "done" or not measured:
        ended: Ended = {"state": "failed", "error": {"code": None, "name": "no process measured"}}
        return {**(ended if record["state"] == "done" else record), "phase": phases[-1] if phases else None}
    slowest: Any = min(measured, key=lambda said: said["all_reduce_gbs"])
    return {**record, **slowest, "wrong": sum(said["wrong"] for said in measured)}


def _torchrun(part: Part, directory: str) -> list[str]:
    """Return how torchrun is started: by the role nccl's line where the node has it, else in the same way."""
    own = [
        f"--local-addr={part.own_address}",
        f"--rdzv-conf=is_host={int(part.name == part.nodes[0])}",  # torchrun's own guess goes by names and addresses
        f"--log-dir={directory}",
        "--max-restarts=0",
    ]
    if Path(part.start_line).is_file():
        return ["sh", part.start_line, *own]
    given = _environment(part)
    return [
        part.python,
        "-m",
        "torch.distributed.run",
        f"--nnodes={given['NODES']}",
        f"--nproc-per-node={given['PROCESSES']}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={given['RENDEZVOUS']}",
        f"--rdzv-id={given['JOB']}",
        *own,
    ]


def _environment(part: Part) -> dict[str, str]:
    return {
        "NODES": str(len(part.nodes)),
        "PROCESSES": str(len(part.gpus) or 1),
        "RENDEZVOUS": f"{part.address}:{part.port}",
        "JOB": part.run,
        "PATH": f"{Path(part.python).parent}:{os.environ.get('PATH', os.defpath)}",
        "CUDA_VISIBLE_DEVICES": ",".join(part.gpus),
        "GLOO_SOCKET_IFNAME": part.interface,
        "NCCL_SOCKET_IFNAME": f"={part.interface}",
        "OMP_NUM_THREADS": "1",
    }


def _said(line: str) -> dict[str, Any] | None:
    try:
        values = json.loads(line)
    except ValueError:
        return None
    return values if isinstance(values, dict) else None
