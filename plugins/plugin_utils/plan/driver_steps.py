# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role nvidia_driver does with its part of the plan: in which order, with which packages, and which way back.

The plan is made before the node's package system is asked, and facts are read again in between. So this is decided when
a step is due, from the plan and the facts of that time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import DriverPackage
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Driver, DriverChange, Imex, Plan

FORMER = "nvidia-driver"  # under this name, the packages of all transactions are kept as they were
CHANNEL = {"nvidia": {"NVreg_CreateImexChannel0": 1}}  # by default, the driver creates none, and NCCL finds no memory
DISPLAY = {"nvidia_drm": {"modeset": 1}}  # Wayland's compositors need it, and the console
REPACKS = "dpkg-repack"  # comes with a change


class Asked(NamedTuple):
    """What the role's own variables ask for."""

    keep_former: bool = True
    forced: bool = False  # the node may be in use
    module_options: dict[str, dict[str, Any]] | None = None


def driver_steps(plan: Plan, facts: Facts, newer: dict[str, Any], asked: Asked) -> dict[str, Any]:
    """Return what the role decides on.

    newer are the packages that an upgrade would change, by name: their versions before and after.
    """
    driver, imex = plan["driver"], plan["imex"]
    packages = [*driver["packages"], *plan["fabric_manager"]["packages"], *imex["packages"]]
    builds = [*driver["header_packages"], *driver["build_packages"]]
    change = _change(driver, packages, newer)
    unfinished = _is_unfinished(driver, facts)
    way_back = change is not None and asked.keep_former and not unfinished
    present = facts["driver"]
    shares = _shares(driver, facts, change)
    first = driver["source"] != "runfile" and not present["library"] and not present["module_on_disk"]
    return {
        # {from, to} where another driver replaces one that is there: the planned one, or what an upgrade brings.
        "change": change,
        "upgrade": bool(newer),
        # People at work would prevent the reboot that a driver needs, and until then every new program would fail.
        "needs_idle_node": (change is not None or imex["restart"]) and not asked.forced,
        "packages": packages,
        "builds": builds,
        # What builds modules comes in the driver's own transaction, which takes less time. It comes before it where the
        # headers can show that another driver is needed, where a driver gives way to one that builds, and with RPM,
        # which runs what builds the modules as soon as it has unpacked it.
        "builds_first": driver["headers_decide"] or change is not None or facts["system"]["family"] != "debian",
        # In every transaction, APT first configures unfinished packages; a driver that does not build would make each
        # one fail. There is no way back to it.
        "unfinished": unfinished,
        "way_back": way_back,
        "former": FORMER if way_back and driver["source"] != "runfile" else None,
        "former_builds": _former_builds(driver, facts),
        # Modules are to be built that nodes like this one need, too.
        "shares": shares,
        # After the transaction, which then cannot take back a driver that does not build: the role has to be able to.
        "build_later": shares and (first or way_back),
        # Where there was none before, a driver that cannot be built goes again.
        "first": first,
        "brought": _names([*packages, driver["pin_package"]]),
        # What goes where the driver does, as far as gpulab brought it and nothing else needs it.
        "retired": _names(
            [
                *(package["name"] for package in present["packages"]),
                *builds,
                *driver["release_packages"],
                *plan["fabric_manager"]["packages"],
                REPACKS,
            ]
        ),
        "remove_imex": facts["imex"]["own"] and not imex["needed"],
        "rebuild_initramfs": _has_other_driver(facts, change),
        "imex_packages": [] if imex["needed"] else _of_imex(imex["service"], present["packages"]),
        "module_options": _module_options(driver, imex, asked.module_options or {}),
        # What is missing of a driver, as its display's packages, comes in the version that is there.
        "stays": driver["source"] == "distribution" and not driver["version"] and change is None,
    }


def _has_other_driver(facts: Facts, change: DriverChange | None) -> bool:
    """Tell whether the next boot's initramfs brings a driver that is not, or will not be, the one on disk."""
    on_disk = (None, facts["driver"]["module_on_disk"])
    images = [kernel["initramfs"] for kernel in facts["kernels"] if kernel["next_boot"]]
    return any(image and image["nvidia"] and (change or image["nvidia_version"] not in on_disk) for image in images)


def _change(driver: Driver, packages: list[str], newer: dict[str, Any]) -> DriverChange | None:
    planned = driver["change"]
    if planned is not None or not newer:
        return planned
    named = next((name for name in packages if name in newer), next(iter(newer)))
    before, after = newer[named]
    return {"from": before, "to": after}


def _is_unfinished(driver: Driver, facts: Facts) -> bool:
    conflicting = {name.partition(":")[0] for name in driver["conflicting_packages"]}
    return not conflicting.isdisjoint(facts["system"]["packages_unfinished"])


def lacks_modules(driver: Driver, facts: Facts) -> bool:
    """Say whether DKMS has the planned module not installed for one of the planned kernels."""
    installed = {
        kernel["version"]
        for kernel in facts["kernels"]
        for record in kernel["dkms"]
        if record["module"] == driver["dkms_module"] and record["state"] == "installed"
    }
    return not installed.issuperset(driver["kernels"])


def _shares(driver: Driver, facts: Facts, change: DriverChange | None) -> bool:
    """Say whether DKMS has to build modules that other nodes can load; dnf's packages build when they are unpacked."""
    by_packages = driver["dkms_module"] is not None and driver["source"] != "runfile"
    due = change is not None or lacks_modules(driver, facts)
    return by_packages and facts["system"]["family"] == "debian" and due


def _former_builds(driver: Driver, facts: Facts) -> list[dict[str, str]]:
    """Return what DKMS builds once more for the former driver: every kernel, and module of the version on disk.

    A kernel that the plan leaves out, or that came since, may be the one that boots next, and the former driver had it.
    Packages tell the version: until the reboot, the linker may find the library of the driver that is loaded.
    """
    packages = {re.split(r"[-+~]", one["version"].rpartition(":")[2])[0] for one in facts["driver"]["packages"]}
    versions = packages or {facts["driver"]["library"]}
    return [
        {"kernel": kernel["version"], "module": record["module"], "version": record["version"]}
        for kernel in facts["kernels"]
        if kernel["version"] in driver["kernels"] or (kernel.get("installed") and kernel.get("headers"))
        for record in kernel["dkms"]
        if record["version"] in versions and record["state"] != "installed"
    ]


def _of_imex(service: str, packages: list[DriverPackage]) -> list[str]:
    return [package["name"] for package in packages if package["name"].startswith(service)]


def _module_options(driver: Driver, imex: Imex, own: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the options of the driver's modules, by module; the inventory has the last word."""
    default = {**(CHANNEL if imex["needed"] else {}), **(DISPLAY if driver["display"] else {})}
    found = {module: {**default.get(module, {}), **own.get(module, {})} for module in (*default, *own)}
    return {module: options for module, options in found.items() if options}


def _names(packages: Iterable[str | None]) -> list[str]:
    """Return packages without their versions, each once."""
    return list(dict.fromkeys(package.partition("=")[0] for package in packages if package))
