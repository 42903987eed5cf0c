"""Evidence as the module gathers it, of healthy nodes: the only place in these tests that knows how it is laid out."""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts
from ansible_collections.gpulab.node.plugins.module_utils.core.records import typed
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import Evidence, ExaminedProcess
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import ALL, Asked, Case

from unit.checks import nodes

VENV = "/home/anna/venv"
SITE = f"{VENV}/lib/python3.11/site-packages"
ENVIRONMENT: dict[str, Any] = {
    "prefix": VENV,
    "python": "python3.11",
    "conda": False,
    "packages": {
        "torch": "2.9.1+cu128",
        "triton": "3.5.1",
        "nvidia-cudnn-cu12": "9.10.2.21",
        "nvidia-nccl-cu12": "2.27.5",
        "nvidia-cublas-cu12": "12.8.4.1",
    },
    "torch_cuda": "12.8",
    "libraries": [
        {"library": "cudnn", "major": "9", "path": f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", "version": "9.10.2.21"},
        {"library": "nccl", "major": "2", "path": f"{SITE}/nvidia/nccl/lib/libnccl.so.2", "version": "2.27.5"},
    ],
    "user_site": "/home/anna/.local/lib/python3.11/site-packages",
    "user_packages": {},
    "headers": True,
}
MACHINE: dict[str, Any] = {
    "load": 0.4,
    "governors": {"schedutil": 64},
    "pressure": {"cpu": 0.1, "io": 0.0, "memory": 0.0},
    "compilers": {"cc": "/usr/bin/cc", "gcc": "/usr/bin/gcc", "c++": "/usr/bin/c++"},
    "devices": {"/dev/nvidia0": True, "/dev/nvidiactl": True, "/dev/nvidia-uvm": True},
    "killed": [],
    "tmp_noexec": False,
    "shared_memory": {"size_mib": 32768, "free_mib": 32000},
}


def process(pid: int, **changes: Any) -> dict[str, Any]:
    """Return the record of a program that trains on a GPU; environment adds to the variables."""
    environment = {"HOME": "/home/anna", "PATH": "/usr/bin", **changes.pop("environment", {})}
    return {
        "pid": pid,
        "parent": 900,
        "user": "anna",
        "command": "python3",
        "state": "R",
        "since": "2026-11-26T08:00:00Z",
        "waits": None,
        "ticks": 1000,
        "rss_mib": 4000,
        "later_mib": 4000,
        "swap_mib": 0,
        "cpus": 64,
        "container": None,
        "group": "/user.slice/user-1000.slice/session-3.scope",
        "throttled": None,
        "files": 60,
        "limits": {"memlock": "unlimited", "nofile": 1048576},
        "shared_memory": {"size_mib": 32768, "free_mib": 32000},
        "arguments": f"{VENV}/bin/python3 train.py",
        "environment": environment,
        "executable": "/usr/bin/python3.11",
        "libraries": [f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", f"{SITE}/nvidia/nccl/lib/libnccl.so.2"],
        "sites": [SITE],
        "remote": [],
        "sockets": [],
        "keeper": "session 3",
        "connected": False,
        "terminal": None,
        "cores": 1.0,
        "stack": [],
        "ended": False,
        **changes,
    }


def record(pid: int, **changes: Any) -> ExaminedProcess:
    """Return such a record as the code on the node has it."""
    return typed(process(pid, **changes), ExaminedProcess)


def evidence(facts: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the evidence of a healthy and idle node with these facts."""
    gpus = [
        {
            "index": gpu["index"],
            "bus_id": gpu["bus_id"],
            "total_mib": total if isinstance(total := gpu["memory_mib"]["total"], int) else None,
            "used_mib": 4 if isinstance(total, int) else None,
            "later_mib": 4 if isinstance(total, int) else None,
            "utilization": 0,
            "power_mw": 70000,
            "limit_mw": 350000,
            "holders": [],
        }
        for gpu in facts["nvml"]["gpus"]
    ]
    return {
        "seconds": 3.0,
        "late": [],
        "stuck": None,
        "gpus": gpus,
        "processes": [],
        "busy": [],
        "waiting": [],
        "locks": [],
        "machine": copy.deepcopy(MACHINE),
        "mounts": [{"mount": "/data", "type": "nfs4", "source": "server:/data", "milliseconds": 0.4}],
        "settings": [],
        "toolkits": [{"prefix": "/usr/local/cuda-12.8", "version": "12.8.1", "own": False, "settings": []}],
        "directories": [],
        "linker": [
            {"library": "cudnn", "major": "9", "path": "/usr/lib/libcudnn.so.9", "version": "9.14.0", "files": []}
        ],
        "environments": [],
        "hostname": {"name": "node1", "addresses": ["10.1.2.3"], "problem": None},
        "names": [],
        "servers": [],
        "listeners": [],
        "connecting": [],
        "proxies": [],
        "dumps": [],
        "nccl_logs": [],
        **changes,
    }


def holds(found: dict[str, Any], gpu: int, pid: int, mib: int, later: int | None = None) -> None:
    """Let a process hold memory of a GPU."""
    record = found["gpus"][gpu]
    record["holders"].append({"pid": pid, "memory_mib": mib, "later_mib": mib if later is None else later})
    record["used_mib"] += mib
    record["later_mib"] += mib if later is None else later


def at_work(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the evidence of a healthy node on which one user's job works on every GPU."""
    found = evidence(facts, environments=[copy.deepcopy(ENVIRONMENT)])
    size = len(found["gpus"])
    found["processes"].append(process(1000, command="torchrun", cores=0.0, state="S"))
    for gpu in found["gpus"]:
        rank = gpu["index"]
        told = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
        told.update({"MASTER_ADDR": "node1", "MASTER_PORT": "29500"})
        found["processes"].append(process(1001 + rank, parent=1000, environment=told))
        gpu.update(utilization=98, power_mw=330000)
        if gpu["total_mib"] is not None:
            holds(found, rank, 1001 + rank, gpu["total_mib"] * 8 // 10)
    found["servers"] = [{"host": "node1", "port": 29500, "state": "open", "certificate": None}]
    found["names"] = [{"name": "node1", "addresses": ["10.1.2.3"], "problem": None}]
    found["listeners"] = [{"port": 29500, "pid": 1001, "user": "anna", "command": "python3"}]
    return found


def case(facts: dict[str, Any], found: dict[str, Any], symptom: str = ALL, **asked: Any) -> Case:
    """Return what the rules look at, with the project's own catalogue."""
    model = {key: asked.pop(key) for key in ("parameters", "dtype", "optimizer") if key in asked}
    question = Asked(**{"symptom": symptom, "pid": None, "user": None, "error": None, **asked})
    return Case(Facts(facts), typed(found, Evidence), question, catalog.load(), **model)


def findings(found: dict[str, Any], model: str = "h100x8", symptom: str = ALL, **asked: Any) -> list[Any]:
    """Diagnose a healthy node of this model with this evidence."""
    return diagnose.findings(case(nodes.healthy(model), found, symptom, **asked))
