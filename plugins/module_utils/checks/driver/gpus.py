# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the GPUs that the driver has: their number, and other drivers that may hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.board import BROKEN
from ansible_collections.gpulab.node.plugins.module_utils.checks.driver.reasons import ordinary_driver_of_vgpu, undriven
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    Node,
    Result,
    check,
    fail,
    inapplicable,
    ok,
    warn,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    yield _other_number(node, present) or _those_that_answer(node, present)


def _lent_to(node: Node) -> str:
    """Name the virtual machines' GPUs, each with the driver that holds it."""
    return ", ".join(f"{gpu['address']} ({gpu['driver']})" for gpu in node.facts.get("pci.lent", []))


def _other_number(node: Node, present: set[str]) -> Result | None:
    """Return how the GPUs on the bus differ from the number that is declared, if it is; a node has one at least."""
    declared, lent, there = node.declared.get("gpus"), node.facts.get("pci.lent", []), len(present)
    if not present and not declared:
        if declared == 0:
            return ok("no GPU, as declared", 0)
        remedy = "take_back_gpu" if lent else "check_seating"
        return fail(node.without_gpu, remedy, observed=0, expected="at least 1", unit="GPUs")
    if declared is None or there == declared:
        return None
    numbers = {"observed": there, "expected": declared, "unit": "GPUs"}
    if lent and there < declared <= there + len(lent):
        summary = f"only {there} of {declared} declared GPUs are available on this node"
        return fail(summary, "take_back_gpu", reason=f"assigned to virtual machines: {_lent_to(node)}", **numbers)
    summary = f"{there} GPUs on the PCI bus, {declared} declared"
    if there < declared:
        return fail(summary, "check_seating", **numbers)
    return fail(summary, "configure", reason="fewer GPUs are declared than present", **numbers)


def _those_that_answer(node: Node, present: set[str]) -> Result:
    """Compare the GPUs on the bus with those of NVML."""
    if node.facts["nvml.state"] not in ("ok", "no_devices"):
        return ok(f"{len(present)} GPUs on the PCI bus; NVML does not answer (see driver-responsive)", len(present))
    lost = sorted(present - {gpu.get("bus_id") for gpu in node.gpus})
    if not lost:
        lent = _lent_to(node)
        besides = f"; assigned to virtual machines: {lent}" if lent else ""
        return ok(f"{len(present)} GPUs on PCI and in NVML{besides}", len(present))
    why, remedy = _why_lost(node, lost)
    return fail(
        f"{len(lost)} of {len(present)} GPUs do not answer: {', '.join(lost)}",
        remedy,
        observed=len(present) - len(lost),
        expected=len(present),
        unit="GPUs",
        reason=why,
    )


def _why_lost(node: Node, lost: list[str]) -> tuple[str, str]:
    """Return (cause, remedy) of GPUs that are on the bus and that NVML does not list."""
    virtual, unsupported = ordinary_driver_of_vgpu(node), undriven(node, "running", lost)
    if virtual:
        return virtual, "install_grid"
    if unsupported:
        return unsupported, "other_modules"
    errors = sorted({gpu.data["error"] for gpu in node.gpus if "error" in gpu.data})
    if errors:
        return f"NVML answers {', '.join(errors)}", BROKEN.get(errors[0], "reboot")
    return "on the PCI bus, but NVML does not list them", BROKEN.get("", "reboot")


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
