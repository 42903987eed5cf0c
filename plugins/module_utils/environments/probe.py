# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program for the interpreter of a Python environment: say what the environment's framework can really do.

    python -I probe.py FRAMEWORK NAME=VALUE...

FRAMEWORK is pytorch, tensorflow or jax; each NAME=VALUE is an environment variable that the interpreter should have.
It needs nothing of gpulab and prints one line of JSON at its end, see probe().
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
import sysconfig
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MISSING = re.compile(r"(\S+): cannot open shared object file: No such file")
UNDEFINED = re.compile(r".*: undefined symbol: (\S+)")
SYMBOL_OF_CUDA = re.compile(r"_*(?:Z\w*?)?(?:cu(?!rl)|nv|nccl)", re.IGNORECASE)
OF_CUDA = re.compile(r"lib(?:cu(?!da\.so)|nv(?!idia-)|nccl)")  # of its libraries, but not the driver's
DRIVER = "libcuda.so.1"
SIZE = 256  # of the matrices: their products are whole numbers below 2**24, which every float32 unit adds up exactly


def probe(framework: str, variables: dict[str, str]) -> dict[str, Any]:
    """Return what was found.

    python, version, cuda: versions; cuda is what the framework was built for, None for a build without CUDA.
    architectures: what its kernels are compiled for, such as sm_90; None where the framework does not tell.
    gpus: the GPUs that it sees, each with name, compute_capability and matmul, whether it computes what the CPU does.
    cpu_matmul: whether the CPU's product is right. unset: the variables that are not as they should be.
    failure: why the framework cannot be imported; gpu_failure: why its GPUs cannot be used. seconds: the import's.
    broken: the libraries of NVIDIA's wheels that cannot be loaded, each with the reason, where it is built for CUDA.
    """
    found: dict[str, Any] = {
        "python": ".".join(map(str, sys.version_info[:3])),
        "unset": sorted(name for name, value in variables.items() if os.environ.get(name) != value),
        "failure": None,
    }
    started = time.monotonic()
    answers = {"pytorch": pytorch, "tensorflow": tensorflow, "jax": jax}[framework]()
    try:
        found.update(next(answers), seconds=round(time.monotonic() - started, 1), gpus=[], gpu_failure=None)
    except Exception as error:  # noqa: BLE001 - a broken environment raises anything
        return {**found, "failure": _told(error)}
    try:
        found["gpus"] = next(answers)
    except Exception as error:  # noqa: BLE001 - so does a broken driver
        found["gpu_failure"] = _told(error)
    if found["cuda"]:
        found["broken"] = broken(sysconfig.get_paths()["purelib"])
    return found


def broken(site: str) -> dict[str, str]:
    """Try to load every library that NVIDIA's wheels brought, and return why some cannot be loaded, by their names.

    Frameworks load some of them only when a GPU computes. A library that needs another maker's, or the driver's, or a
    symbol of another maker's, is passed over: such are for network cards and job launchers that most nodes do not have.
    """
    found = {}
    for path in sorted(Path(site).glob("nvidia/**/lib/*.so*")):
        reason = _loads(str(path))
        if reason and not _needs_another_maker(reason):
            found[str(path.relative_to(site))] = reason.replace(str(path), path.name)
    return found


def _needs_another_maker(reason: str) -> bool:
    missing, undefined = MISSING.match(reason), UNDEFINED.match(reason)
    return bool((missing and not OF_CUDA.match(missing[1])) or (undefined and not SYMBOL_OF_CUDA.match(undefined[1])))


def _loads(library: str) -> str:
    """Load a library and return why it cannot be loaded; nothing where it can."""
    try:
        ctypes.CDLL(library)
    except OSError as error:
        return str(error)
    return ""


def _told(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}".strip().rstrip(":")


def _matrices() -> tuple[list[list[float]], list[list[float]], list[float]]:
    """Return two matrices of small whole numbers, and the first row of their product."""
    left = [[float((3 * row + 5 * column) % 8) for column in range(SIZE)] for row in range(SIZE)]
    right = [[float((7 * row + column) % 8) for column in range(SIZE)] for row in range(SIZE)]
    return left, right, [sum(left[0][k] * right[k][column] for k in range(SIZE)) for column in range(SIZE)]


def pytorch() -> Any:
    """Yield what the build of PyTorch is, then its GPUs."""
    import torch  # noqa: PLC0415 - the import is what is tried

    left, right, first_row = _matrices()
    a, b = torch.tensor(left), torch.tensor(right)
    product = a @ b
    cuda = torch.version.cuda
    yield {
        "version": torch.__version__,
        "cuda": cuda,
        # get_arch_list() answers nothing without a driver
        "architectures": torch._C._cuda_getArchFlags().split() if cuda else None,  # noqa: SLF001
        "cpu_matmul": product[0].tolist() == first_row,
    }
    if cuda and not torch.cuda.is_available():
        torch.cuda.init()  # raises with the reason
    yield [
        {
            "name": torch.cuda.get_device_name(gpu),
            "compute_capability": "{}.{}".format(*torch.cuda.get_device_capability(gpu)),
            "matmul": torch.equal((a.to(f"cuda:{gpu}") @ b.to(f"cuda:{gpu}")).cpu(), product),
        }
        for gpu in range(torch.cuda.device_count() if cuda else 0)
    ]


def tensorflow() -> Any:
    """Yield what the build of TensorFlow is, then its GPUs."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf  # noqa: PLC0415

    left, right, first_row = _matrices()
    build = tf.sysconfig.get_build_info()
    with tf.device("/CPU:0"):
        product = tf.linalg.matmul(left, right).numpy()
    yield {
        "version": tf.__version__,
        "cuda": build.get("cuda_version") if build.get("is_cuda_build") else None,
        "architectures": build.get("cuda_compute_capabilities"),
        "cpu_matmul": product[0].tolist() == first_row,
    }
    if build.get("is_cuda_build"):
        ctypes.CDLL(DRIVER)  # without it TensorFlow does not say why it sees no GPU
    gpus = []
    for number, gpu in enumerate(tf.config.list_physical_devices("GPU")):
        details = tf.config.experimental.get_device_details(gpu)
        with tf.device(f"/GPU:{number}"):
            same = bool((tf.linalg.matmul(left, right).numpy() == product).all())
        capability = ".".join(map(str, details["compute_capability"]))
        gpus.append({"name": details["device_name"], "compute_capability": capability, "matmul": same})
    yield gpus


def jax() -> Any:
    """Yield what the build of JAX is, then its GPUs."""
    from importlib.metadata import distributions  # noqa: PLC0415

    import jax  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    left, right, first_row = _matrices()
    a, b = np.array(left, np.float32), np.array(right, np.float32)
    with jax.default_device(jax.devices("cpu")[0]):
        product = np.asarray(jax.numpy.matmul(a, b))
    plugins = [str(one.metadata["Name"]) for one in distributions()]
    majors = [name.split("cuda")[1].split("-")[0] for name in plugins if name.startswith("jax-cuda")]
    yield {
        "version": jax.__version__,
        "cuda": max(majors, default=None),
        "architectures": None,
        "cpu_matmul": product[0].tolist() == first_row,
    }
    if majors:
        ctypes.CDLL(DRIVER)  # without it JAX says only that it does not know CUDA
    gpus = []
    for gpu in jax.devices("cuda") if majors else []:
        same = bool((np.asarray(jax.numpy.matmul(jax.device_put(a, gpu), jax.device_put(b, gpu))) == product).all())
        gpus.append({"name": gpu.device_kind, "compute_capability": gpu.compute_capability, "matmul": same})
    yield gpus


if __name__ == "__main__":
    # What libraries print goes to standard error, so that the answer alone is on standard output.
    answer_to = os.dup(1)
    os.dup2(2, 1)
    answer = probe(sys.argv[1], dict(pair.split("=", 1) for pair in sys.argv[2:]))
    os.write(answer_to, json.dumps(answer).encode() + b"\n")
