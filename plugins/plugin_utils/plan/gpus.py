# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs a node has, and what each of them demands of a driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import same_or_newer, version_key
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import PciGpu

NVIDIA = "10de"


@dataclass(frozen=True)
class GpuKind:
    """One kind of GPU as far as versions depend on it."""

    name: str
    pci_id: str
    architecture: str
    compute_capabilities: tuple[str, ...]  # its own, or all of its architecture where no more is known
    kernel_modules: tuple[str, ...]
    first_branch: str | None
    last_branch: str | None
    first_driver: dict[str, str | None]  # None: a branch that never had it
    first_cuda: str
    last_cuda: str | None
    fabric_manager: str | None  # always: the node runs one; rack: the switches of its rack do
    data_center: bool

    @property
    def compute_capability(self) -> str | None:
        """Its compute capability; None where only an architecture that has several is known."""
        return self.compute_capabilities[0] if len(self.compute_capabilities) == 1 else None

    def served_by(self, branch: str, version: str | None = None) -> bool:
        """Tell whether a driver branch, and its version where given, drives this GPU."""
        if self.last_branch is not None and not same_or_newer(self.last_branch, branch):
            return False
        if self.first_branch is not None and not same_or_newer(branch, self.first_branch):
            return False
        if not self.first_driver:
            return True
        if branch not in self.first_driver:
            # a branch younger than the lists serves what they serve
            return same_or_newer(branch, min(self.first_driver, key=version_key))
        first = self.first_driver[branch]
        return first is not None and (version is None or same_or_newer(version, first))

    def demand(self) -> str:
        """Say which branches drive this GPU, for a message."""
        first = min(self.first_driver, key=version_key) if self.first_driver else self.first_branch
        bounds = [f"{first} or newer" if first else "", f"{self.last_branch} at most" if self.last_branch else ""]
        return " and ".join(bound for bound in bounds if bound) or "any branch"


def identify(devices: Iterable[PciGpu], catalog: Catalog) -> tuple[list[GpuKind], list[str]]:
    """Return each kind of NVIDIA GPU once, and warnings for those that the catalog does not list.

    Raises Refusal for a GPU whose architecture cannot be read from its PCI id either.
    """
    pci_ids = sorted({device["device"] for device in devices if device["device"].startswith(f"{NVIDIA}:")})
    gpus, warnings = [], []
    for pci_id in pci_ids:
        record = catalog.gpus.get(pci_id)
        if record is None:
            gpu = _by_range(pci_id, catalog)
            warnings.append(
                f"The catalog has no record of GPU {pci_id}; its PCI id is in the range of {gpu.architecture}."
            )
        else:
            gpu = _by_record(pci_id, record, catalog.architectures[record["architecture"]])
        gpus.append(gpu)
    return gpus, warnings


def _by_record(pci_id: str, record: dict[str, Any], architecture: dict[str, Any]) -> GpuKind:
    return GpuKind(
        name=record["name"],
        pci_id=pci_id,
        architecture=record["architecture"],
        compute_capabilities=(record["compute_capability"],),
        kernel_modules=tuple(record["kernel_modules"]),
        first_branch=architecture["first_branch"],
        last_branch=architecture["last_branch"],
        first_driver=record.get("first_driver", {}),
        first_cuda=architecture["first_cuda"],
        last_cuda=architecture["last_cuda"],
        fabric_manager=record["fabric_manager"],
        data_center=record["class"] == "data-center",
    )


def _by_range(pci_id: str, catalog: Catalog) -> GpuKind:
    device = int(pci_id.partition(":")[2], 16)
    for architecture in catalog.architectures.values():
        if any(first <= device <= last for first, last in _ranges(architecture)):
            return GpuKind(
                name=f"an unlisted {architecture['architecture']} GPU ({pci_id})",
                pci_id=pci_id,
                architecture=architecture["architecture"],
                compute_capabilities=tuple(architecture["compute_capabilities"]),
                kernel_modules=tuple(architecture["kernel_modules"]),
                first_branch=architecture["first_branch"],
                last_branch=architecture["last_branch"],
                first_driver={},
                first_cuda=architecture["first_cuda"],
                last_cuda=architecture["last_cuda"],
                fabric_manager=None,
                data_center=False,
            )
    raise refuse("P003", pci_id=pci_id)


def _ranges(architecture: dict[str, Any]) -> Iterator[tuple[int, int]]:
    for text in architecture["pci_ranges"]:
        first, _dash, last = text.partition("-")
        yield int(first, 16), int(last, 16)
