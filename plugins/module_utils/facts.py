# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All facts about a GPU node, read once: what gpulab plans from and proves against.

Nothing is changed and nothing hangs: whatever may wait (the driver, a mount, a program) has a deadline.
"""

from __future__ import annotations

import os
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils import (
    facts_containers,
    facts_cuda,
    facts_driver,
    facts_engines,
    facts_filesystems,
    facts_group,
    facts_imex,
    facts_infiniband,
    facts_initramfs,
    facts_kernel_log,
    facts_kernels,
    facts_libraries,
    facts_limits,
    facts_modprobe,
    facts_monitoring,
    facts_nccl,
    facts_network,
    facts_own_files,
    facts_packages,
    facts_pci,
    facts_services,
    facts_storage,
    facts_system,
    facts_tuning,
    facts_users,
    gpu_settings,
    nvml,
)
from ansible_collections.gpulab.node.plugins.module_utils.facts_node import SECONDS, Node
from ansible_collections.gpulab.node.plugins.module_utils.facts_reboot import reboot
from ansible_collections.gpulab.node.plugins.module_utils.nvml_facts import NvmlQuery

SCHEMA = 1


def collect(node: Node, timeout: float, library: str = nvml.LIBRARY) -> dict[str, Any]:
    """Read everything; the driver has ``timeout`` seconds.

    What may take time is started first and collected last.
    """
    nvml_query = NvmlQuery(timeout, library)
    modprobe_files = facts_modprobe.configuration(node)
    system = facts_system.read(node)
    signers = system["secure_boot"] == "enabled"
    kernels_query = facts_kernels.KernelsQuery(node, system["kernel"], modprobe_files, signers=signers)
    initramfs_query = facts_initramfs.InitramfsQuery(node, kernels_query.next_boot or "")
    filesystems_query = facts_filesystems.FilesystemsQuery(node, SECONDS)
    packages_query = facts_packages.PackagesQuery(node, *facts_driver.PATTERNS, *facts_engines.DOCKER_RIVALS)
    driver_query = facts_driver.DriverQuery(node, packages_query)
    limit_texts = facts_limits.LimitTexts(node)
    engines_query = facts_engines.EnginesQuery(node, packages_query)
    services_query = facts_services.ServicesQuery(node)
    imex_query = facts_imex.ImexQuery(node)
    kernel_log_query = facts_kernel_log.KernelLogQuery(node)
    monitoring_query = facts_monitoring.MonitoringQuery(node, SECONDS)
    group_query = facts_group.GroupQuery(node, SECONDS)

    pci, simulated = facts_pci.read(node, modprobe_files)
    kernels = kernels_query.facts()
    next_boot = next((kernel for kernel in kernels if kernel["next_boot"]), None)
    if next_boot:
        next_boot["initramfs"] = initramfs_query.facts()
    answers = nvml_query.facts()
    facts = {
        "schema": SCHEMA,
        "simulated": simulated or answers["simulated"] or False,
        "system": system,
        "pci": pci,
        "kernels": kernels,
        "modules": facts_modprobe.loaded(node),
        "nouveau": facts_modprobe.nouveau(node, modprobe_files, pci["gpus"], container=system["container"]),
        "forbidden": facts_modprobe.forbidden(node, modprobe_files, kernels_query.next_arguments),
        "module_options": facts_modprobe.options(node),
        "driver": driver_query.facts(next_boot["nvidia_module"] if next_boot else None),
        "cuda": facts_cuda.read(node),
        "libraries": facts_libraries.read(node, driver_query.linked),
        "nvml": answers,
        "users_of_gpus": facts_users.read(node, answers["gpus"], os.getpid()),
        "filesystems": filesystems_query.facts(),
        "engines": engines_query.facts(),
        "containers": facts_containers.read(node),
        "network": facts_network.read(node),
        "infiniband": facts_infiniband.read(node),
        "imex": imex_query.facts(),
        "nccl": facts_nccl.read(node),
        "nccl_own": facts_nccl.read_own(node),
        "group": group_query.facts(),
        "monitoring": monitoring_query.facts(),
        "limits": facts_limits.read(node, limit_texts),
        "services": services_query.facts(),
        "long_steps": facts_services.long_steps(node),
        "kernel_log": kernel_log_query.facts(),
        "storage": facts_storage.read(node),
        "own_files": facts_own_files.read(node),
        "gpu_settings": gpu_settings.read_file(node.text(gpu_settings.FILE)),
        "tuning": facts_tuning.read(node, limit_texts),
    }
    return {**facts, "reboot": reboot(facts)}
