"""Faults of the CUDA toolkits; see faults.py."""

from __future__ import annotations

from typing import Any

from .faults import Fault, put

OLD, NEW = ({"version": version, "prefix": f"/usr/local/cuda-{version}"} for version in ("12.9", "13.2"))
PLAN: dict[str, Any] = {"cuda": {"toolkits": [OLD, NEW], "default": "12.9", "home": "/usr/local/cuda"}}
FORWARD = {**NEW, "compat": "/usr/local/cuda-13.2/compat"}
COMPAT_PLAN: dict[str, Any] = {"cuda": {"toolkits": [{**OLD, "compat": None}, FORWARD], "default": "12.9"}}
NVCC_ERROR = "nvcc fatal   : Unsupported gpu architecture 'compute_120'"


def compiled(problem: str | None) -> dict[str, Any]:
    """Return what the module software_proof says of a toolkit."""
    return {**OLD, "compute_capabilities": ["12.0"], "seconds": 2.1, "problem": problem}


CUDA_FAULTS = [
    Fault(
        "a planned CUDA toolkit is missing",
        "rtx4090x2",
        put("cuda", {"toolkits": [OLD], "default": OLD["prefix"]}),
        "cuda-plan",
        "install_software",
        plan=PLAN,
        says="CUDA 13.2 is not installed",
    ),
    Fault(
        "the default CUDA toolkit is another one",
        "h100x8",
        put("cuda", {"toolkits": [OLD, NEW], "default": NEW["prefix"]}),
        "cuda-plan",
        "configure",
        plan=PLAN,
        says="/usr/local/cuda points to another toolkit",
    ),
    Fault(
        "the planned cuda-compat is missing",
        "h100x8",
        put("cuda", {"toolkits": [OLD, NEW], "default": OLD["prefix"], "compat": ["/usr/local/cuda-12.9/compat"]}),
        "cuda-compat",
        "install_software",
        plan=COMPAT_PLAN,
        says="cuda-compat of CUDA 13.2 is not installed",
    ),
    Fault(
        "nvcc does not know the GPU",
        "l40s",
        put("cuda_compiled", [compiled(None), compiled(NVCC_ERROR)]),
        "cuda-compiler",
        "configure",
        says="Unsupported gpu architecture",
    ),
]
