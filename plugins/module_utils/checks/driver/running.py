# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the driver at work: that it may be loaded, answers, and stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks import gpu_settings
from ansible_collections.gpulab.node.plugins.module_utils.checks.driver.reasons import (
    forbidden,
    installed,
    ordinary_driver_of_vgpu,
    unbuilt,
    undriven,
)
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    OUT_OF_MEMORY,
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
from ansible_collections.gpulab.node.plugins.module_utils.core.child import was_killed
from ansible_collections.gpulab.node.plugins.module_utils.facts.modprobe import BY_ITSELF, NEVER

if TYPE_CHECKING:
    from collections.abc import Iterator

NVML_API = "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html"


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
    following = [kernel for kernel in node.kernels() if kernel.get("next_boot") and kernel.get("nvidia_module")]
    unsigned = [kernel["version"] for kernel in following if not kernel.get("nvidia_module_signer")]
    former = [kernel["version"] for kernel in following if kernel.get("nvidia_module_accepted") is False]
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
    elif former and enrolled:
        yield fail(
            f"Secure Boot is enabled and another key than DKMS's of now signed the module of kernel {former[0]}, which"
            " boots next, and it is not enrolled",
            "sign_again",
            observed="not enrolled",
            expected="enrolled",
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
    elif was_killed(error or ""):
        yield unknown(f"what asked NVML was killed: {OUT_OF_MEMORY}")
    elif state in ("absent", "not_loaded"):
        cause, remedy = _not_running(node, state)
        yield fail(f"the NVIDIA driver is not running: {cause}", remedy, observed=state, expected="ok", reason=error)
    else:
        virtual, unsupported = ordinary_driver_of_vgpu(node), undriven(node, "running")
        remedy = "install_grid" if virtual else "other_modules" if unsupported else "reboot"
        why = virtual or unsupported or error
        yield fail(f"NVML answers {error or state}", remedy, observed=state, expected="ok", reason=why)


def _not_running(node: Node, state: str) -> tuple[str, str]:
    """Return (cause, remedy) for a driver that is absent or not loaded."""
    running = next((kernel for kernel in node.facts.get("kernels", []) if kernel.get("running")), None)
    rejected = node.facts.get("system.secure_boot") == "enabled" and not node.facts.get("system.mok_enrolled")
    library = node.facts.optional("driver.library")
    virtual = ordinary_driver_of_vgpu(node)
    unsupported, blocked = undriven(node, "running"), forbidden(node, "now", (NEVER, BY_ITSELF))
    later = forbidden(node, "next_boot", (NEVER, BY_ITSELF))
    causes = (
        (node.foreign_kernel, "the container has no GPU", "configure"),
        (virtual, virtual or "", "install_grid"),
        (not installed(node), "it is not installed", "install_driver"),
        (
            state == "absent" and node.facts.get("modules.nvidia.loaded"),
            "the module is loaded, libnvidia-ml.so.1 is missing",
            "reinstall_driver",
        ),
        (node.facts.get("nouveau.bound"), "nouveau holds the GPUs", "reboot"),
        (
            running and not running.get("nvidia_module"),
            f"the running kernel has no nvidia module: {unbuilt(running or Facts({}), library)}",
            "rebuild_module",
        ),
        (blocked, f"{blocked}", "allow_module" if later else "reboot"),
        (unsupported, unsupported or "", "other_modules"),
        (rejected, "Secure Boot blocks its module", "enroll_key"),
    )
    return next(((cause, remedy) for holds, cause, remedy in causes if holds), ("its module is not loaded", "reboot"))


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
    kernel, build = _kernel_that_waits(node)
    if state == "interrupted" and kernel:
        yield fail(
            f"kernel {kernel['version']} is not configured: DKMS cannot build {build['module']} {build['version']}",
            "remove_kernel",
            observed=state,
            expected="ok",
            reason=build.get("error"),
        )
    elif state == "interrupted":
        yield fail("a package installation was interrupted", "repair_packages", observed=state, expected="ok")
    elif state == "ok":
        yield ok("packages are consistent", state)
    else:
        yield skipped(f"package state {state}")


def _kernel_that_waits(node: Node) -> tuple[Facts | None, Facts]:
    """Return a kernel whose packages are unfinished, and the build for it that failed; its own script asks for that."""
    unfinished = node.facts.get("system.packages_unfinished", [])
    for kernel in node.kernels():
        failed = next((build for build in kernel.get("dkms", []) if build.get("error")), None)
        if failed and any(name.startswith("linux-") and kernel["version"] in name for name in unfinished):
            return kernel, failed
    return None, Facts({})
