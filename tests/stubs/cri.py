#!/usr/bin/env python3
"""Start a pod with one container as Kubernetes' kubelet does, by containerd's CRI; print what the container prints.

    cri.py IMAGE DEVICE[,DEVICE] COMMAND...        DEVICE: a name of CDI; - for none

It stands in for the kubelet and asks the same service (runtime.v1); the field numbers are those of Kubernetes'
api.proto. The pod has its host's network, and is removed.
"""

from __future__ import annotations

import sys
import tempfile
import time
import uuid
from pathlib import Path

import grpc

SOCKET, SERVICE = "unix:///run/containerd/containerd.sock", "/runtime.v1.RuntimeService/"
NODE, SECONDS, EXITED = 2, 60, 2


def number(value: int) -> bytes:
    """Return a number as protobuf has it."""
    return bytes([value]) if value < 128 else bytes([value % 128 + 128]) + number(value // 128)


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """Return a message of (field number, value)."""
    made = b""
    for key, value in fields:
        if isinstance(value, int):
            made += number(key << 3) + number(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            made += number(key << 3 | 2) + number(len(data)) + data
    return made


def fields(data: bytes) -> dict[int, int | bytes]:
    """Return the fields of a message, the last one of each number."""
    found: dict[int, int | bytes] = {}
    while data:
        key, data = _number(data)
        length, data = _number(data)
        found[key >> 3] = length
        if key & 7 == 2:
            found[key >> 3], data = data[:length], data[length:]
    return found


def _number(data: bytes) -> tuple[int, bytes]:
    rest = 0
    if data[0] >= 128:
        rest, after = _number(data[1:])
        return data[0] - 128 + rest * 128, after
    return data[0], data[1:]


def main() -> None:
    """Run the pod."""
    image, devices, *command = sys.argv[1:]
    channel = grpc.insecure_channel(SOCKET)

    def ask(method: str, *given: tuple[int, int | str | bytes]) -> dict[int, int | bytes]:
        return fields(channel.unary_unary(SERVICE + method)(message(*given), timeout=SECONDS))

    with tempfile.TemporaryDirectory() as logs:
        names = message((1, "pod"), (2, uuid.uuid4().hex), (3, "default"))
        namespaces = message((2, message((1, message((1, NODE))))))
        sandbox = message((1, names), (3, logs), (8, namespaces))
        pod = ask("RunPodSandbox", (1, sandbox))[1]
        wanted = [(17, message((1, name))) for name in devices.split(",") if name != "-"]
        container = message(
            (1, message((1, "c"))),
            (2, message((1, image))),
            *((3, word) for word in command),
            (11, "log"),
            (15, message((2, b""))),
            *wanted,
        )
        try:
            made = ask("CreateContainer", (1, pod), (2, container), (3, sandbox))[1]
            ask("StartContainer", (1, made))
            while fields(ask("ContainerStatus", (1, made))[1]).get(3, 0) != EXITED:
                time.sleep(0.2)
            for line in Path(logs, "log").read_text(encoding="utf-8").splitlines():
                print(line.split(" ", 3)[3])
        finally:
            ask("StopPodSandbox", (1, pod))
            ask("RemovePodSandbox", (1, pod))


if __name__ == "__main__":
    main()
