# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps a plan from being carried out: an interrupted dpkg, a forbidden module, a file system that is full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.driver import dkms
from ansible_collections.gpulab.node.plugins.module_utils.facts.modprobe import KERNEL, NEVER
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import display
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import ForbiddenModule
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import Filesystem
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Driver, Plan


def broken(facts: Facts, plan: Plan) -> Iterator[Refusal]:
    """Yield what has to be mended on the node first."""
    if facts["system"]["package_state"] == "interrupted":
        yield from _cut_off(facts, plan["driver"])
    for filesystem in _of_plan(facts, plan):
        if not filesystem["responsive"]:
            yield refuse("H080", mount=filesystem["mount"])
        elif filesystem["read_only"]:
            yield refuse("H081", mount=filesystem["mount"])


def forbidden_modules(facts: Facts) -> Iterator[tuple[bool, Refusal]]:
    """Yield what prevents the driver's modules from being loaded at the next boot, and whether it forbids every way."""
    loaded = facts["modules"]["nvidia"]["loaded"]
    for one in facts["forbidden"]["next_boot"] if facts["pci"]["gpus"] else ():
        if one["how"] == NEVER:
            yield True, refuse("H200", module=one["module"], by=one["by"], line=one["line"], way=_way_out(one))
        elif not loaded:
            yield False, refuse("H201", by=one["by"], line=one["line"], way=_way_out(one))


def _way_out(one: ForbiddenModule) -> str:
    """Return how a line, or a kernel argument, is removed."""
    if one["by"] != KERNEL:
        return f"Remove that line from {one['by']} (if prime-select wrote it, run prime-select nvidia)"
    return (
        f"Remove {one['line']} from GRUB_CMDLINE_LINUX in /etc/default/grub and run update-grub, or run grubby"
        f" --update-kernel=ALL --remove-args={one['line']}; then reboot"
    )


def short_of_space(facts: Facts, plan: Plan, limits: dict[str, Any]) -> Iterator[Refusal]:
    """Yield each file system that cannot hold its part of the plan."""
    for filesystem in _of_plan(facts, plan):
        mount, free, inodes = filesystem["mount"], filesystem["free_mib"], filesystem["free_inodes"]
        if free is not None and free < plan["disk"][mount]:
            yield refuse("H082", mount=mount, free=free, need=plan["disk"][mount])
        if inodes is not None and inodes < limits["free_inodes_min"]:
            yield refuse("H083", mount=mount, free=inodes, need=limits["free_inodes_min"])


def losing_display(facts: Facts) -> Iterator[Refusal]:
    """Tell of a desktop on a node that has no driver of NVIDIA's yet: nouveau goes, and nothing draws in its place."""
    if facts["driver"]["library"] or not display.is_here(facts):
        return
    sessions, units = facts["users_of_gpus"]["sessions"], facts["services"] or {}
    who = sorted({session["user"] for session in sessions if session["desktop"]})
    if "display-manager" in units and units["display-manager"]["active"] == "active":
        who.append("display-manager.service")
    if who:
        yield refuse("H086", who=", ".join(who))


def _cut_off(facts: Facts, driver: Driver) -> Iterator[Refusal]:
    """Yield why packages are unfinished: a driver that does not build must not be configured again.

    Nor must a kernel for which it does not build: the kernel's own script has DKMS build, and fails with it.
    Nothing is wrong where the plan removes all of them.
    """
    found = facts["system"]["packages_unfinished"]
    going = [*driver["conflicting_packages"], *driver["remove_packages"]]
    left = [name for name in found if name not in map(_bare, going)]
    versions = {_bare(package["name"]): package["version"] for package in facts["driver"]["packages"]}
    of_driver = {name: versions[name] for name in left if name in versions}
    failed = _failed_build(facts, of_driver.values())
    if failed:
        yield _unbuilt(list(of_driver), failed)
        left = [name for name in left if name not in of_driver]
    failed = None if failed else _failed_build(facts, versions.values())
    of_kernel = [name for name in left if name.startswith("linux-") and name != "linux-libc-dev"]
    if failed and any(failed["kernel"] in name for name in of_kernel):
        yield _unbuilt_kernel(facts, of_kernel, failed)
        left = [name for name in left if name not in of_kernel]
    if left or not found:
        yield refuse("H047", line=f"{', '.join(left) or 'a transaction of dpkg'} was interrupted")


def _unbuilt(names: list[str], failed: dict[str, str]) -> Refusal:
    """Return the refusal of packages whose module does not build; a node that is to be mended keeps them."""
    remove = f"Remove these packages (apt-get remove {' '.join(names)}) and run again"
    other = f"{remove}: gpulab then plans a driver that builds"
    told = dkms.told(failed["error"], "")
    further = "Then run dpkg --configure -a on the node, and run again" if dkms.is_of_node(failed["error"]) else other
    way = ". ".join(filter(None, (told["way"], further)))
    return refuse("D040", names=", ".join(names), **{**failed, "error": told["error"], "way": way})


def _unbuilt_kernel(facts: Facts, names: list[str], failed: dict[str, str]) -> Refusal:
    """Return the refusal of a kernel for which the node's driver does not build."""
    told = dkms.told(failed["error"], "")
    boot = "Boot another kernel: this one runs. " if failed["kernel"] == facts["system"]["kernel"] else ""
    remove = (
        f"{boot}Remove that kernel (apt-get remove {' '.join(names)}) and run again. Install it again when a driver"
        " builds for it"
    )
    further = "Then run dpkg --configure -a on the node, and run again" if dkms.is_of_node(failed["error"]) else remove
    way = ". ".join(filter(None, (told["way"], further)))
    return refuse("D040", names=", ".join(names), **{**failed, "error": told["error"], "way": way})


def _failed_build(facts: Facts, versions: Iterable[str]) -> dict[str, str] | None:
    """Return the failed DKMS build of a driver of one of these versions."""
    for kernel in facts["kernels"]:
        for build in kernel["dkms"]:
            named = any(dkms.of_package(version, [build["version"]]) == build["version"] for version in versions)
            if build["error"] and named:
                of_kernel = {"module": build["module"], "version": build["version"], "error": build["error"]}
                return {"kernel": kernel["version"], **of_kernel}
    return None


def _bare(name: str) -> str:
    return name.partition(":")[0]


def _of_plan(facts: Facts, plan: Plan) -> list[Filesystem]:
    return [filesystem for filesystem in facts["filesystems"] if filesystem["mount"] in plan["disk"]]
