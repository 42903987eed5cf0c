# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container that Docker really starts: without a GPU, a network and a download, from an image that is made here.

The image holds one program of some 200 bytes, which says that it runs. Nothing of it stays.
"""

from __future__ import annotations

import io
import os
import signal
import struct
import subprocess
import tarfile
import time
import uuid
from typing import Any, Callable

from ansible_collections.gpulab.node.plugins.module_utils.core.processors import AMD64, ELF_MACHINES

SAYS = "gpulab: a container has started\n"
PROGRAM = "start"
LABEL = "gpulab.proof=start"
LEAST_SECONDS = 5.0  # that a command has although all the time is gone, so that nothing stays
LEFT_OVER = "15m"  # what a proof that was killed has left is older than this; another proof's is not
SOCKET = "unix:///run/docker.sock"
_BASE, _HEADERS = 0x400000, 64 + 56

Run = Callable[[list[str], bytes], "tuple[int | None, str, str]"]


def program(machine: str) -> bytes:
    """Return a program for Linux that writes SAYS and ends; machine is x86_64 or aarch64. Raises KeyError."""
    code = _code(machine)
    size = _HEADERS + len(code)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack("<HHIQQQIHHHHHH", 2, ELF_MACHINES[machine], 1, _BASE + _HEADERS, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x10000)
    return ident + header + segment + code


def _code(machine: str) -> bytes:
    """Return write(1, SAYS, its length) and exit(0), as the machine has them, and SAYS itself."""
    text = SAYS.encode()
    if machine == AMD64:
        end = bytes.fromhex("0f05 b83c000000 31ff 0f05")  # syscall; mov eax, 60; xor edi, edi; syscall
        length = b"\xba" + struct.pack("<I", len(text))  # mov edx, length
        start = bytes.fromhex("b801000000 bf01000000 488d35")  # mov eax, 1; mov edi, 1; lea rsi, [rip + distance]
        return start + struct.pack("<I", len(length) + len(end)) + length + end + text
    words = [
        0xD2800020,  # mov x0, 1
        0x10000001 | 7 << 5,  # adr x1, 7 instructions on
        0xD2800002 | len(text) << 5,  # mov x2, length
        0xD2800808,  # mov x8, 64
        0xD4000001,  # svc 0
        0xD2800000,  # mov x0, 0
        0xD2800BA8,  # mov x8, 93
        0xD4000001,  # svc 0
    ]
    return struct.pack("<8I", *words) + text


def image(machine: str) -> bytes:
    """Return the tar archive of the image's root directory. Raises KeyError for a machine that is not known."""
    data, archive = program(machine), io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        file = tarfile.TarInfo(PROGRAM)
        file.size, file.mode = len(data), 0o755
        tar.addfile(file, io.BytesIO(data))
    return archive.getvalue()


def start(machine: str, seconds: float, run: Run | None = None) -> dict[str, Any]:
    """Start the container and remove all of it; return {"problem", "seconds"}: None where it started, and how long."""
    began = time.monotonic()
    call = run or within(seconds)
    problem = _start(machine, call)
    for kind in ("container", "image"):  # of a proof that was killed
        call(["docker", kind, "prune", "--force", f"--filter=label={LABEL}", f"--filter=until={LEFT_OVER}"], b"")
    return {"problem": problem, "seconds": round(time.monotonic() - began, 1)}


def _start(machine: str, call: Run) -> str | None:
    if machine not in ELF_MACHINES:
        return f"gpulab has no program for {machine}"
    options = [f'--change=ENTRYPOINT ["/{PROGRAM}"]', f"--change=LABEL {LABEL}"]
    status, output, errors = call(["docker", "import", *options, "-"], image(machine))
    made = output.strip()
    if status != 0 or not made:
        return _said("docker import", status, errors)
    name = f"gpulab-proof-{uuid.uuid4().hex[:12]}"
    apart = ["--rm", "--pull=never", "--network=none", "--cap-drop=ALL", "--read-only", f"--label={LABEL}"]
    status, output, errors = call(["docker", "run", f"--name={name}", *apart, made], b"")
    problem = None if (status, output) == (0, SAYS) else _said("docker run", status, errors or output)
    if problem:
        call(["docker", "rm", "--force", name], b"")
    status, output, errors = call(["docker", "image", "rm", made], b"")
    return problem or (None if status == 0 else _said("docker image rm", status, errors))


def _said(command: str, status: int | None, text: str) -> str:
    """Return what a command that failed printed last, without the advice to read the manual."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "--help'" not in line]
    if status is None:
        return f"{command} did not end in time{f': {lines[-1]}' if lines else ''}"
    return f"{command}: {lines[-1] if lines else f'status {status} and not a word'}"


def within(seconds: float) -> Run:
    """Return what runs a command and returns (status, output, errors); the status is None where it was too slow.

    seconds are for all commands together.
    """
    deadline = time.monotonic() + seconds

    def run(argv: list[str], given: bytes) -> tuple[int | None, str, str]:
        environment = {**os.environ, "LC_ALL": "C", "DOCKER_HOST": SOCKET}
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        try:
            output, errors = process.communicate(given, timeout=max(LEAST_SECONDS, deadline - time.monotonic()))
            status: int | None = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            status = None
        return status, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace")

    return run
