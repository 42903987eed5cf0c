# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs and virtual machines: GPUs that this node gives to its machines, and virtual GPUs that it got itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import PciGpu
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts

NVIDIA = "10de:"
VGPU_MANAGER = "nvidia-vgpu-vfio"  # the driver that facts name for a GPU that this host cuts


def check(facts: Facts, catalog: Catalog) -> list[str]:
    """Return warnings about GPUs of virtual machines and about GPUs that may be virtual.

    Raises Refusal for a vGPU, and on a host whose driver is the vGPU manager.
    """
    lent, gpus = facts["pci"]["lent"], facts["pci"]["gpus"]
    virtual = [gpu["address"] for gpu in gpus if gpu["vgpu"]]
    if virtual:
        raise refuse("P081", gpus=", ".join(virtual))
    cut = [gpu["address"] for gpu in lent if gpu["driver"] == VGPU_MANAGER]
    managers = [one["name"] for one in facts["driver"]["packages"] if one["name"].lower().startswith("nvidia-vgpu")]
    if cut or managers:
        raise refuse("P117", lent=", ".join(cut or managers))
    guest = facts["system"]["virtualization"] != "none" and not facts["system"]["container"]
    return [
        *(f"gpulab does not use GPU {gpu['address']}: {gpu['driver']} holds it for a virtual machine." for gpu in lent),
        *(_may_be_virtual(gpu) for gpu in gpus if guest and gpu["vgpu"] is None and _unlike_boards(gpu, catalog)),
    ]


def _unlike_boards(gpu: PciGpu, catalog: Catalog) -> bool:
    """Tell whether a GPU's subsystem is NVIDIA's but of no known board. Those of other makers are real boards."""
    maker, subsystem = gpu["subsystem"][: len(NVIDIA)], gpu["subsystem"][len(NVIDIA) :]
    boards = catalog.gpus.get(gpu["device"], {}).get("subsystems", [])
    return bool(boards) and maker == NVIDIA and subsystem not in boards


def _may_be_virtual(gpu: PciGpu) -> str:
    return (
        f"GPU {gpu['address']} may be a virtual GPU (vGPU): NVIDIA has no board with the subsystem {gpu['subsystem']}."
        " If it is one, do not apply this plan: it needs the GRID driver of the hypervisor's branch."
    )
