# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nvcc is asked to compile and link, and what it made of it. No GPU is touched."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# Headers of the host's C++ and C libraries come in, for it is there that an nvcc and a system do not fit together.
PROGRAM = """\
#include <cmath>
#include <cstdio>
#include <vector>

__global__ void square(float *values, int count) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) values[index] *= values[index];
}

int main() {
    std::vector<float> host(256, std::sqrt(2.0f));
    float *device = nullptr;
    size_t size = host.size() * sizeof(float);
    if (cudaMalloc(&device, size) != cudaSuccess) return 1;
    cudaMemcpy(device, host.data(), size, cudaMemcpyHostToDevice);
    square<<<1, 256>>>(device, 256);
    cudaMemcpy(host.data(), device, size, cudaMemcpyDeviceToHost);
    std::printf("%f\\n", host[0]);
    return cudaFree(device) != cudaSuccess;
}
"""
_ERROR = re.compile(r"^.*(?:\berror\b|nvcc fatal|undefined reference).*$", re.MULTILINE | re.IGNORECASE)


def targets(compute_capabilities: Iterable[str]) -> list[str]:
    """Return nvcc's options for code for each compute capability, such as "8.9"."""
    numbers = [capability.replace(".", "") for capability in compute_capabilities]
    return [f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers]


def command(
    prefix: str, host_compiler: str | None, compute_capabilities: Iterable[str], source: str, program: str
) -> list[str]:
    """Return the call that compiles source into program, with code for each compute capability."""
    return [
        f"{prefix}/bin/nvcc",
        *(["-ccbin", host_compiler] if host_compiler else []),
        *targets(compute_capabilities),
        "-o",
        program,
        source,
    ]


def first_error(report: str) -> str:
    """Return the line of nvcc's output that says what is wrong."""
    match = _ERROR.search(report)
    lines = report.strip().splitlines()
    return match.group().strip() if match else (lines[-1].strip() if lines else "it printed nothing")


def run(argv: list[str], directory: Path, log: Path, timeout: int) -> str | None:
    """Run a command with its output in a file; return what went wrong."""
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(directory)}
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            return f"{argv[0]} cannot be run: {error.strerror}"
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # nvcc and the compilers that it started
            process.wait()
            return f"it did not end within {timeout} s"
    return first_error(log.read_text(encoding="utf-8", errors="replace")) if status else None


def compile_with(
    toolkit: dict[str, Any], compute_capabilities: list[str], directory: Path, timeout: int
) -> dict[str, Any]:
    """Run a toolkit's nvcc in a directory; return its record."""
    source, program, log = directory / "program.cu", directory / "program", directory / "log"
    source.write_text(PROGRAM, encoding="utf-8")
    program.unlink(missing_ok=True)
    argv = command(toolkit["prefix"], toolkit.get("host_compiler"), compute_capabilities, str(source), str(program))
    started = time.monotonic()
    problem = run(argv, directory, log, timeout)
    if problem is None and not program.is_file():
        problem = "nvcc ended well and left no program"
    return {
        "version": toolkit["version"],
        "prefix": toolkit["prefix"],
        "compute_capabilities": compute_capabilities,
        "seconds": round(time.monotonic() - started, 1),
        "problem": problem,
    }
