#!/usr/bin/env python3
"""Make all that the nodes of the scenario life load beside Debian's packages: tests/stubs/served_life.py DIRECTORY.

nvidia/: a driver, one that replaces it, one that shows one GPU only, CUDA's compiler. toolkit/: the container toolkit.
whl/: PyTorch without CUDA, for any Python. v2/: a registry of images with one image, lab/counter:1, whose one program
writes a line into /data each second. serve.py serves it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from unit.environments import wheels

STUBS = Path(__file__).parent
DRIVERS = ("595.91.07", "595.95.01", "595.96.01:lossy")  # the first is what the plan chooses
COUNTER = r"""
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static void end(int signal) { _exit(128 + signal); }  // the first process of a container ends by no signal of itself
int main(void) {
    signal(SIGTERM, end);
    for (int n = 0;; n++) {
        FILE *file = fopen("/data/count", "a");
        if (file) { fprintf(file, "%d\n", n); fclose(file); }
        sleep(1);
    }
}
"""
TYPE = "application/vnd.docker.{}.v{}"


def image(registry: Path, name: str, tag: str, program: bytes) -> None:
    """Write an image of one program."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as layer:
        entry = tarfile.TarInfo("program")
        entry.size, entry.mode = len(program), 0o755
        layer.addfile(entry, io.BytesIO(program))
        data = tarfile.TarInfo("data")
        data.type, data.mode = tarfile.DIRTYPE, 0o755
        layer.addfile(data)
    unpacked = archive.getvalue()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": ["/program"]},
        "rootfs": {"type": "layers", "diff_ids": [digest(unpacked)]},
    }
    parts = {
        "config": (json.dumps(config).encode(), TYPE.format("container.image", "1+json")),
        "layer": (gzip.compress(unpacked, mtime=0), "application/vnd.docker.image.rootfs.diff.tar.gzip"),
    }
    known = {
        part: {"mediaType": kind, "size": len(text), "digest": digest(text)} for part, (text, kind) in parts.items()
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": TYPE.format("distribution.manifest", "2+json"),
        "config": known["config"],
        "layers": [known["layer"]],
    }
    text = json.dumps(manifest).encode()
    files = {f"blobs/{digest(blob)}": blob for blob, _kind in parts.values()}
    for path, content in {**files, f"manifests/{tag}": text, f"manifests/{digest(text)}": text}.items():
        file = registry / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def compiled(source: str) -> bytes:
    """Return a program that needs no library."""
    with tempfile.TemporaryDirectory() as scratch:
        program = Path(scratch) / "program"
        command = ["cc", "-static", "-Os", "-x", "c", "-o", program, "-"]
        subprocess.run(command, check=True, input=source, text=True)
        return program.read_bytes()


def main() -> None:
    root = Path(sys.argv[1])
    root.mkdir(parents=True, exist_ok=True)
    made = [["nvidia_repository.py", root / "nvidia", "--cuda=13.2", *DRIVERS]]
    made.append(["container_toolkit_repository.py", root / "toolkit", "1.20.0"])
    for stub in made:
        subprocess.run([sys.executable, STUBS / stub[0], *stub[1:]], check=True)
    wheels.torch(root / "whl/cpu", "2.13.0+cpu")
    image(root / "v2", "lab/counter", "1", compiled(COUNTER))


if __name__ == "__main__":
    main()
