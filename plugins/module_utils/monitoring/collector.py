# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a node's GPUs and writes them as metrics into a file of node exporter's textfile collector.

A driver that hangs leaves a reader that nothing can kill. It holds a lock, so the next reading waits for it until its
own deadline, says so in the metrics, and leaves no second one behind.
"""

from __future__ import annotations

import fcntl
import signal
import time
from pathlib import Path
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core import beneath, locks, mount_table
from ansible_collections.gpulab.node.plugins.module_utils.core.child import Child, Emit
from ansible_collections.gpulab.node.plugins.module_utils.core.fstab import parse
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.facts import fence, kernel_log, libraries, modprobe
from ansible_collections.gpulab.node.plugins.module_utils.facts import pci as facts_pci
from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import owner, user_name
from ansible_collections.gpulab.node.plugins.module_utils.monitoring import metrics
from ansible_collections.gpulab.node.plugins.module_utils.nvml import library as nvml
from ansible_collections.gpulab.node.plugins.module_utils.nvml import query

SECONDS = 10.0  # what the driver has to answer in
READABLE = 0o644
LOCK = "metrics.lock"
_NO_MOUNT = {"swap", "none"}


def collect(node: Node, lock: Path, seconds: float = SECONDS, library: str = nvml.LIBRARY) -> str:
    """Return the metrics of a node. Never takes much longer than these seconds; nobody else can open lock."""
    began = time.monotonic()
    child = Child(lambda emit: _read(emit, lock, library), seconds)
    log = kernel_log.KernelLogQuery(node)
    ldconfig = node.start(["ldconfig", "-p"])
    pci, simulated = facts_pci.read(node)
    outcome = child.wait()
    library_path = libraries.nvml(ldconfig.output() or "")
    nvml_facts = query.assemble(child.messages, outcome, child.reason)
    facts = {
        "pci": pci,
        "simulated": simulated,
        "nvml": nvml_facts,
        "driver": {
            "loaded": modprobe.loaded(node)["nvidia"]["version"],
            "library": libraries.driver_version(node.resolve(library_path)) if library_path else None,
        },
        "kernel_log": log.facts(),
        "fenced": node.exists(fence.RECORD),
        "owners": owners(node, nvml_facts["gpus"]),
        "mounts": mounts(node.text("/etc/fstab"), node.text("/proc/1/mountinfo")),
        "time": time.time(),
        "seconds": time.monotonic() - began,
    }
    return metrics.exposition(facts)


def _read(emit: Emit, lock: Path, library: str) -> None:
    """Be the reader: the only one, under a name of its own."""
    query.take_name()
    holder = locks.find_holder((lock,))
    emit({"reading": "an earlier run that does not end" + (f" (process {holder.pid})" if holder else "")})
    fcntl.flock(locks.opened(lock), fcntl.LOCK_EX)  # held until this process is gone, which its parent ends in time
    emit({"reading": "the library"})
    query.read_node(emit, library)


def owners(node: Node, gpus: list[dict[str, Any]]) -> dict[int, str]:
    """Return the user of each process with a context on a GPU, by its PID; those that have just ended are left out."""
    found = {}
    for gpu in gpus:
        processes = gpu.get("processes")
        for process in processes if isinstance(processes, list) else ():
            uid = owner(node, process["pid"])
            if uid is not None:
                found[process["pid"]] = user_name(uid)
    return found


def mounts(fstab: str, mountinfo: str) -> dict[str, bool]:
    """Say of each file system that is mounted at boot whether it is mounted now; none is asked, for it may hang."""
    mounted = {mount.place for mount in mount_table.mounts(mountinfo)}
    return {
        line.mount: line.mount in mounted
        for line in parse(fstab)
        if line.type not in _NO_MOUNT and line.mount not in _NO_MOUNT and "noauto" not in line.options
    }


def write(path: Path, text: str) -> None:
    """Put the text at path in one rename: node exporter reads the old file or the new one."""
    with beneath.at(beneath.ROOT, str(path.absolute())) as place:  # node exporter passes over the name of a draft
        place.write(text.encode(), READABLE)


def stopped(number: int, _frame: object) -> None:
    """End as whoever a signal ends, after what is under way has cleaned up."""
    raise SystemExit(128 + number)


def main(arguments: list[str]) -> None:
    """Write the metrics of this node into the file named first; where it is stopped meanwhile, no draft is left."""
    text = collect(Node(), locks.place(LOCK))
    signal.signal(signal.SIGTERM, stopped)
    write(Path(arguments[0]), text)
