"""Faults of Python environments."""

from __future__ import annotations

from typing import Any

from .faults import Fault, put

EXPECTED = {"framework": "pytorch", "version": "2.13.0", "cuda": "13.0", "python": "3.11", "variables": {"A": "b"}}
GPU = {"name": "NVIDIA L40S", "compute_capability": "8.9", "matmul": True}
ANSWER = {
    "python": "3.11.2",
    "unset": [],
    "failure": None,
    "version": "2.13.0+cu130",
    "cuda": "13.0",
    "architectures": ["sm_75", "sm_86", "sm_90", "compute_90"],
    "cpu_matmul": True,
    "seconds": 2.1,
    "gpus": [GPU],
    "gpu_failure": None,
}


def environment(**answer: Any) -> dict[str, Any]:
    """Return an environment as the module software_proof found it, on a node with one L40S."""
    return {"name": "vision", "expected": EXPECTED, "gpus_tried": True, "answer": {**ANSWER, **answer}}


def fault(name: str, check: str, remediation: str, says: str, severity: str = "fail", **answer: Any) -> Fault:
    """Return the fault that an interpreter answers otherwise."""
    injection = put("environments", [environment(**answer)])
    return Fault(name, "l40s", injection, check, remediation, severity, says=says)


REBUILD = "rebuild_environment"
ENVIRONMENT_FAULTS = [
    fault(
        "a framework that cannot be imported",
        "environments",
        REBUILD,
        "libcudnn",
        failure="ImportError: libcudnn.so.9: cannot open shared object file",
    ),
    fault("a framework in another version", "environments", REBUILD, "2.12.1", version="2.12.1+cu130"),
    fault("a framework without CUDA", "environments", REBUILD, "no CUDA", version="2.13.0", cuda=None, gpus=[GPU]),
    fault("a framework for another CUDA", "environments", REBUILD, "CUDA 12.6", cuda="12.6"),
    fault("a framework that multiplies wrongly", "environments", REBUILD, "on the CPU", cpu_matmul=False),
    fault(
        "a CUDA library that was cut off",
        "environments",
        REBUILD,
        "file too short",
        broken={"nvidia/cu13/lib/libcufft.so.12": "libcufft.so.12: file too short"},
    ),
    Fault(
        "an environment that hangs",
        "l40s",
        put("environments", [{"name": "vision", "expected": EXPECTED, "answer": None}]),
        "environments",
        REBUILD,
        says="no answer",
    ),
    Fault(
        "an environment that was cut off",
        "l40s",
        put("environments", [{"name": "vision", "expected": None, "answer": None}]),
        "environments",
        REBUILD,
        says="altered",
    ),
    fault("an environment that takes all memory", "environment-memory", REBUILD, "does not set A", "warn", unset=["A"]),
    fault(
        "an environment that sees no GPU",
        "environment-gpus",
        "reinstall_driver",
        "driver is too old",
        gpus=[],
        gpu_failure="RuntimeError: the NVIDIA driver is too old",
    ),
    fault(
        "a GPU that computes something else",
        "environment-gpus",
        "contact_support",
        "gives different results on",
        gpus=[{**GPU, "matmul": False}],
    ),
    fault(
        "a framework without kernels for the GPU",
        "environment-kernels",
        "upgrade_software",
        "no kernels",
        architectures=["sm_90", "sm_100"],
    ),
]
