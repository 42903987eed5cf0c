# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of what the node grants to programs: locked memory, open files, shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.infiniband import NO_FABRIC, fabric_name, fabric_ports
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import check, inapplicable, info, ok, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Node, Result

NCCL_TROUBLES = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"
UNLIMITED = "unlimited"
MIB = 1 << 20
# NVIDIA asks for no limit at all. NCCL's and MPI's buffers for eight GPUs come to some hundreds of MiB.
LEAST_MEMLOCK_MIB = 1024
# What NCCL's guide gives a container, with --shm-size=1g.
LEAST_SHARED_MEMORY_MIB = 1000
# A data loader holds a file for each tensor in flight, and NCCL one for each connection.
LEAST_FILES = 65536


@check(
    "memlock",
    proves="programs can lock the memory that InfiniBand and RoCE transfers need",
    source=NCCL_TROUBLES,
    on_host=True,
)
def memlock(node: Node) -> Iterator[Result]:
    """Look at users' sessions and at services, where there is a fabric."""
    fabric = fabric_ports(node)
    if not fabric:
        yield inapplicable(NO_FABRIC)
        return
    found = False
    for place in ("sessions", "services"):
        granted = node.facts[f"limits.{place}.memlock"]
        if granted != UNLIMITED and granted < LEAST_MEMLOCK_MIB * MIB:
            found = True
            yield warn(
                f"{place} can lock only {granted // MIB} MiB of memory: {fabric_name(fabric)} transfers fail",
                "configure",
                observed=granted // MIB,
                expected=UNLIMITED,
                unit="MiB",
                reason="memlock in /etc/security/limits.d" if place == "sessions" else "systemd's DefaultLimitMEMLOCK",
            )
    if not found:
        yield ok("sessions and services can lock enough memory")


@check(
    "open-files",
    proves="programs can open as many files as data loaders and NCCL need",
    source="https://man7.org/linux/man-pages/man2/getrlimit.2.html",
    on_host=True,
)
def open_files(node: Node) -> Iterator[Result]:
    """Tell of a low hard limit."""
    granted = node.facts["limits.sessions.nofile"]
    if not node.gpus:
        yield node.without("NVML lists no GPU (see driver-responsive)")
    elif granted != UNLIMITED and granted < LEAST_FILES:
        yield info(
            f"sessions can open {granted} files, {LEAST_FILES} recommended",
            "configure",
            observed=granted,
            expected=LEAST_FILES,
            unit="files",
        )
    else:
        yield ok(f"sessions can open {granted} files", granted)


@check("shared-memory", proves="shared memory is large enough for the processes of several GPUs", source=NCCL_TROUBLES)
def shared_memory(node: Node) -> Iterator[Result]:
    """Find a /dev/shm of a container's default size, which NCCL and data loaders overrun."""
    size = node.facts["limits.shared_memory_mib"]
    if not node.gpus:
        yield node.without("NVML lists no GPU (see driver-responsive)")
    elif len(node.gpus) == 1:
        yield inapplicable("the node has only one GPU")
    elif size < LEAST_SHARED_MEMORY_MIB:
        yield warn(
            f"only {size} MiB of shared memory (/dev/shm) for {len(node.gpus)} GPUs",
            "configure",
            observed=size,
            expected=LEAST_SHARED_MEMORY_MIB,
            unit="MiB",
            reason="a container's --shm-size, or the mount's size=" if node.facts.get("system.container") else None,
        )
    else:
        yield ok(f"{size} MiB of shared memory (/dev/shm)", size)
