# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the software: the driver of the plan, without known holes, and containers that can use it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    check,
    fail,
    inapplicable,
    info,
    ok,
    skipped,
    unknown,
    warn,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Node, Result

BULLETINS = "https://github.com/NVIDIA/product-security"


def release(version: str) -> tuple[int, ...]:
    """Return a version for comparison: its leading numbers, without an epoch or a packager's suffix."""
    return tuple(map(int, re.findall(r"\d+", re.split(r"[-+~]", version.rpartition(":")[2])[0])))


def drifted(receipts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what changed on the node since the last run, and was not gpulab's doing."""
    return list(dict.fromkeys(text for receipt in receipts.values() for text in receipt["drift"]))


@check("drift", proves="what gpulab keeps on the node is as its last run left it", source="the receipts of its roles")
def drift(node: Node) -> Iterator[Result]:
    """Name what somebody else changed: what is so now, else what this run has put right."""
    receipts = node.facts.get("receipts")
    if not receipts:
        yield skipped("no run of gpulab has left a receipt on the node")
        return
    now = drifted(receipts.data)
    unread = {role: one["problem"] for role, one in receipts.data.items() if one["problem"]}
    before = node.plan.get("drift", []) if node.plan else []
    if now:
        yield warn(f"not by gpulab: {'; '.join(now)}", "configure", observed=now)
    elif before:
        yield info(f"put right by this run: {'; '.join(before)}")
    for role, problem in sorted(unread.items()):
        yield unknown(f"{role}: {problem}")
    if not now and not before and not unread:
        yield ok("nothing differs from what the last run left")


@check("driver-plan", proves="the installed driver is the planned one", source="the plan", on_host=True)
def driver_plan(node: Node) -> Iterator[Result]:
    """Compare version or branch, and the kind of kernel module."""
    planned = node.planned("driver")
    library, version, branch = node.facts.optional("driver.library"), planned.get("version"), planned["branch"]
    kind = planned.get("kernel_modules")
    if not kind:
        yield inapplicable("no driver is planned: nvidia_driver_state is absent")
    elif not library:
        yield fail("the planned driver is not installed", "install_driver", expected=version or branch)
    elif (version and library != version) or library.partition(".")[0] != str(branch):
        yield fail(
            f"driver {library} is installed, but {version or branch} is planned",
            "install_driver",
            observed=library,
            expected=version or branch,
        )
    else:
        yield ok(f"driver {library}", library)
    for kernel in node.kernels():
        built = kernel.get("nvidia_module_flavour")
        if kind and built and built != kind:
            yield fail(
                f"kernel {kernel['version']} has {built} modules, but {kind} is planned",
                "install_driver",
                observed=built,
                expected=kind,
            )


@check("driver-security", proves="the driver has NVIDIA's security fixes", source=BULLETINS)
def driver_security(node: Node) -> Iterator[Result]:
    """Compare with the floor of the driver's branch; one that has ended without a floor gets no fixes any more."""
    driver = node.facts.get("nvml.driver_version") or node.facts.optional("driver.library")
    if not driver:
        yield skipped("no driver is installed (see driver-responsive)")
        return
    branch = node.catalog.get("branches", {}).get(driver.partition(".")[0])
    if branch is None:
        yield unknown(f"driver branch {driver.partition('.')[0]} is unknown to the catalog")
        return
    floor = branch["security_floor"]
    if floor is None and branch["ended"]:
        yield warn(
            f"driver {driver}: branch {branch['branch']} no longer gets security fixes",
            "upgrade_driver",
            observed=driver,
        )
    elif floor and release(driver) < release(floor["version"]):
        yield warn(
            f"driver {driver} has known vulnerabilities, which {floor['version']} fixes",
            "upgrade_driver",
            observed=driver,
            expected=floor["version"],
            reason=f"NVIDIA bulletin {floor['bulletin']}",
        )
    else:
        yield ok(f"driver {driver}", driver)


@check(
    "container-toolkit",
    proves="containers can use GPUs, through a toolkit without known vulnerabilities",
    source=BULLETINS,
)
def container_toolkit(node: Node) -> Iterator[Result]:
    """Expect the toolkit where the plan does; a version at the security floor wherever it is."""
    installed = node.facts.optional("engines.nvidia_container_toolkit")
    floor = node.catalog["container_toolkit"]["security_floors"][-1]
    if installed and release(installed) < release(floor["version"]):
        yield warn(
            f"NVIDIA Container Toolkit {installed} has known vulnerabilities, which {floor['version']} fixes",
            "upgrade_software",
            observed=installed,
            expected=floor["version"],
            reason=", ".join(floor["cves"]),
        )
    elif installed:
        yield ok(f"NVIDIA Container Toolkit {installed}", installed)
    elif node.plan and node.plan.get("container_toolkit.packages"):
        yield fail("the planned NVIDIA Container Toolkit is not installed", "install_software", expected="installed")
    else:
        node.planned("container_toolkit")
        yield inapplicable("no NVIDIA Container Toolkit is installed or planned")
