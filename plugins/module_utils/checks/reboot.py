# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node needs a reboot before its GPUs work with the driver on its disk: facts in, reasons out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.facts import modprobe
from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings import plan

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import ForbiddenModule
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.machine import PciGpu
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts, ReadFacts, Reboot


def judged(facts: ReadFacts) -> Facts:
    """Return the facts as they were read, with what they say of a reboot."""
    return {**facts, "reboot": reboot(facts)}


def reboot(facts: ReadFacts) -> Reboot:
    """Say whether a reboot is due, and why, one line for each reason.

    A reboot is due where only it brings GPUs and the driver on disk together. ``loadable`` is true where no reboot is
    needed for that: nothing is loaded, nothing else holds a GPU, and the running kernel has the module on disk, so
    modprobe is enough. Without a GPU or without a driver on disk no reboot helps, and there is no reason.
    """
    if not facts["pci"]["gpus"]:
        return {"reasons": [], "loadable": False}
    running = next((kernel["nvidia_module"] for kernel in facts["kernels"] if kernel["running"]), None)
    coming = facts["driver"]["module_on_disk"]
    nvidia = facts["modules"]["nvidia"]
    bound = facts["nouveau"]["bound"]
    held = [gpu for gpu in facts["pci"]["gpus"] if gpu["address"] in bound and (coming or _forbidden(gpu, facts))]
    reasons = [_held(driver, held) for driver in sorted({gpu["driver"] for gpu in held if gpu["driver"]})]
    if nvidia["loaded"]:
        reasons += _stale(nvidia["version"], coming, facts["driver"]["library"])
    elif coming and not running:
        kernel = facts["system"]["kernel"]
        reasons.append(
            f"the NVIDIA driver {coming} is installed for the next kernel, but not for the running kernel {kernel}"
        )
    if coming and not nvidia["loaded"]:
        reasons += _forbidden_until_then(facts)
    reasons += _options(facts)
    reasons += _arguments(facts)
    reasons += plan.pending(facts["gpu_settings"], facts["nvml"]["gpus"])
    loadable = bool(running) and not nvidia["loaded"] and not bound and not _never(facts["forbidden"]["now"])
    return {"reasons": reasons, "loadable": loadable}


def _never(forbidden: list[ForbiddenModule]) -> list[ForbiddenModule]:
    """Return what keeps the driver's modules from being loaded in any way."""
    return [one for one in forbidden if one["how"] == modprobe.NEVER]


def _forbidden_until_then(facts: ReadFacts) -> list[str]:
    """Return reasons for arguments that forbid the driver on the running kernel, but not on the next one."""
    forbidden = facts["forbidden"]
    lines = [one["line"] for one in _never(forbidden["now"]) if not _never(forbidden["next_boot"])]
    return [f"{line} on the running kernel's command line blocks the NVIDIA driver" for line in dict.fromkeys(lines)]


def _forbidden(gpu: PciGpu, facts: ReadFacts) -> bool:
    return bool(facts["nouveau"]["blacklisted" if gpu["driver"] == "nouveau" else "nova_blacklisted"])


def _held(driver: str, gpus: list[PciGpu]) -> str:
    addresses = ", ".join(gpu["address"] for gpu in gpus if gpu["driver"] == driver)
    return f"{driver} holds GPU {addresses} until a reboot"


def _options(facts: ReadFacts) -> list[str]:
    """Compare the options that the driver's modules shall have with those that they have."""
    options = facts["module_options"]
    if not options["new"]:
        return []
    return [
        f"{name} of the NVIDIA driver is {value}, and {options['wanted'][name]} when it is reloaded"
        for name, value in options["running"].items()
        if not modprobe.same_value(value, options["wanted"][name])
    ]


def _arguments(facts: ReadFacts) -> list[str]:
    """Compare what the boot loader is told with what the kernel was given; a container's kernel is its host's."""
    arguments = facts["tuning"]["kernel_arguments"]
    missing = [argument for argument in arguments["wanted"] if argument not in arguments["running"]]
    if not missing or facts["system"]["container"]:
        return []
    return [f"{' '.join(missing)} is set in the boot loader, but not on the running kernel's command line"]


def _stale(loaded: str | None, coming: str | None, library: str | None) -> list[str]:
    """Compare the loaded module with what is on disk; a version that nobody knows proves nothing."""
    if not loaded or not coming or loaded == coming:
        return []
    cause = f"the NVIDIA driver {loaded} is loaded, but {coming} is installed"
    return [f"{cause}, with its library: new programs fail until the reboot" if library == coming else cause]
