# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One planning case: what the parts of the resolver share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import branch_of
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import gpus, newer, virtual
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import Pci
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts


@dataclass
class Request:
    """What is requested and what is known: without the GPUs, all that there is before a node is read."""

    wishes: Mapping[str, Any]
    catalog: Catalog
    gpus: list[gpus.GpuKind] | None  # None: unknown


@dataclass
class Case(Request):
    """A node, what is requested for it, and what is known."""

    facts: Facts
    today: date
    platform: dict[str, Any]
    gpus: list[gpus.GpuKind]
    host_types: tuple[str, ...] = ()  # the first one's group has its peers
    alone: bool = False  # no other node is of that type
    newer_driver: str | None = None  # of the node, where the catalog knows no release of its branch or a newer one
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(  # noqa: PLR0913
        cls,
        facts: Facts,
        wishes: Mapping[str, Any],
        catalog: Catalog,
        today: date,
        host_types: tuple[str, ...] = (),
        *,
        alone: bool = False,
    ) -> Case:
        """Read platform and GPUs off the facts. Raises Refusal for a system or a GPU there is no plan for."""
        platform = _platform(facts, catalog)
        devices, drives = facts["pci"]["gpus"], wishes["nvidia_driver_state"] == "present"
        if not drives:  # nothing has to serve a GPU that nobody knows
            devices = [device for device in devices if device["device"] in catalog.gpus]
        present = newer.on_node(facts) if drives else None
        known, warnings = newer.extended(catalog, wishes, present)
        platform = _with_trusted(platform, wishes, present, known)
        released = [name for name, record in catalog.branches.items() if record["latest"]]
        newer_driver = present if present and newer.is_newer(branch_of(present), released) else None
        found, unlisted = gpus.identify(devices, catalog)
        warnings += [*unlisted, *newer.aged(catalog, today)]
        if drives and not found and not wishes["gpulab_without_gpu"]:
            raise _no_gpu(facts["pci"])
        if drives:
            warnings += virtual.check(facts, catalog)
        return cls(wishes, known, found, facts, today, platform, host_types, alone, newer_driver, warnings)

    @property
    def container(self) -> bool:
        """Whether the node is a container, which runs its host's kernel."""
        return self.facts["system"]["container"]

    @property
    def architecture(self) -> str:
        """The CPU architecture as the kernel names it: x86_64 or aarch64."""
        return self.facts["system"]["architecture"]

    @property
    def needs_fabric_manager(self) -> bool:
        """Whether the node has NVSwitches, or boards that always do."""
        return bool(self.facts["pci"]["nvswitches"]) or any(gpu.fabric_manager == "always" for gpu in self.gpus)


def _platform(facts: Facts, catalog: Catalog) -> dict[str, Any]:
    """Return what the catalog has of the node's system. Raises Refusal for one there is no plan for."""
    system = facts["system"]
    refuse_borrowed_drivers(system["kernel"])
    platform = catalog.platform(system["id"], system["version"])
    if platform is None or system["architecture"] not in platform["architectures"]:
        supported = sorted({record["name"] for record in catalog.platforms.values()})
        raise refuse("P001", system=f"{system['name']} on {system['architecture']}", supported=", ".join(supported))
    return platform


def _with_trusted(
    platform: dict[str, Any], wishes: Mapping[str, Any], present: str | None, catalog: Catalog
) -> dict[str, Any]:
    """Return a platform whose sources carry the branches that are asked for, where newer ones are trusted."""
    if not wishes[newer.TRUST]:
        return platform
    named = (wishes["nvidia_driver_branch"], wishes["nvidia_driver_version"], present)
    asked = dict.fromkeys(branch_of(one) for one in named if one)
    return newer.with_sources(platform, [branch for branch in asked if branch in catalog.branches])


def _no_gpu(pci: Pci) -> Refusal:
    """Return why there is no GPU to plan for."""
    if pci["lent"]:
        named = ", ".join(f"{gpu['address']} ({gpu['driver']})" for gpu in pci["lent"])
        return refuse("P080", gpus=named, drivers=" and ".join(sorted({gpu["driver"] for gpu in pci["lent"]})))
    if pci["other_gpus"]:
        named = ", ".join(f"{gpu['maker']} {gpu['device']} at {gpu['address']}" for gpu in pci["other_gpus"])
        return refuse("P082", gpus=named)
    return refuse("P002")


def refuse_borrowed_drivers(kernel: str) -> None:
    """Raise Refusal for a system that gets its driver from elsewhere, told by its kernel release."""
    if "-tegra" in kernel:
        raise refuse("H084", kernel=kernel)
    if "microsoft" in kernel.lower():
        raise refuse("H085", kernel=kernel)
