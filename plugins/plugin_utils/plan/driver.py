# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver part of the plan: source, branch, version, kernel modules, kernels and packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.driver import dkms
from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import branch_of, newest
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import conflicts, display, kernels, source
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.branch import choose_branch
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.kernel_modules import (
    allowed_by_gpus,
    choose_kernel_modules,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.packages import package_format
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Driver, DriverChange

STAYS = "It is held at its installed version. To upgrade it while the GPUs are idle, set nvidia_driver_upgrade."
NEWEST = "nvidia_driver_upgrade is set: it is upgraded to the distribution's newest version while the GPUs are idle."

LEFTOVER = (
    "DKMS has {module} {version}, which belongs to no installed or planned driver. DKMS can build it for the next"
    " kernel instead of the driver's module. Remove it: dkms remove {module}/{version} --all."
)
DEAD_LEFTOVER = (
    "DKMS has {module} {version}, whose source is missing. For the next kernel, DKMS can stop there before it builds"
    " the driver. Remove it: rm -r /var/lib/dkms/{module}/{version}."
)


def plan(case: Case) -> Driver:
    """Return the driver part. Raises Refusal where no driver of the requested kind serves the node."""
    return _absent(case) if case.wishes["nvidia_driver_state"] == "absent" else _present(case)


def _present(case: Case) -> Driver:
    if case.facts["driver"].get("in_container"):
        raise refuse("P086")
    flavours = _carried_on(case, allowed_by_gpus(case))
    origin, why_source = source.choose(case)
    branch, why_branch = choose_branch(case, origin, flavours)
    build_for, why_kernels = kernels.to_build_for(case)
    modules, version, headers_decide, why_modules = choose_kernel_modules(case, origin, branch, flavours, build_for)
    why_version = source.check_version(case, branch, version)
    shown, why_shown = display.choose(case)
    packages = origin.packages(case, branch, version, modules, build_for, shown=shown)
    conflicting = conflicts.find(case, origin.name, branch, version, packages["packages"]) if origin.record else []
    exact = origin.exact(case, branch, modules)
    held, why_held = _hold(case, build_for, signed=origin.signed)
    upgrade = case.wishes["nvidia_driver_upgrade"] and not exact
    why_held = why_held if exact else [NEWEST if upgrade else STAYS, *why_held]
    planned: Driver = {
        "source": origin.name,
        "branch": branch,
        "version": version if exact else None,
        "newest_known": version,
        "upgrade": upgrade,
        "kernel_modules": modules,
        **packages,
        "conflicting_packages": conflicting,
        "hold": held,
        "kernels": build_for,
        "header_packages": [] if origin.signed else kernels.header_packages(case, build_for),
        "headers_decide": headers_decide and not origin.signed,
        "persistence": bool(case.gpus),
        "display": shown,
        "because": [*why_source, *why_branch, *why_version, *why_modules, *why_kernels, *why_shown, *why_held],
        "change": None,
    }
    change = planned["change"] = _change(case, planned)
    _check_holds(case, planned, change)
    if not origin.signed:
        compilers, without = kernels.compilers(case, build_for)
        planned["build_packages"] = [*planned["build_packages"], *compilers]
        case.warnings += without
    case.warnings += [*kernels.foreign(case, build_for), *kernels.left_out(case, build_for), *_leftovers(case, version)]
    if (change or upgrade) and origin.record and package_format(case) == "deb":
        # Packs a former package again that no source has any more.
        planned["build_packages"] = [*planned["build_packages"], "dpkg-repack"]
    return planned


def _carried_on(case: Case, flavours: tuple[str, ...]) -> tuple[str, ...]:
    """Return the flavours of kernel modules to choose from: a desktop driver that stays keeps its own."""
    own = [kernel["nvidia_module_flavour"] for kernel in case.facts["kernels"] if kernel["next_boot"]]
    kept = tuple(flavour for flavour in flavours if flavour in own) if display.carried_on(case) else ()
    return kept or flavours


def _absent(case: Case) -> Driver:
    """Return the part of a driver that is to go: what the node has, and no driver that would have to serve it."""
    driver, nvidia = case.facts["driver"], case.platform["driver_sources"]["nvidia"]
    names = [package["name"] for package in driver["packages"]]
    sources = ["runfile"] if driver["runfile"] else sorted({package["source"] for package in driver["packages"]})
    known = [kernel["version"] for kernel in case.facts["kernels"]]
    branch = branch_of(driver.get("module_on_disk") or driver.get("library") or driver["runfile"] or "")
    if branch not in case.catalog.branches:
        branch = newest(list(case.catalog.branches))
    debian = package_format(case) == "deb"
    served = case.architecture in case.catalog.repositories[nvidia["repository"]]["architectures"]
    origin = nvidia["repository"] if served and "nvidia" in sources else None
    return {
        "source": sources[0] if sources else "nvidia",
        "branch": branch,
        "version": None,
        "newest_known": case.catalog.branches[branch]["latest"] or branch,
        "upgrade": False,
        "kernel_modules": None,
        "packages": [],
        "kernel_package": None,
        "dkms_module": None,
        "build_packages": ["dkms", "gcc", "make"] if driver["runfile"] else ["dkms"],
        "remove_packages": [],
        "pin_package": None,
        "module_stream": None,
        "apt_components": [],
        "release_packages": [] if debian else [*nvidia["components"], nvidia["package_sets"][0]["lock_package"]],
        "repository": source.repository(case, origin, driver=True) if origin else None,
        "conflicting_packages": [],
        "hold": _hold(case, known, signed=any(name.startswith(conflicts.SIGNED_MODULES) for name in names))[0],
        "kernels": [],
        "header_packages": kernels.header_packages(case, known),
        "headers_decide": False,
        "persistence": False,
        "display": False,
        "because": [
            "nvidia_driver_state is absent: no driver is planned, and the driver that gpulab installed is removed."
        ],
        "change": _change(case, None),
    }


def _change(case: Case, planned: Driver | None) -> DriverChange | None:
    """Return {from, to} where another driver, or none, takes the place of one that is there; None elsewhere."""
    driver = case.facts["driver"]
    present = driver.get("module_on_disk") or driver.get("library")
    sources = {package["source"] for package in driver["packages"]}
    if driver["runfile"]:
        present = present or driver["runfile"]
        sources.add("runfile")
    if not present or not sources:
        return None
    before = f"{present} ({' and '.join(sorted(sources))})"
    if planned is None:
        stays = sources == {"runfile"} and not driver["runfile_own"]  # what gpulab did not bring
        return None if stays else {"from": before, "to": "none"}
    other_version = planned["version"] not in (None, present)
    in_the_way = planned["conflicting_packages"] or planned["remove_packages"] or _other_modules(case, planned)
    if not (other_version or planned["source"] not in sources or in_the_way or driver.get("former")):
        return None
    version = planned["version"] or f"branch {planned['branch']}"
    return {
        "from": before,
        "to": f"{version} ({planned['source']}, {planned['kernel_modules']} modules)",
    }


def _check_holds(case: Case, planned: Driver, change: DriverChange | None) -> None:
    """Raise Refusal P085 where the plan replaces a driver that somebody else has put on hold."""
    held = case.facts["driver"].get("holds_foreign", [])
    goes = change or planned["conflicting_packages"] or planned["remove_packages"]
    if held and goes:
        way = conflicts.way_to_keep(case)
        told = f"{change['from']} to {change['to']}" if change else f"branch {planned['branch']}"
        keep = f"; to keep it: {way}" if way else ""
        raise refuse("P085", names=", ".join(held), change=told, keep=keep)


def _leftovers(case: Case, planned: str) -> list[str]:
    """Return warnings about modules in DKMS that belong to no driver of the node.

    For a new kernel, DKMS builds the newest version of a module, and some versions of it stop at one without a source:
    https://github.com/pop-os/system76-driver/issues/345
    """
    driver = case.facts["driver"]
    own = {planned, driver.get("library"), driver["runfile"]}  # a module on disk can itself come from a leftover
    found = {}
    for record in (record for kernel in case.facts["kernels"] for record in kernel["dkms"]):
        module, version = record["module"], record["version"]
        of_package = (dkms.of_package(package["version"], [version]) for package in driver["packages"])
        if version not in own and version not in of_package:
            found[module, version] = LEFTOVER if record.get("source", True) else DEAD_LEFTOVER
    return [text.format(module=module, version=version) for (module, version), text in found.items()]


def _other_modules(case: Case, planned: Driver) -> bool:
    """Tell whether a .run file of the same version is to bring the other kernel modules; of packages, names tell."""
    if planned["source"] != "runfile":
        return False
    flavours = [kernel["nvidia_module_flavour"] for kernel in case.facts["kernels"] if kernel["next_boot"]]
    return any(flavour not in (None, planned["kernel_modules"]) for flavour in flavours)


def _hold(case: Case, build_for: list[str], *, signed: bool) -> tuple[list[str], list[str]]:
    """Return names and globs of the packages that are held, and what is to be said about it."""
    if not signed:
        return case.catalog.driver_packages, []
    # A kernel that comes without modules of the held driver would boot without a driver.
    series = dict.fromkeys(one for kernel in build_for if (one := kernels.series(case, kernel)))
    metapackages = [f"{prefix}-{one}" for one in series for prefix in ("linux", "linux-image", "linux-headers")]
    because = (
        "Its modules fit one kernel, which is held with the driver and gets no security fixes until the driver changes."
    )
    return [*case.catalog.driver_packages, *metapackages], [because]
