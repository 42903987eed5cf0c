# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that are programs of the node: PyTorch, nccl-tests, docker. Each has a deadline, and leaves nothing running."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.active import all_reduce_program, matmul_program

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.active.shapes import (
        Ended,
        InContainer,
        NvmlGpu,
        TestedGpu,
        Together,
        Tried,
    )

NCCL_TEST = "all_reduce_perf"
CONTAINER_STOP_SECONDS = 20.0
_DIED_LINES = 3  # of what a failed program printed, the last
_BUS_BANDWIDTH, _WRONG = 7, 8  # columns of nccl-tests, out of place: size count type redop root time algbw busbw #wrong


class Program:
    """A started program in a process group of its own, its output kept in files so that it never waits for a reader."""

    def __init__(
        self,
        argv: list[str],
        seconds: float,
        source: bytes = b"",
        environment: dict[str, str] | None = None,
        patience: float = 0.0,
    ) -> None:
        """Start it; source is what it reads from its standard input. Raises OSError where it cannot be started.

        patience is how many seconds it has, when it is late, to end what it started in process groups of their own.
        """
        self._seconds = seconds
        self._patience = patience
        self._deadline = time.monotonic() + seconds
        self._out, self._errors, source_file = (tempfile.TemporaryFile() for _file in range(3))  # noqa: SIM115
        source_file.write(source)
        source_file.seek(0)
        self._process = subprocess.Popen(
            argv,
            stdin=source_file,
            stdout=self._out,
            stderr=self._errors,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C", **(environment or {})},
        )

    def finish(self) -> Ended:
        """Wait for its end or its deadline. Return state (done, failed, late), ``output``, and ``error`` of a failure.

        Raises OSError where what it printed cannot be read.
        """
        try:
            status = self._process.wait(max(0.0, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.stop()
            return {"state": "late", "seconds": self._seconds, "output": self._text(self._out)}
        if status:
            printed = (self._text(self._errors) or self._text(self._out)).splitlines()
            said = " | ".join(line.strip() for line in printed[-_DIED_LINES:])
            return {"state": "failed", "error": {"code": status, "name": said}, "output": self._text(self._out)}
        return {"state": "done", "output": self._text(self._out)}

    def stop(self) -> None:
        """Kill it and its children, and do not wait for their death: one may be stuck in the kernel."""
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            if self._patience:
                os.killpg(self._process.pid, signal.SIGTERM)
                self._process.wait(self._patience)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    @staticmethod
    def _text(file: Any) -> str:
        file.seek(0)
        return str(file.read().decode("utf-8", "replace")).strip()


class TorchTest:
    """matmul_program.py, run by an interpreter of the node on one GPU."""

    def __init__(self, python: str, gpu: TestedGpu | NvmlGpu, seconds: float, *arguments: str) -> None:
        """Start it."""
        environment = {"CUDA_VISIBLE_DEVICES": gpu["uuid"]}
        self._program = Program([python, "-", *arguments], seconds, source(matmul_program), environment)

    def finish(self) -> Tried:
        """Return its record; what it measured before it failed or was late is kept."""
        record: Tried = _with_values(self._program.finish())
        return record


def all_reduce(python: str | None, gpus: list[TestedGpu], seconds: float) -> Together:
    """Measure the collective over these GPUs with nccl-tests where the node has them, else by PyTorch."""
    visible = {"CUDA_VISIBLE_DEVICES": ",".join(gpu["uuid"] for gpu in gpus)}
    nccl_test = shutil.which(NCCL_TEST)
    if nccl_test:
        argv = [nccl_test, "-b", "1G", "-e", "1G", "-g", str(len(gpus)), "-n", "20"]
        record = Program(argv, seconds, environment=visible).finish()
        values = nccl_test_values(record.pop("output"))
        return {"gpus": len(gpus), **record, **values}
    if not python:
        reason = f"there is neither {NCCL_TEST} in the PATH nor an interpreter with PyTorch"
        return {"state": "skipped", "reason": reason, "lacks_pytorch": True}
    with tempfile.TemporaryDirectory() as directory:
        ranks = [
            Program(
                [python, "-", str(Path(directory) / "store"), str(rank), str(len(gpus))],
                seconds,
                source(all_reduce_program),
                visible,
            )
            for rank in range(len(gpus))
        ]
        records = [program.finish() for program in ranks]
    # One that failed is the cause of others that waited for it.
    cause = next((record for record in records if record["state"] == "failed"), records[0])
    return {"gpus": len(gpus), **_with_values(cause)}


def nccl_test_values(output: str) -> Together:
    """Parse what all_reduce_perf prints: the best bus bandwidth in GB/s, and all wrong elements."""
    rows = [line.split() for line in output.splitlines() if re.match(r"\s*\d+\s+\d+\s+\w+\s+\w+", line)]
    rows = [row for row in rows if len(row) > _WRONG]
    if not rows:
        return {}
    wrong = [int(row[_WRONG]) for row in rows if row[_WRONG].isdigit()]
    return {
        "by": "nccl-tests",
        "all_reduce_gbs": max(float(row[_BUS_BANDWIDTH]) for row in rows),
        "wrong": sum(wrong) if wrong else None,
    }


def container(image: str, gpus: int, seconds: float) -> InContainer:
    """Let Docker run nvidia-smi in an image that the node already has, and count the GPUs it sees.

    A late one is removed by its name: it is the daemon's child, and lives on with all GPUs when its client is killed.
    """
    docker = shutil.which("docker")
    if not docker:
        return {"image": image, "state": "failed", "error": {"code": None, "name": "docker is not installed"}}
    name = f"gpulab-verify-{uuid.uuid4().hex[:12]}"
    options = ["--rm", f"--name={name}", "--pull=never", "--network=none", "--gpus=all"]
    record = Program([docker, "run", *options, image, "nvidia-smi", "-L"], seconds).finish()
    if record["state"] == "late":
        Program([docker, "rm", "--force", name], CONTAINER_STOP_SECONDS).finish()
    seen = len(re.findall(r"^GPU \d+:", record.pop("output"), re.MULTILINE))
    return {"image": image, "expected": gpus, "seen": seen, **record}


def source(module: Any) -> bytes:
    """Return a module's own text, also where Ansible runs it out of an archive."""
    text: bytes = module.__loader__.get_data(module.__file__)
    return text


def _with_values(ended: Ended) -> Any:
    """Put the values that a program printed, lines of JSON, into its record."""
    record: Any = ended
    for line in record.pop("output").splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            continue
        if isinstance(values, dict):
            record.update(values)
    return record
