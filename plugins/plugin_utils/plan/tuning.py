# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host around the GPUs is tuned to, from catalog/tuning.yml, by host type and by what the node has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.system import boot_arguments
from ansible_collections.gpulab.node.plugins.module_utils.system.kernel_values import KNOBS
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import kernel_forms, tuning_files
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Swap, Tuning, TuningSetting

GIB_IN_MIB = 1024
TRANSLATES = ("DMA", "DMA-FQ")  # types of an IOMMU group, as the kernel names them; "identity" passes through

UNTRANSLATED = "iommu=pt"
SWAP = "swap_gib"
SERVES = "active"  # the one value of a service

# By the name of a condition in the catalog: whether it holds on a node, for what the catalog asks.
CONDITIONS: dict[str, Callable[[Facts, Any], bool]] = {
    "memory_gib_min": lambda facts, gib: (facts["system"]["memory_mib"] or 0) >= gib * GIB_IN_MIB,
    "numa_nodes_min": lambda facts, count: facts["system"]["numa_nodes"] >= count,
    "gpus_min": lambda facts, count: len(facts["pci"]["gpus"]) >= count,
    "gpu_ids": lambda facts, ids: any(gpu["device"] in ids for gpu in facts["pci"]["gpus"]),
    "bare_metal": lambda facts, _: facts["system"]["virtualization"] == "none",
    "nic_gbps_min": lambda facts, gbps: any((nic["speed_gbps"] or 0) >= gbps for nic in facts["network"] if nic["up"]),
    "rdma": lambda facts, _: any(port["state"] == "active" for port in facts["infiniband"]),
    "infiniband": lambda facts, _: any(
        port["state"] == "active" and port["link_layer"] == "infiniband" for port in facts["infiniband"]
    ),
    "nfs": lambda facts, _: any(filesystem["type"] in ("nfs", "nfs4") for filesystem in facts["filesystems"]),
    "iommu_translates": lambda facts, _: iommu_translates(facts) or UNTRANSLATED in _kept(facts),
}


def iommu_translates(facts: Facts) -> bool:
    """Tell whether an IOMMU translates the addresses that some GPU uses."""
    return any(gpu["iommu"] in TRANSLATES for gpu in facts["pci"]["gpus"])


def _kept(facts: Facts) -> list[str]:
    """Return the kernel arguments that gpulab's file has already: what they cured is no reason to take them out."""
    return facts["tuning"]["kernel_arguments"]["wanted"]


def plan(case: Case) -> Tuning:
    """Return {host_type, settings, files, boot_files, values, limits, kernel_arguments, services, swap, because}.

    settings are {kind, name, value, because, source}; the rest is the same in the forms in which it is carried out:
    the text of each file by its path (boot_files are what GRUB's menu is made of), kernel values and limits by name,
    arguments of the kernel's command line, whether each service, of a package of its name, shall run, and the swap.
    Raises Refusal for a wish that is no setting, and for an argument that somebody else has set otherwise.
    """
    settings = _of_catalog(case)
    overridden = _override(settings, case)
    types = " and ".join(case.host_types)
    because = [f"Tuned for {types}." if types else "The host has no type, so it gets the general tuning."]
    if overridden:
        because.append(f"tuning_overrides sets {', '.join(overridden)}.")
    settings = _with_possible_arguments(settings, case)
    swap = _swap(settings, case)
    chosen = list(settings.values())
    _warn_of_later(chosen, case)
    return {
        "host_type": case.host_types[0] if case.host_types else None,
        "settings": chosen,
        "files": tuning_files.files(chosen),
        "boot_files": tuning_files.boot_files(chosen if case.facts["tuning"]["grub"] else []),
        "values": {one["name"]: one["value"] for one in chosen if one["kind"] in ("sysctl", "knob")},
        "limits": {one["name"]: one["value"] for one in chosen if one["kind"] == "limit"},
        "kernel_arguments": _arguments(chosen),
        "services": {
            record["name"]: record["name"] in settings for record in case.catalog.tuning if record["kind"] == "service"
        },
        "swap": swap,
        "because": because,
    }


def _arguments(settings: Iterable[TuningSetting]) -> list[str]:
    return [f"{one['name']}={one['value']}" for one in settings if one["kind"] == "kernel_argument"]


def _with_possible_arguments(settings: dict[str, TuningSetting], case: Case) -> dict[str, TuningSetting]:
    """Return the settings without the kernel's arguments where nothing can set these, which is a warning.

    Raises Refusal for an argument that somebody else has set otherwise.
    """
    tuned, arguments = case.facts["tuning"], _arguments(settings.values())
    if arguments and (case.container or not (tuned["grub"] or tuned["boot_entries"])):
        case.warnings.append(
            f"The kernel command line should have {' '.join(arguments)}, but this node has no GRUB to set it in."
        )
        return {name: setting for name, setting in settings.items() if setting["kind"] != "kernel_argument"}
    if tuned["boot_entries"]:
        boot_arguments.own_of(arguments, tuned["boot_entries"], tuned["kernel_arguments"]["wanted"])
    return settings


def _swap(settings: dict[str, TuningSetting], case: Case) -> Swap:
    """Return the place and the MiB of the node's swap; without a place, or in a container, its size is no setting."""
    place, setting = case.wishes["tuning_swap"], settings.get(SWAP)
    if place and case.container:
        case.warnings.append("tuning_swap is left out: a container has its host's memory and swap.")
    if not place or case.container or setting is None:
        settings.pop(SWAP, None)
        return {"place": None, "mib": 0}
    mib = int(setting["value"]) * GIB_IN_MIB
    return {"place": place if mib else None, "mib": mib}


def _warn_of_later(chosen: list[TuningSetting], case: Case) -> None:
    """Warn of each value that somebody else's file overwrites at every boot."""
    later = {} if case.container else case.facts["tuning"]["later"]
    for name, value in ((one["name"], one["value"]) for one in chosen if one["kind"] == "sysctl"):
        other = later.get(name)
        if other and other["value"] != value:
            case.warnings.append(
                f"{other['file']}, line {other['line']}, sets {name} = {other['value']} at every boot, after gpulab has"
                f" set {value}. Remove the line, or keep its value: tuning_overrides: {{{name}: {other['value']}}}."
            )


def _of_catalog(case: Case) -> dict[str, TuningSetting]:
    """Return the settings that hold for the node, by name."""
    found = {}
    for record in case.catalog.tuning:
        if "hosts" in record and not set(case.host_types) & set(record["hosts"]):
            continue
        if all(CONDITIONS[name](case.facts, asked) for name, asked in record.get("when", {}).items()):
            found[record["name"]] = _setting(record["kind"], record["name"], record["value"], record)
    return found


def _override(settings: dict[str, TuningSetting], case: Case) -> list[str]:
    """Put the operator's values in, take out what he leaves alone; return the names that this touched."""
    reason = {"because": "Set by tuning_overrides.", "source": []}
    for name, value in case.wishes["tuning_overrides"].items():
        kind = _kind(name, case.catalog)
        if value is None:
            settings.pop(name, None)
        else:
            text = _text(name, kind, value, case.catalog)
            kernel_forms.check(name, kind, text, case.facts["tuning"].get("asked", {}), case.catalog)
            settings[name] = _setting(kind, name, text, reason)
    return list(case.wishes["tuning_overrides"])


def check_overrides(given: Mapping[str, Any], catalog: Catalog) -> None:
    """Raise Refusal for a name that gpulab does not tune, and for a value that no node takes."""
    for name, value in given.items():
        kind = _kind(name, catalog)
        if value is not None:
            _text(name, kind, value, catalog)


def _kind(name: str, catalog: Catalog) -> str:
    """Return the kind of a name. Raises Refusal P050 for an unknown one."""
    kinds = {record["name"]: record["kind"] for record in catalog.tuning} | dict.fromkeys(KNOBS, "knob")
    if name not in kinds and "." not in name:
        known = ", ".join(sorted(known for known in kinds if "." not in known))
        raise refuse("P050", name=name, known=known)
    return kinds.get(name, "sysctl")


def _text(name: str, kind: str, value: Any, catalog: Catalog) -> str:
    """Return a value as it is written. Raises Refusal."""
    text = kernel_forms.text(name, kind, value, catalog)
    if kind == "service" and text != SERVES:
        raise refuse("P075", name=name, value=text, allowed=SERVES)
    return text


def _setting(kind: str, name: str, value: str, record: dict[str, Any]) -> TuningSetting:
    if kind == "limit" and ":" not in value:
        value = f"{value}:{value}"
    return {"kind": kind, "name": name, "value": value, "because": record["because"], "source": record["source"]}
