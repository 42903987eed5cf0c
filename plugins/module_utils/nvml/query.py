# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVML says about a node, as plain data; gpu.py tells the form of a reading.

A GPU that is lost appears with its index and ``error``, the others as usual.
"""

from __future__ import annotations

from ctypes import c_uint, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ansible_collections.gpulab.node.plugins.module_utils.core.child import DIED, LATE, Child, Emit
from ansible_collections.gpulab.node.plugins.module_utils.nvml import library as nvml
from ansible_collections.gpulab.node.plugins.module_utils.nvml.gpu import GpuReader
from ansible_collections.gpulab.node.plugins.module_utils.nvml.library import NvmlError, NvmlLibrary
from ansible_collections.gpulab.node.plugins.module_utils.nvml.readings import reading, unread

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts import driver as model

COMMAND = "gpulab-metrics"  # of a process of gpulab's that opens the GPUs by itself
TOPOLOGY = {0: "internal", 10: "single", 20: "multiple", 30: "hostbridge", 40: "node", 50: "system"}
P2P_READ, P2P_WRITE, P2P_NVLINK = 0, 1, 2
P2P_STATUS = {
    0: "ok",
    1: "chipset_not_supported",
    2: "gpu_not_supported",
    3: "topology_not_supported",
    4: "disabled_by_regkey",
    5: "not_supported",
    6: "unknown",
}


def peers(library: NvmlLibrary, handles: dict[int, c_void_p]) -> list[dict[str, Any]]:
    """Read for each pair of GPUs how they are joined and whether each may reach the other's memory."""
    found = []
    for first, one in handles.items():
        for second, other in handles.items():
            if first < second:
                ancestor = reading(library.number, "nvmlDeviceGetTopologyCommonAncestor", one, other)
                pair = {
                    "gpus": [first, second],
                    "ancestor": TOPOLOGY.get(ancestor) if isinstance(ancestor, int) else ancestor,
                }
                for name, capability in (("read", P2P_READ), ("write", P2P_WRITE), ("nvlink", P2P_NVLINK)):
                    status = reading(library.number, "nvmlDeviceGetP2PStatus", one, other, c_uint(capability))
                    pair[name] = P2P_STATUS.get(status, "unknown") if isinstance(status, int) else status
                found.append(pair)
    return found


def take_name() -> None:
    """Let this process, which is about to open the GPUs, be known as nobody's work (facts.users)."""
    Path("/proc/self/comm").write_text(COMMAND, encoding="ascii")


def read_node(emit: Emit, library: str) -> None:
    """Read all GPUs through NVML, and emit part after part, so that a hang loses only what comes after it."""
    try:
        session = NvmlLibrary(library)
    except OSError as error:
        emit({"state": "absent", "error": {"code": 12, "text": str(error)}})
        return
    except NvmlError as error:
        states = {nvml.DRIVER_NOT_LOADED: "not_loaded", nvml.LIB_RM_VERSION_MISMATCH: "mismatch"}
        emit({"state": states.get(error.code, "error"), "error": {"code": error.code, "text": error.name}})
        return
    emit(_versions(session))
    try:
        count = session.number("nvmlDeviceGetCount_v2")
    except NvmlError as error:
        emit({"state": "error", "error": {"code": error.code, "text": error.name}})
        return
    emit({"state": "ok" if count else "no_devices"})
    handles = {}
    for index in range(count):
        emit({"reading": f"GPU {index}"})
        try:
            handles[index] = session.handle(index)
            emit({"gpu": {"index": index, **GpuReader(session, handles[index]).read()}})
        except NvmlError as error:
            emit({"gpu": {"index": index, **unread(error)}})
    emit({"reading": "GPU pairs"})
    emit({"peers": peers(session, handles)})


def _versions(session: NvmlLibrary) -> dict[str, Any]:
    cuda = reading(session.number, "nvmlSystemGetCudaDriverVersion_v2", kind=nvml.c_int)
    return {
        "simulated": session.simulation(),
        "driver_version": reading(session.text, "nvmlSystemGetDriverVersion"),
        "nvml_version": reading(session.text, "nvmlSystemGetNVMLVersion"),
        "cuda_version": cuda if isinstance(cuda, dict) else f"{cuda // 1000}.{cuda % 1000 // 10}",
    }


def assemble(messages: list[dict[str, Any]], outcome: str, reason: str) -> model.Nvml:
    """Put the parts together; a reading that did not end is ``unresponsive``, with what it was about to read."""
    facts: model.Nvml = {
        "state": "error",
        "error": None,
        "simulated": None,
        "driver_version": None,
        "nvml_version": None,
        "cuda_version": None,
        "gpus": [],
        "peers": [],
    }
    last = "the library"
    for message in messages:
        if "gpu" in message:
            facts["gpus"].append(message["gpu"])
        elif "reading" in message:
            last = message["reading"]
        else:
            facts.update(cast("model.Nvml", message))
    if outcome == LATE:
        facts["state"] = "unresponsive"
        facts["error"] = {"code": None, "text": f"NVML did not answer in time, at {last}"}
    elif outcome == DIED:
        facts["state"], facts["error"] = "error", {"code": None, "text": f"{reason}, at {last}"}
    return facts


class NvmlQuery:
    """A reading of NVML that runs beside the caller's other work."""

    def __init__(self, seconds: float, library: str = nvml.LIBRARY) -> None:
        """Start it; it has this many seconds."""
        self._child = Child(lambda emit: read_node(emit, library), seconds)

    def facts(self) -> model.Nvml:
        """Wait for the end or the deadline; return the facts ``nvml``."""
        outcome = self._child.wait()
        return assemble(self._child.messages, outcome, self._child.reason)
