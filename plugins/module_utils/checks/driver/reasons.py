# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why NVIDIA's driver does not drive a GPU, or has no module: what several checks of it say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node

if TYPE_CHECKING:
    from collections.abc import Collection


def ordinary_driver_of_vgpu(node: Node) -> str | None:
    """Say so where a GPU is a vGPU and the driver is not the GRID driver, which brings a daemon for licences."""
    virtual = any(gpu.get("vgpu") for gpu in node.facts.get("pci.gpus", []))
    grid = (node.facts.get("services") or Facts({})).get("nvidia-gridd", Facts({})).get("load") == "loaded"
    return "the GPU is a virtual GPU (vGPU), which needs NVIDIA's GRID driver" if virtual and not grid else None


def undriven(node: Node, which: str, addresses: Collection[str] | None = None) -> str | None:
    """Name the GPUs that the kernel modules on disk (open or proprietary) do not drive.

    which is running or next_boot: the kernel. addresses are the GPUs in question, by default all.
    """
    records = node.catalog.get("gpus", {})
    flavour = next((kernel.get("nvidia_module_flavour") for kernel in node.kernels() if kernel.get(which)), None)
    known = [
        records[gpu["device"]]
        for gpu in node.facts.get("pci.gpus", [])
        if gpu.get("device") in records and (addresses is None or gpu["address"] in addresses)
    ]
    names = dict.fromkeys(record["name"] for record in known if flavour and flavour not in record["kernel_modules"])
    return f"the {flavour} kernel modules do not support {', '.join(names)}" if names else None


def forbidden(node: Node, when: str, how: tuple[str, ...]) -> str | None:
    """Name what prevents the driver's modules from being loaded."""
    found = [one for one in node.facts.get(f"forbidden.{when}", []) if one["how"] in how]
    return ", ".join(f"{one['by']} has {one['line']}" for one in found) or None


def unbuilt(kernel: Facts, library: str | None) -> str:
    """Return why a kernel has no nvidia module. DKMS may also have leftovers of other drivers."""
    if not kernel.get("headers"):
        return "its headers are not installed"
    builds = kernel.get("dkms", [])
    for build in [one for one in builds if one.get("version") == library] or builds:
        if build.get("state") == "installed":
            return f"DKMS calls {build.get('module')} {build.get('version')} installed, but its file is missing"
        failed = f": its build failed with {build['error']}" if build.get("error") else ""
        return (
            f"DKMS module {build.get('module')} {build.get('version')} is {build.get('state')}, not installed{failed}"
        )
    return "DKMS has no nvidia module for it"


def installed(node: Node) -> bool:
    """Tell whether a driver is installed."""
    return bool(node.facts.get("driver.packages") or node.facts.get("driver.runfile"))
