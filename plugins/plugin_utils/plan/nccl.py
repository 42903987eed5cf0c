# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's settings of a node, from its interfaces, its InfiniBand and RoCE ports, and the way between its GPUs.

NCCL finds out most by itself. A setting is made only where the node's own facts say what NCCL cannot know, or where
what NCCL would do is known to hang. NVIDIA on both:
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html and .../troubleshooting.html
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.checks import nccl as nccl_check
from ansible_collections.gpulab.node.plugins.module_utils.checks import roce
from ansible_collections.gpulab.node.plugins.module_utils.cuda import nvcc
from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import same_or_newer
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import overrides, tuning
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import InfinibandPort, Interface
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import (
        Cuda,
        Driver,
        Library,
        Nccl,
        NcclSetting,
        NcclTests,
        Tuning,
    )

TESTS = "/opt/gpulab-nccl-tests"
PEERMEM = "nvidia-peermem"
PASSING = ("wireless", "tunnel")  # interfaces that come and go; NCCL does not start with one that is gone
FINDS_ADDRESS = "2.21"  # of NCCL: finds the address of RoCE v2 by itself from then on
FASTER = 2  # an interface that is this many times as fast as the one chosen is worth a word
_NAME = re.compile(r"NCCL_[A-Z0-9_]+")


class _Programs(TypedDict):
    """Which packages the node gets for its adapters, which go where gpulab brought them, and why."""

    packages: list[str]
    retired: list[str]
    because: list[str]


class _Part(TypedDict):
    """What one rule says: settings, kernel modules to load at boot, and why."""

    settings: list[NcclSetting]
    modules: list[str]
    because: list[str]


def plan(case: Case, driver: Driver, cuda: Cuda, library: Library | None, tuned: Tuning) -> Nccl:
    """Return NCCL's part; library is the planned NCCL of the system.

    Raises Refusal for an interface that the node does not have, for a wish that is no setting, and for tests that
    cannot be built.
    """
    parts = [_part(_setting("NCCL_DEBUG", "WARN", "NCCL logs errors only."))]
    if case.gpus:
        parts += [
            _interface(case),
            _adapters(case),
            _index(case, library),
            _between_gpus(case, tuned),
            _gpudirect(case, driver),
        ]
    else:
        parts.append(
            _part(because="An image is built without a GPU, so settings that depend on the machine are left out.")
        )
    programs = _programs(case)
    because = [line for part in parts for line in part["because"]] + programs["because"]
    settings = _overridden({one["name"]: one for part in parts for one in part["settings"]}, case)
    for name, value in case.facts["nccl_own"].items():
        if settings.pop(name, None):
            because.append(f"/etc/nccl.conf already sets {name}={value}, which is kept.")
        if name in nccl_check.SOCKETS and not case.alone and nccl_check.leaves_loopback(value):
            case.warnings.append(
                f"/etc/nccl.conf sets {name}={value}. gpulab keeps that, but it does not exclude lo: NCCL may"
                f" choose lo and reach no other node. Write {name}={value},lo, or remove the line."
            )
    chosen = list(settings.values())
    because += [f"{setting['name']}={setting['value']}: {setting['because']}" for setting in chosen]
    lines = [line for one in chosen for line in (f"# {one['because']}", f"{one['name']}={one['value']}")]
    return {
        "settings": chosen,
        "file": "".join(f"{line}\n" for line in lines),
        "modules": [module for part in parts for module in part["modules"]],
        "packages": programs["packages"],
        "retired": programs["retired"],
        "tests": _tests(case, driver, cuda, library),
        "because": because,
    }


def _programs(case: Case) -> _Programs:
    """Return what programs need of the system to use InfiniBand or RoCE; never beside the vendor's own software."""
    names = case.catalog.rdma_packages[case.platform["family"]]
    none: _Programs = {"packages": [], "retired": [], "because": []}
    if case.wishes["nccl_state"] != "present" or case.wishes["nccl_rdma_state"] != "present":
        return {**none, "retired": names}
    # A container has its host's adapters. One whose driver fails today is no reason to take its programs away.
    if case.container or not case.facts["infiniband"]:
        return none
    if case.facts["ofed"]:
        told = (
            "DOCA-OFED or MLNX_OFED is on the node (ofed_info) and is left alone: the system's rdma-core fits neither"
        )
        return {**none, "because": [f"{told}."]}
    return {"packages": names, "retired": [], "because": ["Programs use the adapters by the system's rdma-core."]}


def _tests(case: Case, driver: Driver, cuda: Cuda, library: Library | None) -> NcclTests | None:
    """Return how nccl-tests are built: again for another source, another toolkit, another NCCL or other GPUs."""
    url, sha256 = case.wishes["nccl_tests_url"], case.wishes["nccl_tests_sha256"]
    if not url:
        return None
    default, home = cuda["default"], cuda["home"]
    if not re.fullmatch("[0-9a-f]{64}", sha256 or ""):
        raise refuse("P076", reason="nccl_tests_sha256 is not set")
    if library is None or default is None or home is None:
        raise refuse("P076", reason="the plan has no NCCL to build them with")
    toolkit = next(one for one in cuda["toolkits"] if one["version"] == default)
    floor = case.catalog.toolkits[default]["min_driver"]
    if not same_or_newer(driver["newest_known"], floor):
        raise refuse("P076", reason=f"CUDA {default} runs only with cuda-compat, which the verification does not use")
    numbers = [capability.replace(".", "") for capability in cuda["compute_capabilities"]]
    name = "-".join([sha256[:12], f"cuda{default}", f"nccl{library['version']}", *numbers])
    return {
        "url": url,
        "sha256": sha256,
        "directory": f"{TESTS}/{name}",
        "cuda_home": home,
        "gencode": " ".join(nvcc.targets(cuda["compute_capabilities"])),
        "compiler": toolkit["host_compiler"],
    }


def _setting(name: str, value: str, because: str) -> NcclSetting:
    return {"name": name, "value": value, "because": because}


def _part(*settings: NcclSetting, because: str | None = None, modules: tuple[str, ...] = ()) -> _Part:
    return {"settings": list(settings), "because": [because] if because else [], "modules": list(modules)}


def _interface(case: Case) -> _Part:
    """Choose the interface that NCCL's processes meet over, and talk over where there is no better network."""
    interfaces = {interface["name"]: interface for interface in case.facts["network"]}
    requested = case.wishes["nccl_interface"]
    if requested:
        if requested not in interfaces:
            raise refuse("P052", name=requested, known=", ".join(interfaces) or "none")
        return _part(_setting("NCCL_SOCKET_IFNAME", f"={requested}", "set by nccl_interface."))
    if case.alone:
        return _part(because="No other node has this host's type, so NCCL chooses the interface.")
    routed = next((interface for interface in interfaces.values() if interface["default_route"]), None)
    if routed is None:
        return _part(because="No interface has the default route, so NCCL chooses the interface.")
    if routed["kind"] in PASSING:
        told = f"{routed['name']}, with the default route, is a {routed['kind']} interface, which is not permanent"
        return _part(because=f"{told}, so NCCL chooses the interface.")
    _tell_of_faster(case, routed)
    name = f"={routed['name']}"
    return _part(_setting("NCCL_SOCKET_IFNAME", name, "The interface of the default route, which reaches the peers."))


def _tell_of_faster(case: Case, routed: Interface) -> None:
    """Warn of a faster interface where sockets carry the data: whether peers are behind it, no fact tells."""
    if _ports(case) or not routed["speed_gbps"]:
        return
    others = [one for one in case.facts["network"] if one["up"] and one["kind"] in ("physical", "bond")]
    best = max(others, key=lambda one: one["speed_gbps"] or 0, default=routed)
    if (best["speed_gbps"] or 0) >= FASTER * routed["speed_gbps"]:
        case.warnings.append(
            f"NCCL uses {routed['name']} ({routed['speed_gbps']:g} Gb/s), the default route's; where other nodes are"
            f" reached over {best['name']} ({best['speed_gbps']:g} Gb/s), set nccl_interface: {best['name']}."
        )


def _ports(case: Case) -> list[InfinibandPort]:
    """Return the ports that carry the data: active, InfiniBand before RoCE, of these the fastest."""
    active = [port for port in case.facts["infiniband"] if port["state"] == "active"]
    layer = [port for port in active if port["link_layer"] == "infiniband"] or active
    best = max((port["rate_gbps"] or 0 for port in layer), default=0)
    return [port for port in layer if (port["rate_gbps"] or 0) == best]


def _adapters(case: Case) -> _Part:
    chosen = _ports(case)
    if not chosen:
        return _part(because="No InfiniBand or RoCE port is active, so NCCL uses sockets.")
    kind = "InfiniBand" if chosen[0]["link_layer"] == "infiniband" else "RoCE"
    reason = f"The {kind} ports that are up, at {chosen[0]['rate_gbps'] or 0:g} Gb/s"
    left_out = [_port(port) for port in case.facts["infiniband"] if port not in chosen]
    reason += f"; {', '.join(left_out)} left out, slower or down." if left_out else "."
    return _part(_setting("NCCL_IB_HCA", "=" + ",".join(map(_port, chosen)), reason))


def _index(case: Case, library: Library | None) -> _Part:
    """Name the address of RoCE v2 to an NCCL that does not look for it; one index holds for all ports."""
    ports = [port for port in _ports(case) if port["link_layer"] != "infiniband"]
    if not ports or library is None or same_or_newer(library["version"], FINDS_ADDRESS):
        return _part()
    good = [{gid["index"] for gid in port["gids"] if roce.fits(gid)} for port in ports]
    common = sorted(set.intersection(*good))
    if not common:
        told = f"NCCL {library['version']} needs an index of RoCE v2 with IPv4, but the ports have none in common"
        return _part(because=f"{told}. NCCL {FINDS_ADDRESS} and later find it.")
    reason = f"NCCL before {FINDS_ADDRESS} takes the first address, which is of RoCE v1 or passes no router."
    return _part(_setting("NCCL_IB_GID_INDEX", str(common[0]), reason))


def _port(port: InfinibandPort) -> str:
    return f"{port['device']}:{port['port']}"


def _gpudirect(case: Case, driver: Driver) -> _Part:
    """Say how adapters reach GPU memory: by dma-buf, which the open kernel modules have, or by a module."""
    if not _ports(case) or case.container:
        return _part()
    if driver["kernel_modules"] == "open":
        return _part(because="GPUDirect RDMA uses dma-buf of the open kernel modules.")
    return _part(because=f"GPUDirect RDMA needs {PEERMEM} with the proprietary kernel modules.", modules=(PEERMEM,))


def _between_gpus(case: Case, tuned: Tuning) -> _Part:
    """Forbid direct copies over PCI Express where ACS or the IOMMU, once looked at, stand in their way."""
    boards = [
        gpu for gpu in case.facts["pci"]["gpus"] if case.catalog.gpus.get(gpu["device"], {}).get("form") == "pcie"
    ]
    if len(boards) < 2:  # noqa: PLR2004 - a copy has two ends
        return _part()
    if case.container or case.facts["system"]["virtualization"] != "none":
        return _part(
            because="In a virtual machine or container, the host controls ACS and the IOMMU. NCCL decides on P2P."
        )
    if tuning.iommu_translates(case.facts) and tuning.UNTRANSLATED not in tuned["kernel_arguments"]:
        reason = (
            "The IOMMU translates transfers between PCIe boards, which CUDA does not support. NVLink is not affected."
        )
    elif any(gpu.get("redirecting_bridges") for gpu in boards):
        reason = (
            "ACS is on above the GPUs. It routes their copies through the processor, where they can hang. NVLink is"
            " not affected."
        )
    elif any(gpu.get("redirecting_bridges") is None for gpu in boards):
        return _part(because="The state of ACS above the GPUs could not be read. NCCL decides on P2P.")
    else:
        return _part(because="Neither ACS nor the IOMMU is in the way between the GPUs. NCCL decides on P2P.")
    return _part(_setting("NCCL_P2P_LEVEL", "NVL", reason))


def _overridden(settings: dict[str, NcclSetting], case: Case) -> dict[str, NcclSetting]:
    """Put the operator's values in, and take out what he leaves alone."""
    result = dict(settings)
    for name, value in case.wishes["nccl_overrides"].items():
        if not _NAME.fullmatch(str(name)):
            raise refuse("P053", name=name)
        if value is None:
            result.pop(name, None)
        else:
            text = overrides.text("nccl_overrides", name, value)
            result[name] = _setting(name, text, "Set by nccl_overrides.")
    return result
