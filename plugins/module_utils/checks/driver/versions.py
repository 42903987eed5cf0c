# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the versions of the driver: one everywhere, and still there after the next boot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.driver.reasons import (
    forbidden,
    installed,
    unbuilt,
    undriven,
)
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    Facts,
    Node,
    Result,
    check,
    fail,
    inapplicable,
    ok,
    skipped,
    unknown,
    warn,
)
from ansible_collections.gpulab.node.plugins.module_utils.checks.software import release
from ansible_collections.gpulab.node.plugins.module_utils.facts.modprobe import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterator

DRIVER_GUIDE = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"


@check(
    "driver-match",
    proves="the loaded module, the running kernel's module on disk and the library have the same version",
    source=DRIVER_GUIDE,
)
def driver_match(node: Node) -> Iterator[Result]:
    """Name the cause of NVML's 'Driver/library version mismatch'."""
    loaded = node.facts.get("modules.nvidia.version")
    library = node.facts.optional("driver.library")
    on_disk = next((k.get("nvidia_module") for k in node.kernels() if k.get("running")), None)
    if not node.facts["modules.nvidia.loaded"] or not loaded:
        yield skipped("the nvidia module is not loaded (see driver-responsive)")
    elif not library:
        yield fail(
            f"module {loaded} is loaded, but its library is not installed",
            "reinstall_driver",
            observed=None,
            expected=loaded,
        )
    elif loaded != library:
        cause, remedy = _mismatch(node, loaded, library, on_disk)
        yield fail(
            f"Driver/library version mismatch: module {loaded} is loaded, but the library is {library}",
            remedy,
            observed=loaded,
            expected=library,
            reason=cause,
        )
    elif on_disk and on_disk != loaded:
        yield warn(
            f"module and library are {loaded}, but the module on disk is {on_disk}",
            _remedy(on_disk, library),
            observed=on_disk,
            expected=loaded,
            reason="the versions will differ when the module is loaded next",
        )
    else:
        yield ok(f"module and library are {loaded}", loaded)


def _old_image(node: Node, library: str) -> tuple[str, str] | None:
    """Return (cause, remedy) of another driver in the next boot's initramfs; None where it brings none."""
    for kernel in node.kernels():
        image = kernel.get("initramfs") if kernel.get("next_boot") else None
        if image and image.get("nvidia") and image.get("nvidia_version") != library:
            brought = image.get("nvidia_version", "another version")
            return (
                f"{image['path']} brings {brought} of the driver, which is loaded before the one on disk",
                "rebuild_initramfs",
            )
    return None


def _remedy(module: str, library: str) -> str:
    """Return the remedy where the versions of module and library differ: building a module brings no newer library."""
    return "reinstall_driver" if release(module) > release(library) else "rebuild_module"


def _mismatch(node: Node, loaded: str, library: str, on_disk: str | None) -> tuple[str, str]:
    """Return (cause, remedy) of a loaded module that is not the library's version."""
    runfile = node.facts.get("driver.runfile")
    if runfile and node.facts.get("driver.packages"):
        return f"two drivers are installed: one from packages, and {runfile} from a .run file", "reinstall_driver"
    older = release(library) < release(loaded)
    if on_disk == library:
        return _old_image(node, library) or (
            f"the driver was {'downgraded' if older else 'upgraded'} after its module was loaded",
            "reboot",
        )
    if on_disk == loaded and older:
        path = node.facts.get("driver.library_path") or "it"
        return f"the library is older than the module: {path} was not upgraded with the module", "reinstall_driver"
    if on_disk == loaded:
        return f"the library was upgraded, but no module {library} was built for the running kernel", "rebuild_module"
    if on_disk is None:
        return "no module for the running kernel is on disk", "reboot"
    return f"module on disk {on_disk}: three versions are installed", "reinstall_driver"


@check(
    "display-match",
    proves="what draws a display (GLX, EGL, the X server's driver) has the version of the library and of the module",
    source=DRIVER_GUIDE,
)
def display_match(node: Node) -> Iterator[Result]:
    """Find the part of the driver that the others leave without a picture."""
    display: dict[str, str | None] = node.facts["driver.display"].data  # names with dots
    planned = node.plan is not None and bool(node.plan.get("driver.display"))
    library = node.facts.optional("driver.library")
    loaded = node.facts.get("modules.nvidia.version") or library
    other = {name: version for name, version in display.items() if version and version != library}
    unread = [name for name, version in display.items() if not version]
    if not library:
        yield skipped("no driver is installed (see driver-responsive)")
    elif not display and not planned:
        node.planned("driver")
        yield inapplicable("the driver has no part for a display")
    elif not display:
        yield fail(
            "the driver's part for a display is not installed", "reinstall_driver", observed=[], expected=library
        )
    elif other:
        named = ", ".join(f"{name} is {version}" for name, version in sorted(other.items()))
        yield fail(f"{named}; the library is {library}", "reinstall_driver", observed=other, expected=library)
    elif loaded != library:
        yield skipped(f"module {loaded} is loaded, but the library is {library} (see driver-match)")
    elif unread:
        yield unknown(f"the version of {', '.join(unread)} could not be read")
    else:
        yield ok(f"display, library and module are {library}", library)


@check(
    "driver-next-boot",
    proves="the next boot's kernel has a driver module in the library's version",
    source=DRIVER_GUIDE,
    on_host=True,
)
def driver_next_boot(node: Node) -> Iterator[Result]:
    """Find the node that would come back from a reboot without its GPUs."""
    library = node.facts.optional("driver.library")
    if not library and not installed(node):
        yield skipped("no driver is installed (see driver-responsive)")
        return
    following = [kernel for kernel in node.kernels() if kernel.get("next_boot")]
    unsupported, blocked = undriven(node, "next_boot"), forbidden(node, "next_boot", (NEVER,))
    if not following:
        yield unknown("the next boot's kernel could not be determined")
    for kernel in following:
        module = kernel.optional("nvidia_module")
        if not module:
            yield fail(
                f"kernel {kernel['version']} boots next and has no nvidia module",
                "rebuild_module",
                expected=library,
                reason=unbuilt(kernel, library),
            )
        elif library and module != library:
            yield fail(
                f"kernel {kernel['version']} boots next with module {module}; the library is {library}",
                _remedy(module, library),
                observed=module,
                expected=library,
            )
        elif library and (brought := kernel.get("initramfs.nvidia_version")) and brought != library:
            yield fail(
                f"the initramfs of {kernel['version']} loads driver {brought} at the next boot; the library is"
                f" {library}",
                "rebuild_initramfs",
                observed=brought,
                expected=library,
            )
        elif unsupported:
            yield fail(f"kernel {kernel['version']} boots next: {unsupported}", "other_modules", observed=module)
        elif blocked:
            yield fail(
                f"kernel {kernel['version']} boots next and cannot load module {module}: {blocked}",
                "allow_module",
                observed=module,
            )
        else:
            yield ok(f"kernel {kernel['version']} has module {module}", module)


@check(
    "dkms-every-kernel",
    proves="every installed kernel has the driver's module, so the GPUs work with each of them",
    source="https://github.com/dell/dkms",
    on_host=True,
)
def dkms_every_kernel(node: Node) -> Iterator[Result]:
    """Look at every kernel: someone may boot the one before."""
    if not installed(node):
        yield skipped("no driver is installed (see driver-responsive)")
        return
    library = node.facts.optional("driver.library")
    without = [kernel for kernel in node.kernels() if not kernel.get("nvidia_module") and not _unread(kernel, library)]
    other = [kernel for kernel in node.kernels() if _has_other_module(kernel, library)]
    for kernel in without:
        yield warn(
            f"kernel {kernel['version']} has no nvidia module",
            "rebuild_module",
            observed=[f"{b.get('version')} {b.get('state')}" for b in kernel.get("dkms", [])],
            expected="installed",
            reason=unbuilt(kernel, library),
        )
    for kernel in other:
        module = kernel["nvidia_module"]
        yield warn(
            f"kernel {kernel['version']} has module {module}; the library is {library}",
            _remedy(module, library or ""),
            observed=module,
            expected=library,
            reason=unbuilt(kernel, library),
        )
    if not without and not other:
        yield ok(f"all {len(node.kernels())} installed kernels have the module")


def _has_other_module(kernel: Facts, library: str | None) -> bool:
    """Tell of a kernel with another driver's module; of those that run and boot next, other checks tell."""
    module = kernel.get("nvidia_module")
    elsewhere = not kernel.get("running") and not kernel.get("next_boot")
    return elsewhere and library is not None and module not in (None, library)


def _unread(kernel: Facts, library: str | None) -> bool:
    """Tell whether a module is there whose version could not be read, and DKMS has installed it."""
    return kernel.get("nvidia_module_file") is not None and any(
        build.get("state") == "installed" and library in (None, build.get("version"))
        for build in kernel.get("dkms", [])
    )
