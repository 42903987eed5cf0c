# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine as programs meet it now: load, governor, pressure, compilers, devices, who was killed for memory."""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from functools import partial
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import mount_table
from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, Child
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.processes import NETWORK, shared_memory
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import Killed, MachineNow, NetworkMount
from ansible_collections.gpulab.node.plugins.module_utils.facts.kernel_log import KILLED
from ansible_collections.gpulab.node.plugins.module_utils.facts.limits import SHARED_MEMORY

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.core.child import Emit
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

CPUS = "/sys/devices/system/cpu"
TMP = "/tmp"  # noqa: S108 - a place to look at, nothing is written
_DEVICE = re.compile(r"nvidia(?:\d+|ctl|-uvm)\Z")
RECENT = 3600.0  # seconds: what was killed before that does not explain what goes wrong now
_AVERAGE = re.compile(r"^some avg10=([\d.]+)", re.MULTILINE)


def read(node: Node) -> MachineNow:
    """Return the evidence ``machine``."""
    log = node.start(["dmesg"])
    governors: dict[str, int] = {}
    for name in node.names(CPUS):
        governor = node.text(f"{CPUS}/{name}/cpufreq/scaling_governor")
        if governor:
            governors[governor] = governors.get(governor, 0) + 1
    load = node.text("/proc/loadavg").split()
    return MachineNow(
        load=float(load[0]) if load else 0.0,
        governors=governors,
        pressure={part: pressure(node.text(f"/proc/pressure/{part}")) for part in ("cpu", "io", "memory")},
        compilers={name: shutil.which(name, path=os.defpath) for name in ("cc", "gcc", "c++")},
        devices=devices(node),
        killed=killed(log.output() or "", float(node.text("/proc/uptime").partition(" ")[0] or 0)),
        tmp_noexec=no_programs(node.text("/proc/self/mountinfo"), TMP),
        shared_memory=shared_memory(node.path(SHARED_MEMORY)),
    )


def pressure(text: str) -> float | None:
    """Parse the percentage of the last ten seconds in which some task waited; None where the kernel does not say."""
    match = _AVERAGE.search(text)
    return float(match[1]) if match else None


def devices(node: Node) -> dict[str, bool]:
    """Return the driver's device files, and whether every user may open each."""
    found = {}
    for name in filter(_DEVICE.match, node.names("/dev")):
        try:
            mode = node.path(f"/dev/{name}").stat().st_mode
        except OSError:
            continue
        found[f"/dev/{name}"] = bool(mode & stat.S_IROTH and mode & stat.S_IWOTH)
    return found


def killed(log: str, uptime: float) -> list[Killed]:
    """Parse whom the kernel ended of late for want of memory, from its log; uptime in seconds, as the log counts."""
    return [
        Killed(int(pid), command)
        for seconds, pid, command in KILLED.findall(log)
        if not seconds or uptime - int(seconds) < RECENT
    ]


def no_programs(mountinfo: str, path: str) -> bool:
    """Tell whether programs and libraries below a path may not be loaded."""
    mount = mount_table.holding(path, mount_table.every_mount(mountinfo))
    return mount is not None and "noexec" in mount.options


class MountsQuery:
    """How long each network file system takes to answer; one that is dead answers nobody."""

    def __init__(self, node: Node, seconds: float) -> None:
        """Start asking."""
        table = mount_table.mounts(node.text("/proc/self/mountinfo"))
        self._mounts = [mount for mount in table if mount.type in NETWORK or mount.type.startswith("fuse.")]
        self._children = [Child(partial(_ask, node.path(mount.place)), seconds) for mount in self._mounts]

    def evidence(self) -> list[NetworkMount]:
        """Return each with the time that it took."""
        return [
            NetworkMount(mount.place, mount.type, mount.source, _answer(child))
            for mount, child in zip(self._mounts, self._children)
        ]


def _answer(child: Child) -> float | None:
    """Return the milliseconds that a file system took; None where it did not answer."""
    return float(child.messages[0]) if child.wait() == DONE and child.messages else None


def _ask(path: Path, emit: Emit) -> None:
    """Measure the median of some questions that no cache answers."""
    times = []
    for _question in range(5):
        started = time.monotonic()
        os.statvfs(path)
        times.append(1000 * (time.monotonic() - started))
    emit(round(sorted(times)[2], 2))
