# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the services that GPUs need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import check, fail, inapplicable, ok, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Node, Result

FABRIC_GUIDE = "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/"
IMEX_GUIDE = "https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/"
# What the daemon says until it has met the others; one that is slow to come is no fault of this node.
IMEX_ON_ITS_WAY = ("INITIALIZING", "STARTING_AUTH_SERVER", "WAITING_FOR_PEERS", "WAITING_FOR_RECOVERY", "INIT_GPU")


@check(
    "fabric-manager",
    proves="on a node with NVSwitches, Fabric Manager runs in the driver's exact version",
    source=FABRIC_GUIDE,
)
def fabric_manager(node: Node) -> Iterator[Result]:
    """Look at the service and at the packages; CUDA fails with error 802 without.

    The NVSwitches of B200 and B300 boards are not on the PCI bus. The rack of a GB200 runs its switches itself.
    """
    if not node.runs_fabric_manager:
        rack = any(node.fabric_manager(gpu) == "rack" for gpu in node.pci_gpus)
        yield inapplicable("the rack's NVLink switches run it" if rack else "the PCI bus has no NVSwitch")
        return
    versions = _versions(node, "fabricmanager")
    state = node.facts["services"].get("nvidia-fabricmanager.active", "absent")
    misfit = _misfit(node, "Fabric Manager", versions, "start_fabricmanager")
    if misfit:
        yield misfit
    elif state != "active":
        yield fail(
            f"nvidia-fabricmanager is {state if versions else 'not installed'}",
            "start_fabricmanager",
            observed=state,
            expected="active",
        )
    else:
        yield ok("nvidia-fabricmanager is active", state)


@check(
    "imex",
    proves="on a node of an NVLink domain, IMEX is ready in the driver's version and has a channel",
    source=IMEX_GUIDE,
)
def imex(node: Node) -> Iterator[Result]:
    """Ask the daemon; without it and its channel 0, NCCL finds no memory of other nodes over NVLink."""
    if not node.facts["imex.nodes"]:
        yield inapplicable("IMEX has no node list (nvidia_driver_imex_nodes)")
        return
    state = node.facts.optional("imex.state") or "no answer"
    misfit = _misfit(node, "IMEX", _versions(node, "nvidia-imex"), "start_imex")
    if misfit:
        yield misfit
    elif state in IMEX_ON_ITS_WAY:
        yield warn(f"nvidia-imex is not ready yet: {state}", "start_imex", observed=state, expected="READY")
    elif state != "READY":
        yield fail(f"nvidia-imex is not ready: {state}", "start_imex", observed=state, expected="READY")
    elif not node.facts["imex.channel"]:
        yield fail(
            "the driver has no IMEX channel (NVreg_CreateImexChannel0=1)",
            "reboot",
            observed="none",
            expected="channel0",
        )
    else:
        yield ok("nvidia-imex is ready", state)


def _versions(node: Node, part: str) -> list[str]:
    """Return the versions of the driver's packages that have this part in their names."""
    return [package["version"] for package in node.facts["driver.packages"] if part in str(package.get("name"))]


def _misfit(node: Node, what: str, versions: list[str], remedy: str) -> Result | None:
    """Return the failure of what is installed in none but other versions than the driver's; None where it fits."""
    driver = node.facts.optional("driver.library")
    if not versions or not driver or any(driver in version for version in versions):
        return None
    return fail(f"{what} {versions[0]} does not match driver {driver}", remedy, observed=versions[0], expected=driver)
