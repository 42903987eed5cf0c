# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a program does not start or compile: compilers, headers, shared memory, limits, device files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.infiniband import fabric_name, fabric_ports
from ansible_collections.gpulab.node.plugins.module_utils.checks.limits import LEAST_MEMLOCK_MIB, MIB, UNLIMITED
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Node, Unread
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.machine import TMP
from ansible_collections.gpulab.node.plugins.module_utils.facts.limits import SHARED_MEMORY
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import (
    HALF,
    IMPORT,
    MOST,
    SOME,
    STOPS,
    Finding,
    named,
    rule,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import SharedMemory
    from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Case

COMPILE = "https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html"
SHARED = "https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading"
NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"
LIMITS = "https://man7.org/linux/man-pages/man2/getrlimit.2.html"
DEVICES = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"
CONTAINERS_OWN_MIB = 64  # of shared memory, which Docker gives
LEAST_SHARED_MIB = 1000
FULL = 0.05
FILES_LEFT = 0.1
COMPILED_BY = ("torch", "jax", "triton")
INSTALL = {
    "debian": "apt-get install -y build-essential",
    "redhat": "dnf install -y gcc gcc-c++ make",
    None: "install a C compiler",
}
HEADERS = {
    "debian": "apt-get install -y {}-dev",
    "redhat": "dnf install -y {}-devel",
    None: "install the headers of {}",
}


@rule("import-compiler", IMPORT, COMPILE)
def compiler(case: Case) -> Iterator[Finding]:
    """Find an environment whose torch.compile or extensions need a compiler that is not there."""
    compilers = case.evidence.machine.compilers
    using = [env for env in case.evidence.environments if set(env.packages) & set(COMPILED_BY)]
    if using and compilers and not any(compilers.values()):
        yield Finding(
            "no C compiler is installed: torch.compile, Triton and extensions fail",
            INSTALL.get(case.facts.get("system.family"), INSTALL[None]),
            HALF,
            (f"neither {' nor '.join(compilers)} is in /bin or /usr/bin", f"needed by {using[0].prefix}"),
        )


@rule("import-headers", IMPORT, COMPILE)
def headers(case: Case) -> Iterator[Finding]:
    """Find an environment with Triton whose Python has no headers."""
    for environment in case.evidence.environments:
        if not environment.headers and "triton" in environment.packages:
            package = HEADERS.get(case.facts.get("system.family"), HEADERS[None])
            yield Finding(
                f"{environment.prefix} uses {environment.python} without its headers: torch.compile ends with "
                "Python.h: No such file or directory",
                package.format(environment.python),
                HALF,
                (f"triton {environment.packages['triton']}, no Python.h",),
            )


@rule("import-shared-memory", IMPORT, SHARED)
def shared_memory(case: Case) -> Iterator[Finding]:
    """Find programs whose /dev/shm is as small as a container's, or full."""
    told = set()
    for record in case.processes:
        shared = record.shared_memory
        place = record.container or "node"
        if not shared or place in told or not (record.sites or record.pid == case.asked.pid):
            continue
        if shared.size_mib <= CONTAINERS_OWN_MIB or (record.container and shared.size_mib < LEAST_SHARED_MIB):
            told.add(place)
            yield Finding(
                f"{named(record)} has {shared.size_mib} MiB of shared memory: DataLoader workers and NCCL need more",
                "Start the container with --ipc=host or --shm-size=16g (Kubernetes: an emptyDir with medium: Memory at"
                " /dev/shm)"
                if record.container
                else "mount -o remount,size=50% /dev/shm",
                STOPS,
                (f"{SHARED_MEMORY}: {shared.size_mib} MiB, {shared.free_mib} MiB free",),
            )
        elif shared.free_mib < FULL * shared.size_mib:
            told.add(place)
            yield _full(shared, named(record))
    own = case.evidence.machine.shared_memory
    if own and own.size_mib and own.free_mib < FULL * own.size_mib and "node" not in told:
        yield _full(own, "the node")


# fuser(1) sees the files that are mapped, too; only on the host does it see those of all containers
REMOVE_UNUSED = 'for file in /dev/shm/nccl-* /dev/shm/torch_*; do fuser -s "$file" || rm -f "$file"; done'


def _full(shared: SharedMemory, who: str) -> Finding:
    return Finding(
        f"{SHARED_MEMORY} of {who} is full: {shared.free_mib} of {shared.size_mib} MiB free",
        f"ls -lS /dev/shm; as root on the host, remove what no program has open: {REMOVE_UNUSED}",
        STOPS,
        (f"{shared.free_mib} MiB free",),
    )


@rule("import-memlock", IMPORT, NCCL)
def memlock(case: Case) -> Iterator[Finding]:
    """Find programs that may not lock the memory that InfiniBand or RoCE needs, where there is a fabric."""
    try:
        fabric = fabric_ports(Node(case.facts))
    except Unread:
        return
    for record in case.processes:
        granted = record.limits.memlock
        if fabric and isinstance(granted, int) and granted < LEAST_MEMLOCK_MIB * MIB:
            yield Finding(
                f"{named(record)} may lock {granted // MIB} MiB of memory: {fabric_name(fabric)} transfers fail",
                f"prlimit --memlock=unlimited --pid {record.pid}; containers: --ulimit memlock=-1",
                MOST,
                (f"Max locked memory {granted}", UNLIMITED),
            )
            return


@rule("import-open-files", IMPORT, LIMITS)
def open_files(case: Case) -> Iterator[Finding]:
    """Find a program that has used up its open files."""
    for record in case.processes:
        granted = record.limits.nofile
        if isinstance(granted, int) and granted and record.files > (1 - FILES_LEFT) * granted:
            yield Finding(
                f"{named(record)} has {record.files} of {granted} files open",
                f"prlimit --nofile=65536:65536 --pid {record.pid}; in the program: "
                "torch.multiprocessing.set_sharing_strategy('file_system')",
                MOST,
                (f"Max open files {granted}",),
            )


@rule("import-temporary", IMPORT, COMPILE)
def temporary(case: Case) -> Iterator[Finding]:
    """Find a /tmp from which compiled code cannot be loaded."""
    if case.evidence.machine.tmp_noexec and case.evidence.environments:
        yield Finding(
            f"{TMP} is mounted noexec: code that torch.compile and Triton compile there cannot be loaded",
            "export TMPDIR=$HOME/tmp && mkdir -p $TMPDIR",
            HALF,
            (f"{TMP} has the option noexec",),
        )


@rule("import-devices", IMPORT, DEVICES)
def devices(case: Case) -> Iterator[Finding]:
    """Find device files of the driver that are missing, or closed to users, while the driver works."""
    found = case.evidence.machine.devices
    if not found or case.facts.get("nvml.state") != "ok":
        return
    if "/dev/nvidia-uvm" not in found:
        yield Finding(
            "/dev/nvidia-uvm does not exist: CUDA programs find no GPU, though nvidia-smi works",
            "nvidia-modprobe -u -c=0",
            STOPS,
            (f"there: {', '.join(sorted(found))}",),
        )
    closed = [path for path, everybody in found.items() if not everybody]
    if closed:
        yield Finding(
            f"{', '.join(closed)} may not be opened by every user",
            f"chmod 0666 {' '.join(closed)}; for good: NVreg_DeviceFileMode=0666 in /etc/modprobe.d, or add the user to"
            " the group that owns them",
            SOME,
            tuple(closed),
        )
