# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the driver: present, alone, of one version everywhere, and still there after the next boot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks import gpu_settings
from ansible_collections.gpulab.node.plugins.module_utils.checks.board import BROKEN
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    Facts,
    Node,
    Result,
    check,
    fail,
    inapplicable,
    info,
    ok,
    skipped,
    unknown,
    warn,
)
from ansible_collections.gpulab.node.plugins.module_utils.checks.software import release
from ansible_collections.gpulab.node.plugins.module_utils.facts.modprobe import BY_ITSELF, NEVER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

DRIVER_GUIDE = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"
NVML_API = "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html"


@check(
    "gpu-count",
    proves="every GPU on the PCI bus answers through NVML, and their number is as declared",
    source=NVML_API,
)
def gpu_count(node: Node) -> Iterator[Result]:
    """Compare PCI, NVML and the operator's number; name the GPU that is lost."""
    if node.foreign_kernel:
        yield inapplicable("a container sees its host's whole PCI bus, not only its own GPUs")
        return
    present = {gpu["address"] for gpu in node.pci_gpus}
    declared, lent = node.declared.get("gpus"), node.facts.get("pci.lent", [])
    lent_to = ", ".join(f"{gpu['address']} ({gpu['driver']})" for gpu in lent)
    if not present and not declared:
        yield (
            ok("no GPU, as declared", 0)
            if declared == 0
            else fail(
                node.without_gpu,
                "take_back_gpu" if lent else "check_seating",
                observed=0,
                expected="at least 1",
                unit="GPUs",
            )
        )
        return
    if declared is not None and lent and len(present) < declared <= len(present) + len(lent):
        yield fail(
            f"only {len(present)} of {declared} declared GPUs are available on this node",
            "take_back_gpu",
            observed=len(present),
            expected=declared,
            unit="GPUs",
            reason=f"assigned to virtual machines: {lent_to}",
        )
        return
    if declared is not None and len(present) != declared:
        yield fail(
            f"{len(present)} GPUs on the PCI bus, {declared} declared",
            "check_seating" if len(present) < declared else "configure",
            observed=len(present),
            expected=declared,
            unit="GPUs",
            reason=None if len(present) < declared else "fewer GPUs are declared than present",
        )
        return
    if node.facts["nvml.state"] not in ("ok", "no_devices"):
        yield ok(f"{len(present)} GPUs on the PCI bus; NVML does not answer (see driver-responsive)", len(present))
        return
    lost = sorted(present - {gpu.get("bus_id") for gpu in node.gpus})
    errors = sorted({gpu.data["error"] for gpu in node.gpus if "error" in gpu.data})
    if lost:
        virtual, undriven = _ordinary_driver_of_vgpu(node), _undriven(node, "running", lost)
        why = (
            virtual
            or undriven
            or (f"NVML answers {', '.join(errors)}" if errors else "on the PCI bus, but NVML does not list them")
        )
        remedy = "install_grid" if virtual else "other_modules" if undriven else BROKEN.get([*errors, ""][0], "reboot")
        yield fail(
            f"{len(lost)} of {len(present)} GPUs do not answer: {', '.join(lost)}",
            remedy,
            observed=len(present) - len(lost),
            expected=len(present),
            unit="GPUs",
            reason=why,
        )
    else:
        besides = f"; assigned to virtual machines: {lent_to}" if lent else ""
        yield ok(f"{len(present)} GPUs on PCI and in NVML{besides}", len(present))


def _ordinary_driver_of_vgpu(node: Node) -> str | None:
    """Say so where a GPU is a vGPU and the driver is not the GRID driver, which brings a daemon for licences."""
    virtual = any(gpu.get("vgpu") for gpu in node.facts.get("pci.gpus", []))
    grid = (node.facts.get("services") or Facts({})).get("nvidia-gridd", Facts({})).get("load") == "loaded"
    return "the GPU is a virtual GPU (vGPU), which needs NVIDIA's GRID driver" if virtual and not grid else None


def _undriven(node: Node, which: str, addresses: Collection[str] | None = None) -> str | None:
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


def _forbidden(node: Node, when: str, how: tuple[str, ...]) -> str | None:
    """Name what prevents the driver's modules from being loaded."""
    found = [one for one in node.facts.get(f"forbidden.{when}", []) if one["how"] in how]
    return ", ".join(f"{one['by']} has {one['line']}" for one in found) or None


@check(
    "nouveau-absent",
    proves="nouveau holds no GPU, is not loaded, and will not take a GPU at the next boot",
    source=DRIVER_GUIDE,
    on_host=True,
)
def nouveau_absent(node: Node) -> Iterator[Result]:
    """Look at what nouveau does now, then at what it will do after a reboot."""
    if not node.pci_gpus:
        yield node.without(f"{node.without_gpu} (see gpu-count)")
        return
    blacklisted = node.facts["nouveau.blacklisted"]
    bound = [gpu["address"] for gpu in node.pci_gpus if gpu.get("driver") == "nouveau"]
    after = "reboot" if blacklisted else "configure"
    found = False
    if bound:
        found = True
        yield fail(
            f"nouveau holds {', '.join(bound)}", after, observed=bound, expected=[], reason=_unlisted(blacklisted)
        )
    elif node.facts["modules.nouveau.loaded"]:
        found = True
        yield warn("nouveau is loaded", after, observed="loaded", expected="absent", reason=_unlisted(blacklisted))
    for kernel in node.kernels():
        image = kernel.optional("initramfs") if kernel.get("next_boot") else None
        if image and image["nouveau"] and not image["blacklist"]:
            found = True
            yield fail(
                f"the initramfs of {kernel['version']} loads nouveau at the next boot",
                "rebuild_initramfs",
                observed="nouveau without its blacklist",
                expected="blacklisted",
                reason="the blacklist was written after this initramfs was built" if blacklisted else None,
            )
    if not found and not blacklisted:
        found = True
        yield warn("nouveau is not blacklisted", "configure", observed=False, expected=True)
    if not found:
        yield ok("nouveau is absent and blacklisted")


def _unlisted(blacklisted: bool) -> str:  # noqa: FBT001 - the fact itself
    return "blacklisted, but loaded before that took effect" if blacklisted else "it is not blacklisted"


@check(
    "nova-absent",
    proves="the kernel's nova driver holds no GPU, is not loaded, and will not take a GPU at the next boot",
    source=DRIVER_GUIDE,
    on_host=True,
)
def nova_absent(node: Node) -> Iterator[Result]:
    """Look for the kernel's new in-tree driver, which competes with NVIDIA's as nouveau does."""
    bound = [gpu["address"] for gpu in node.pci_gpus if str(gpu.get("driver", "")).lower().startswith("nova")]
    found = False
    if bound:
        found = True
        yield fail(f"nova holds {', '.join(bound)}", "configure", observed=bound, expected=[])
    elif node.facts["modules.nova_core.loaded"]:
        found = True
        yield warn("nova_core is loaded", "configure", observed="loaded", expected="absent")
    for kernel in node.kernels() if node.pci_gpus else ():
        image = kernel.optional("initramfs") if kernel.get("next_boot") else None
        if image and image["nova"] and not image["nova_blacklist"]:
            found = True
            yield fail(
                f"the initramfs of {kernel['version']} loads nova at the next boot",
                "rebuild_initramfs",
                observed="nova_core without its blacklist",
                expected="blacklisted",
            )
    if not found:
        yield ok("nova is absent")


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
    if not library and not _installed(node):
        yield skipped("no driver is installed (see driver-responsive)")
        return
    following = [kernel for kernel in node.kernels() if kernel.get("next_boot")]
    undriven, forbidden = _undriven(node, "next_boot"), _forbidden(node, "next_boot", (NEVER,))
    if not following:
        yield unknown("the next boot's kernel could not be determined")
    for kernel in following:
        module = kernel.optional("nvidia_module")
        if not module:
            yield fail(
                f"kernel {kernel['version']} boots next and has no nvidia module",
                "rebuild_module",
                expected=library,
                reason=_unbuilt(kernel, library),
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
        elif undriven:
            yield fail(f"kernel {kernel['version']} boots next: {undriven}", "other_modules", observed=module)
        elif forbidden:
            yield fail(
                f"kernel {kernel['version']} boots next and cannot load module {module}: {forbidden}",
                "allow_module",
                observed=module,
            )
        else:
            yield ok(f"kernel {kernel['version']} has module {module}", module)


def _unbuilt(kernel: Facts, library: str | None) -> str:
    """Return why a kernel has no nvidia module. DKMS may also have leftovers of other drivers."""
    if not kernel.get("headers"):
        return "its headers are not installed"
    builds = kernel.get("dkms", [])
    for build in [one for one in builds if one.get("version") == library] or builds:
        if build.get("state") == "installed":
            return f"DKMS calls {build.get('module')} {build.get('version')} installed, but its file is missing"
        return f"DKMS module {build.get('module')} {build.get('version')} is {build.get('state')}, not installed"
    return "DKMS has no nvidia module for it"


@check(
    "dkms-every-kernel",
    proves="every installed kernel has the driver's module, so the GPUs work with each of them",
    source="https://github.com/dell/dkms",
    on_host=True,
)
def dkms_every_kernel(node: Node) -> Iterator[Result]:
    """Look at every kernel: someone may boot the one before."""
    if not _installed(node):
        yield skipped("no driver is installed (see driver-responsive)")
        return
    library = node.facts.optional("driver.library")
    without = [k for k in node.kernels() if not k.get("nvidia_module") and not _built(k, library)]
    for kernel in without:
        yield warn(
            f"kernel {kernel['version']} has no nvidia module",
            "rebuild_module",
            observed=[f"{b.get('version')} {b.get('state')}" for b in kernel.get("dkms", [])],
            expected="installed",
            reason=_unbuilt(kernel, library),
        )
    if not without:
        yield ok(f"all {len(node.kernels())} installed kernels have the module")


def _built(kernel: Facts, library: str | None) -> bool:
    return any(
        build.get("state") == "installed" and library in (None, build.get("version"))
        for build in kernel.get("dkms", [])
    )


@check(
    "secure-boot",
    proves="Secure Boot lets the driver's module load",
    source="https://wiki.debian.org/SecureBoot",
    on_host=True,
)
def secure_boot(node: Node) -> Iterator[Result]:
    """With Secure Boot on, an unsigned module, or one whose key is not enrolled, does not load."""
    state = node.facts["system.secure_boot"]
    enrolled = node.facts.get("system.mok_enrolled")
    unsigned = [
        kernel["version"]
        for kernel in node.kernels()
        if kernel.get("next_boot") and kernel.get("nvidia_module") and not kernel.get("nvidia_module_signer")
    ]
    if state == "unknown":
        yield unknown("the firmware's Secure Boot state could not be read")
    elif state != "enabled":
        yield ok(f"Secure Boot is {state}", state)
    elif unsigned:
        yield fail(
            f"Secure Boot is enabled and the module of kernel {unsigned[0]}, which boots next, is not signed",
            "enroll_key",
            observed="not signed",
            expected="signed",
        )
    elif node.facts.get("modules.nvidia.loaded"):
        yield ok("Secure Boot is enabled and the module loaded", state)
    elif enrolled:
        yield ok("Secure Boot is enabled and the module's key is enrolled", state)
    elif enrolled is None:
        yield unknown("Secure Boot is enabled; whether the module's key is enrolled is unknown")
    else:
        waits = ": it waits for confirmation at the console" if node.facts.get("system.mok_pending") else ""
        yield fail(
            f"Secure Boot is enabled and the key that signs the driver's module is not enrolled{waits}",
            "enroll_key",
            observed="not enrolled",
            expected="enrolled",
        )


@check("driver-responsive", proves="the driver is loaded and NVML answers within its deadline", source=NVML_API)
def driver_responsive(node: Node) -> Iterator[Result]:
    """Say why NVML does not answer; a hung driver is an answer."""
    state = node.facts["nvml.state"]
    error = node.facts.get("nvml.error.text")
    # A container sees its host's PCI bus, or none: an empty one tells nothing there, unless no GPU is declared.
    told = not node.foreign_kernel or node.declared.get("gpus") == 0
    lent = told and not node.facts.get("pci.gpus", True) and bool(node.facts.get("pci.lent", []))
    if lent:
        yield info(node.without_gpu, "take_back_gpu")
    elif told and not node.facts.get("pci.gpus", True):
        yield node.without(f"{node.without_gpu} (see gpu-count)")
    elif state in ("ok", "no_devices"):
        yield ok("NVML answers", state)
    elif state == "mismatch":
        yield skipped("NVML rejects a driver of another version (see driver-match)")
    elif state == "unresponsive":
        yield fail(
            "the driver does not answer: NVML timed out",
            "reboot",
            observed=state,
            expected="ok",
            reason=error,
        )
    elif state in ("absent", "not_loaded"):
        cause, remedy = _not_running(node, state)
        yield fail(f"the NVIDIA driver is not running: {cause}", remedy, observed=state, expected="ok", reason=error)
    else:
        virtual, undriven = _ordinary_driver_of_vgpu(node), _undriven(node, "running")
        remedy = "install_grid" if virtual else "other_modules" if undriven else "reboot"
        why = virtual or undriven or error
        yield fail(f"NVML answers {error or state}", remedy, observed=state, expected="ok", reason=why)


def _not_running(node: Node, state: str) -> tuple[str, str]:
    """Return (cause, remedy) for a driver that is absent or not loaded."""
    running = next((kernel for kernel in node.facts.get("kernels", []) if kernel.get("running")), None)
    library = node.facts.optional("driver.library")
    virtual = _ordinary_driver_of_vgpu(node)
    undriven, forbidden = _undriven(node, "running"), _forbidden(node, "now", (NEVER, BY_ITSELF))
    later = _forbidden(node, "next_boot", (NEVER, BY_ITSELF))
    causes = (
        (node.foreign_kernel, "the container has no GPU", "configure"),
        (virtual, virtual or "", "install_grid"),
        (not _installed(node), "it is not installed", "install_driver"),
        (
            state == "absent" and node.facts.get("modules.nvidia.loaded"),
            "the module is loaded, libnvidia-ml.so.1 is missing",
            "reinstall_driver",
        ),
        (node.facts.get("nouveau.bound"), "nouveau holds the GPUs", "reboot"),
        (
            running and not running.get("nvidia_module"),
            f"the running kernel has no nvidia module: {_unbuilt(running or Facts({}), library)}",
            "rebuild_module",
        ),
        (forbidden, f"{forbidden}", "allow_module" if later else "reboot"),
        (undriven, undriven or "", "other_modules"),
        (node.facts.get("system.secure_boot") == "enabled", "Secure Boot blocks its module", "enroll_key"),
    )
    return next(((cause, remedy) for holds, cause, remedy in causes if holds), ("its module is not loaded", "reboot"))


def _installed(node: Node) -> bool:
    return bool(node.facts.get("driver.packages") or node.facts.get("driver.runfile"))


@check(
    "persistence",
    proves="the driver stays initialised without clients, so settings last and programs start fast",
    source="https://docs.nvidia.com/deploy/driver-persistence/",
    per_gpu=True,
)
def persistence(node: Node, gpu: Facts) -> Iterator[Result]:
    """Expect persistence mode on, unless the plan says otherwise."""
    enabled = gpu["persistence"]
    if node.plan and node.plan.get("driver.persistence") is False:
        yield inapplicable("the plan leaves persistence off")
    elif gpu_settings.planned(node, gpu).get("persistence") is False:
        yield inapplicable("the inventory turns persistence off")
    elif enabled:
        yield ok("persistence mode is on", enabled)
    else:
        yield warn("persistence mode is off", "configure", observed=False, expected=True)


@check(
    "packages-consistent",
    proves="no package installation was interrupted",
    source="https://manpages.debian.org/stable/dpkg/dpkg.1.en.html",
)
def packages_consistent(node: Node) -> Iterator[Result]:
    """Look for an interrupted run of dpkg, which leaves drivers unpacked and modules unbuilt."""
    state = node.facts["system.package_state"]
    if state == "interrupted":
        yield fail("a package installation was interrupted", "repair_packages", observed=state, expected="ok")
    elif state == "ok":
        yield ok("packages are consistent", state)
    else:
        yield skipped(f"package state {state}")
