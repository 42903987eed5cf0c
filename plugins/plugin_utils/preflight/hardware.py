# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the hardware is fit for deep learning: each check yields (falls short or only could be better, what is told).

Figures are NVML's where it answers, else the catalog's; what neither knows is not judged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings.plan import POWER, declared
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import Disk, Filesystem, Hardware, PciGpu
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan

Found = tuple[bool, Refusal]

MIB_PER_GIB = 1024
# A board of 16 GiB shows 15, a machine of 64 GiB shows 62: firmware and ECC keep some.
SHOWN_OF_NOMINAL = 0.9
FAST_GBPS = 25  # from here on, frames of 1500 bytes keep a core busy
BYTES_PER_MIB, BYTES_PER_GB = 1 << 20, 10**9
# Devices made of disks, which sysfs does not describe as one
STACKED = ("/dev/mapper/", "/dev/dm-", "/dev/md")


@dataclass(frozen=True)
class Board:
    """One GPU as far as it is judged here; None is what is not known."""

    address: str
    name: str
    memory_mib: int | None
    power_watts: float | None
    declared_watts: int | None  # what the run will limit it to
    pcie_width: int | None


@dataclass(frozen=True)
class JudgedNode:
    """What the checks look at."""

    facts: Facts
    plan: Plan
    limits: dict[str, Any]
    catalog: Catalog

    @property
    def boards(self) -> list[Board]:
        """The GPUs on the PCI bus."""
        answers = {gpu["bus_id"]: gpu for gpu in self.facts["nvml"]["gpus"]}
        return [
            self._board(device, {"index": index, "uuid": None, **answers.get(device["address"], {})})
            for index, device in enumerate(self.facts["pci"]["gpus"])
        ]

    @property
    def hardware(self) -> Hardware:
        """The parts of the machine."""
        return self.facts["hardware"]

    @property
    def gpu_settings(self) -> dict[str, Any]:
        """What is planned for the GPUs, which holds at the end of the run."""
        return self.plan["gpu_settings"]["settings"]

    def _board(self, device: PciGpu, answer: dict[str, Any]) -> Board:
        settings = declared(self.gpu_settings, {**answer, "bus_id": device["address"]})
        record = self.catalog.gpus.get(device["device"], {})
        gib, milliwatts = record.get("vram_gib"), _number(answer.get("power_mw", {}).get("enforced_limit"))
        return Board(
            address=device["address"],
            name=record.get("name", device["device"]),
            memory_mib=_number(answer.get("memory_mib", {}).get("total")) or (gib and int(gib * MIB_PER_GIB)),
            power_watts=milliwatts / 1000 if milliwatts else record.get("power_w"),
            declared_watts=settings.get(POWER),
            pcie_width=device["link"]["width"],
        )


def gpu_memory(node: JudgedNode) -> Iterator[Found]:
    """Compare the memory of each GPU."""
    least, advised = node.limits["vram_min_gib"], node.limits["vram_advised_gib"]
    for memory, boards in _alike(node.boards, "memory_mib"):
        gib = memory / MIB_PER_GIB
        if gib < max(least, advised) * SHOWN_OF_NOMINAL:
            short = gib < least * SHOWN_OF_NOMINAL
            yield short, refuse("H070", gpus=boards, gib=f"{gib:.0f}", wanted=least if short else advised)


def cpu_cores(node: JudgedNode) -> Iterator[Found]:
    """Compare the number of cores."""
    cores, least = node.facts["system"].get("cpu_cores"), node.limits["cpu_cores_min"]
    if cores is not None and cores < least:
        yield True, refuse("H071", cores=cores, wanted=least)


def memory(node: JudgedNode) -> Iterator[Found]:
    """Compare the node's memory with what any such machine needs, and with the memory of all its GPUs."""
    have, sizes = node.facts["system"].get("memory_mib"), [board.memory_mib for board in node.boards]
    if have is None:
        return
    gib = have / MIB_PER_GIB
    least, advised = node.limits["memory_min_gib"], node.limits["memory_advised_gib"]
    if gib < max(least, advised) * SHOWN_OF_NOMINAL:
        short = gib < least * SHOWN_OF_NOMINAL
        yield short, refuse("H087", gib=f"{gib:.0f}", wanted=least if short else advised)
    if not all(sizes):
        return
    of_gpus = sum(size for size in sizes if size)
    least, advised = node.limits["memory_factor_min"], node.limits["memory_factor_advised"]
    if have < max(least, advised) * of_gpus * SHOWN_OF_NOMINAL:
        short = have < least * of_gpus * SHOWN_OF_NOMINAL
        yield (
            short,
            refuse(
                "H072",
                gib=f"{have / MIB_PER_GIB:.0f}",
                gpus=f"{of_gpus / MIB_PER_GIB:.0f}",
                factor=least if short else advised,
            ),
        )


def memory_ecc(node: JudgedNode) -> Iterator[Found]:
    """Ask for memory that corrects errors, where that is wanted."""
    if node.limits["memory_ecc"] and node.hardware["memory"]["ecc"] is False:
        yield True, refuse("H088")


def memory_speed(node: JudgedNode) -> Iterator[Found]:
    """Compare the speed of the memory's modules with the bound for their type, and with what they are made for."""
    by_figures: dict[tuple[Any, ...], list[str]] = {}
    for number, one in enumerate(node.hardware["memory"]["modules"]):
        figures = one["type"], one["mts"], one["rated_mts"]
        by_figures.setdefault(figures, []).append(one["slot"] or f"module {number}")
    for (kind, mts, rated), names in by_figures.items():
        slots, wanted = ", ".join(names), node.limits.get(f"memory_{str(kind).lower()}_advised_mts")
        if mts and rated and mts < rated:
            yield False, refuse("H090", slots=slots, mts=mts, rated=rated)
        elif mts and wanted and mts < wanted:
            yield False, refuse("H089", slots=slots, kind=kind, mts=mts, wanted=wanted)


def cpu_cache(node: JudgedNode) -> Iterator[Found]:
    """Compare the processors' cache of level 3."""
    have, least = node.hardware["cpu"]["l3_mib"], node.limits["l3_min_mib"]
    if have is not None and have < least:
        yield True, refuse("H091", mib=have, wanted=least)


def cpu_clock(node: JudgedNode) -> Iterator[Found]:
    """Compare the clock that the processors reach; a boost that is off is told of, too."""
    cpu, least = node.hardware["cpu"], node.limits["cpu_min_mhz"]
    off = cpu["boosts"] is False and cpu["base_mhz"] is not None
    reached = cpu["base_mhz"] if off else cpu["boost_mhz"]
    if reached is not None and reached < least and not (off and (cpu["boost_mhz"] or 0) >= least):
        yield True, refuse("H092", mhz=reached, wanted=least)
    elif off:
        yield False, refuse("H093", mhz=reached)


def pcie_lanes(node: JudgedNode) -> Iterator[Found]:
    """Compare the lanes of PCI Express 4.0 and later; firmware hides the ports of empty slots, so this is advice."""
    lanes, advised = node.hardware["pcie4_lanes"], node.limits["pcie4_lanes_advised"]
    if lanes is not None and lanes < advised:
        yield False, refuse("H094", lanes=lanes, wanted=advised)


def system_disk(node: JudgedNode) -> Iterator[Found]:
    """Ask for NVMe below the root file system, and for a disk that is large enough."""
    root = _mounted(node, "/")
    if root and root.get("nvme") is False and not _stacked(root):
        yield True, refuse("H073", source=root.get("source"))
    disk, least = _disk(node, root), node.limits["system_disk_min_gb"]
    if disk and disk["gb"] < least * SHOWN_OF_NOMINAL:
        yield True, refuse("H095", what=f"the system disk ({disk['name']})", gb=disk["gb"], wanted=least)


def disk_links(node: JudgedNode) -> Iterator[Found]:
    """Compare the link of each NVMe disk with what the disk and the port above it have."""
    for disk in node.hardware["disks"]:
        link, port = disk["link"], disk["port_link"]
        if link is None:
            continue
        most = [one for one in (link, port) if one]
        compared: list[tuple[float | None, list[float | None], str]] = [
            (link["width"], [one["max_width"] for one in most], "x{:g}"),
            (link["speed_gts"], [one["max_speed_gts"] for one in most], "{:g} GT/s"),
        ]
        for now, possible, form in compared:
            known = [one for one in possible if one]
            if now and known and now < min(known):
                figures = {"now": form.format(now), "wanted": form.format(min(known))}
                yield True, refuse("H096", disk=disk["name"], model=disk["model"] or "NVMe", **figures)


def dataset_disks(node: JudgedNode) -> Iterator[Found]:
    """Ask for disks that do not turn below the declared dataset mounts."""
    for mount in node.limits["dataset_mounts"]:
        filesystem = _mounted(node, mount)
        if filesystem is None:
            yield True, refuse("H075", mount=mount)
            continue
        if filesystem.get("rotational") and not _stacked(filesystem):
            yield True, refuse("H074", mount=mount, source=filesystem.get("source"))
        advised = node.limits["dataset_advised_gb"]
        gb = (filesystem.get("size_mib") or 0) * BYTES_PER_MIB // BYTES_PER_GB
        if gb and gb < advised * SHOWN_OF_NOMINAL:
            yield False, refuse("H095", what=mount, gb=gb, wanted=advised)


def pcie_width(node: JudgedNode) -> Iterator[Found]:
    """Compare the lanes that each GPU runs with."""
    least = node.limits["pcie_width_min"]
    for width, boards in _alike(node.boards, "pcie_width"):
        if width < least:
            yield True, refuse("H076", gpus=boards, width=width, wanted=least)


def power(node: JudgedNode) -> Iterator[Found]:
    """Add up what GPUs and processors may draw after the run, where the power supply is declared."""
    supply, boards = node.limits["psu_watts"], node.boards
    if not supply:
        return
    watts = [board.declared_watts or board.power_watts for board in boards]
    if not all(watts):
        unknown = ", ".join(board.name for board, one in zip(boards, watts) if not one)
        yield False, refuse("H078", gpus=unknown)
        return
    headroom, cpus = node.limits["power_headroom_percent"], node.limits["cpu_watts"]
    drawn = sum(one for one in watts if one) + cpus
    need = round(drawn * (100 + headroom) / 100)
    if need > supply and not _shared(node, boards):
        yield True, refuse("H077", need=need, drawn=round(drawn), headroom=headroom, supply=supply)


def _shared(node: JudgedNode, boards: list[Board]) -> bool:
    """Tell whether the run limits GPUs without a limit of their own to what the power supply leaves them."""
    budget, taken = node.gpu_settings.get("power_budget_watts"), [board.declared_watts for board in boards]
    return budget is not None and not all(taken) and sum(one for one in taken if one) < budget


def clock(node: JudgedNode) -> Iterator[Found]:
    """Ask whether the clock is kept in time."""
    if node.facts["system"].get("clock_synchronized") is False:
        yield True, refuse("H079")


def network_mtu(node: JudgedNode) -> Iterator[Found]:
    """Compare the MTU of the fast network: Ethernet of 25 Gb/s and more that has an address."""
    advised = node.limits["mtu_advised"]
    for one in node.facts["network"] if advised else ():
        fast = one["up"] and one["ipv4"] and one["link_layer"] == "ethernet" and (one["speed_gbps"] or 0) >= FAST_GBPS
        if fast and one["mtu"] and one["mtu"] < advised:
            yield False, refuse("H097", name=one["name"], gbps=f"{one['speed_gbps']:g}", mtu=one["mtu"], wanted=advised)


# By the names that the option required takes
OF_GPUS: dict[str, Callable[[JudgedNode], Iterator[Found]]] = {
    "gpu_memory": gpu_memory,
    "pcie_width": pcie_width,
    "power": power,
}
OF_MACHINE = {"cpu_cores": cpu_cores, "memory": memory, "clock": clock}
OF_METAL = {
    "memory_ecc": memory_ecc,
    "cpu_cache": cpu_cache,
    "cpu_clock": cpu_clock,
    "system_disk": system_disk,
    "dataset_disks": dataset_disks,
    "disk_links": disk_links,
}
NAMES = tuple(sorted({**OF_GPUS, **OF_MACHINE, **OF_METAL}))
# What can only be advised is never required.
ADVICE_OF_MACHINE = {"network_mtu": network_mtu}
ADVICE_OF_METAL = {"memory_speed": memory_speed, "pcie_lanes": pcie_lanes}


def checks(facts: Facts) -> dict[str, Callable[[JudgedNode], Iterator[Found]]]:
    """Return the checks that mean something: a container shows its host, a virtual machine no real parts."""
    system = facts["system"]
    if system["container"]:
        return OF_GPUS
    if system.get("virtualization", "none") != "none":
        return {**OF_GPUS, **OF_MACHINE, **ADVICE_OF_MACHINE}
    return {**OF_GPUS, **OF_MACHINE, **OF_METAL, **ADVICE_OF_MACHINE, **ADVICE_OF_METAL}


def _number(reading: Any) -> int | None:
    """Return what NVML read; where it could not, the reading says why and is no number."""
    return reading if isinstance(reading, int) else None


def _alike(boards: list[Board], figure: str) -> list[tuple[int, str]]:
    """Return each known value of a figure with the GPUs that have it, for one message."""
    having: dict[int, list[Board]] = {}
    for board in boards:
        if getattr(board, figure) is not None:
            having.setdefault(getattr(board, figure), []).append(board)
    return [(value, ", ".join(f"{board.address} ({board.name})" for board in alike)) for value, alike in having.items()]


def _mounted(node: JudgedNode, mount: str) -> Filesystem | None:
    return next((one for one in node.facts["filesystems"] if one["mount"] == mount), None)


def _disk(node: JudgedNode, filesystem: Filesystem | None) -> Disk | None:
    """Return the disk that a file system is on; None where it is on a device made of disks."""
    source = filesystem["source"] if filesystem else ""
    named = re.fullmatch(r"/dev/(nvme\d+n\d+|[a-z]+)(?:p?\d+)?", source)
    return next((disk for disk in node.hardware["disks"] if named and disk["name"] == named.group(1)), None)


def _stacked(filesystem: Filesystem) -> bool:
    return filesystem["source"].startswith(STACKED)
