# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All facts about a GPU node, read once: what gpulab plans from and proves against.

Nothing is changed and nothing hangs: whatever may wait (the driver, a mount, a program) has a deadline.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.node import SECONDS, Node
from ansible_collections.gpulab.node.plugins.module_utils.driver import mok
from ansible_collections.gpulab.node.plugins.module_utils.facts import (
    accounts,
    containers,
    cuda,
    data_loading,
    directory,
    driver,
    engines,
    fence,
    filesystems,
    group,
    hardware,
    imex,
    infiniband,
    initramfs,
    kernel_log,
    libraries,
    limits,
    model_store,
    modprobe,
    monitoring,
    nccl,
    network,
    own_files,
    packages,
    services,
    slurm,
    storage,
    tuning,
    users,
    work_images,
)
from ansible_collections.gpulab.node.plugins.module_utils.facts import kernels as facts_kernels
from ansible_collections.gpulab.node.plugins.module_utils.facts import pci as facts_pci
from ansible_collections.gpulab.node.plugins.module_utils.facts import system as facts_system
from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings import plan
from ansible_collections.gpulab.node.plugins.module_utils.nvml import library as nvml
from ansible_collections.gpulab.node.plugins.module_utils.nvml.query import NvmlQuery

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import ReadFacts

SCHEMA = 1


def collect(node: Node, timeout: float, library: str = nvml.LIBRARY, kernel_values: Iterable[str] = ()) -> ReadFacts:
    """Read everything; the driver has ``timeout`` seconds. kernel_values are names of which the plan has to know.

    What may take time is started first and collected last.
    """
    nvml_query = NvmlQuery(timeout, library)
    modprobe_files = modprobe.configuration(node)
    system = facts_system.read(node)
    pair = mok.key_pair(node, system["id"]) if system["secure_boot"] == "enabled" else None
    kernels_query = facts_kernels.KernelsQuery(node, system["kernel"], modprobe_files, pair)
    initramfs_query = initramfs.InitramfsQuery(node, kernels_query.next_boot or "")
    filesystems_query = filesystems.FilesystemsQuery(node, SECONDS)
    packages_query = packages.PackagesQuery(node, *driver.PATTERNS, *engines.DOCKER_RIVALS)
    driver_query = driver.DriverQuery(node, packages_query)
    limit_texts = limits.LimitTexts(node)
    engines_query = engines.EnginesQuery(node, packages_query)
    services_query = services.ServicesQuery(node)
    imex_query = imex.ImexQuery(node)
    kernel_log_query = kernel_log.KernelLogQuery(node)
    monitoring_query = monitoring.MonitoringQuery(node, SECONDS)
    group_query = group.GroupQuery(node, SECONDS)
    slurm_query = slurm.SlurmQuery(node)
    accounts_query = accounts.AccountsQuery(node)
    directory_query = directory.DirectoryQuery(node)
    model_store_query = model_store.ModelStoreQuery(node, SECONDS)
    work_images_query = work_images.WorkImagesQuery(node, SECONDS)
    infiniband_query = infiniband.InfinibandQuery(node)

    pci, simulated = facts_pci.read(node, modprobe_files)
    kernels = kernels_query.facts()
    next_boot = next((kernel for kernel in kernels if kernel["next_boot"]), None)
    if next_boot:
        next_boot["initramfs"] = initramfs_query.facts()
    answers = nvml_query.facts()
    nccl_settings = nccl.read(node)
    return {
        "schema": SCHEMA,
        "simulated": simulated or answers["simulated"] or False,
        "system": system,
        "pci": pci,
        "hardware": hardware.read(node),
        "kernels": kernels,
        "modules": modprobe.loaded(node),
        "nouveau": modprobe.nouveau(node, modprobe_files, pci["gpus"], container=system["container"]),
        "forbidden": modprobe.forbidden(node, modprobe_files, kernels_query.next_arguments),
        "module_options": modprobe.options(node),
        "driver": driver_query.facts(next_boot["nvidia_module"] if next_boot else None),
        "cuda": cuda.read(node),
        "libraries": libraries.read(node, driver_query.linked),
        "nvml": answers,
        "users_of_gpus": users.read(node, answers["gpus"], os.getpid()),
        "filesystems": filesystems_query.facts(),
        "engines": engines_query.facts(),
        "containers": containers.read(node),
        "network": network.read(node),
        "infiniband": infiniband_query.facts(),
        "ofed": infiniband.vendors(node),
        "imex": imex_query.facts(),
        "nccl": nccl_settings,
        "nccl_files": nccl.read_files(node, nccl_settings),
        "nccl_own": nccl.read_own(node),
        "group": group_query.facts(),
        "monitoring": monitoring_query.facts(),
        "limits": limits.read(node, limit_texts),
        "services": services_query.facts(),
        "long_steps": services.long_steps(node),
        "fence": fence.read(node),
        "slurm": slurm_query.facts(),
        "accounts": accounts_query.facts(),
        "directory": directory_query.facts(),
        "model_store": model_store_query.facts(),
        "work_images": work_images_query.facts(),
        "kernel_log": kernel_log_query.facts(),
        "storage": storage.read(node),
        "own_files": own_files.read(node),
        "gpu_settings": plan.read_file(node.text(plan.FILE)),
        "tuning": tuning.read(node, limit_texts, kernel_values),
        "data_loading": data_loading.read(node),
    }
