#!/usr/bin/env python3
"""Make a stand-in for the source of NVIDIA's nccl-tests, and its SHA-256: tests/stubs/nccl_tests.py DIRECTORY.

Its Makefile has the variables, the target and the place for programs of the real one; its program measures nothing.
Beside it lies a stand-in for nvcc, that of cuda.py.
"""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
from pathlib import Path

import cuda

FILES = {
    "Makefile": """\
CUDA_HOME ?= /usr/local/cuda
NVCC ?= $(CUDA_HOME)/bin/nvcc

build/all_reduce_perf: src/all_reduce.cu
\tmkdir -p build
\t$(NVCC) $(NVCC_GENCODE) -o $@ $<
""",
    "src/all_reduce.cu": "// stand-in\n",
}


def main() -> None:
    """Write nccl-tests.tar.gz, nccl-tests.sha256 and nvcc."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    archive = directory / "nccl-tests.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, text in FILES.items():
            member = tarfile.TarInfo(f"nccl-tests-2.17.6/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    (directory / "nccl-tests.sha256").write_text(hashlib.sha256(archive.read_bytes()).hexdigest())
    (directory / "nvcc").write_text(cuda.NVCC.format(version="13.1"))


if __name__ == "__main__":
    main()
