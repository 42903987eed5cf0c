# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check how container engines are given the GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    check,
    fail,
    inapplicable,
    ok,
    skipped,
    warn,
)
from ansible_collections.gpulab.node.plugins.module_utils.containers import cdi

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node, Result

INSTALL_GUIDE = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
CDI_GUIDE = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/cdi-support.html"
BUILT_IN_RUNTIMES = ("runc", "io.containerd.runc.v2")


@check(
    "container-runtime", proves="Docker's settings are valid and give containers access to GPUs", source=INSTALL_GUIDE
)
def container_runtime(node: Node) -> Iterator[Result]:
    """Expect Docker to know NVIDIA's runtime or CDI, once the toolkit is there."""
    docker = node.facts.optional("containers.docker")
    if not node.facts.optional("engines.docker"):
        planned = node.plan.get("container_toolkit.engines", []) if node.plan else []
        yield skipped("Docker is not installed") if "docker" in planned else inapplicable("Docker is not installed")
    elif docker and docker.get("invalid"):
        yield fail(
            "/etc/docker/daemon.json is not valid, so Docker cannot restart",
            "configure",
            observed=docker["invalid"],
            expected="a JSON object",
        )
    elif docker and docker.get("default_runtime") not in (None, *BUILT_IN_RUNTIMES, *docker["runtimes"]):
        yield fail(
            f"Docker's default runtime {docker['default_runtime']} is not defined, so Docker cannot restart",
            "configure",
            observed=docker["default_runtime"],
            expected=", ".join(docker["runtimes"]) or "runc",
        )
    elif node.facts.get("services.docker.active") == "failed":
        yield fail("docker.service has failed", "start_service", observed="failed", expected="active")
    elif not node.facts.optional("engines.nvidia_container_toolkit"):
        yield _without_toolkit(node)
    elif docker and ("nvidia" in docker["runtimes"] or docker.get("cdi")):
        yield ok("Docker is set up for GPUs", docker["runtimes"])
    else:
        yield warn(
            "Docker is not set up for GPUs",
            "configure",
            expected="the runtime nvidia, or the feature cdi",
            reason="nvidia-ctk runtime configure --runtime=docker",
        )


def _without_toolkit(node: Node) -> Result:
    if node.planned("container_toolkit")["packages"]:
        return skipped("no NVIDIA Container Toolkit is installed (see container-toolkit)")
    return inapplicable("no NVIDIA Container Toolkit is planned")


@check(
    "cdi-specification",
    proves="CDI specifications match the installed driver and the current MIG devices",
    source=CDI_GUIDE,
)
def cdi_specification(node: Node) -> Iterator[Result]:
    """Find specifications of an earlier driver: containers that use them do not start."""
    specifications = cdi.used(node.facts["containers.cdi"])
    driver = node.facts.optional("driver.library")
    stale = [found for found in specifications if found.get("missing") or _is_of_another_driver(found, driver)]
    for found in stale:
        missing = found.get("missing", [])
        yield warn(
            f"{found['path']} was made for another driver"
            if _is_of_another_driver(found, driver) or not missing
            else f"{found['path']} names missing {'device nodes' if missing[0].startswith('/dev/') else 'files'}",
            "configure",
            observed=found.get("library") or f"{len(missing)} files are missing",
            expected=driver,
            reason=f"missing: {', '.join(missing[:3])}" if missing else "run nvidia-ctk cdi generate to renew it",
        )
    rivals = cdi.rivals(specifications)
    for device, one, other in rivals:
        yield warn(
            f"{one} and {other} both describe the device {device}, so containers cannot use it",
            "configure",
            reason="remove the outdated one",
        )
    others = [found for found in specifications if found not in stale and not _same_mig_devices(node, found)]
    for found in others:
        yield warn(
            f"{found['path']} was made for other MIG devices",
            "configure",
            observed=found.get("mig_devices"),
            expected=sorted(_mig_devices(node)),
            reason="run nvidia-ctk cdi generate to renew it",
        )
    if not specifications and node.facts.get("engines.podman") and node.facts.get("engines.nvidia_container_toolkit"):
        yield warn(
            "Podman is not set up for GPUs: they have no CDI specification",
            "configure",
            expected=cdi.KIND,
            reason="run nvidia-ctk cdi generate to write it",
        )
    elif not specifications:
        yield inapplicable("nothing on the node uses CDI for NVIDIA GPUs")
    elif not stale and not others and not rivals:
        yield ok(f"{len(specifications)} CDI specifications describe driver {driver}")


def _is_of_another_driver(found: Facts, driver: str | None) -> bool:
    return bool(driver and found.get("library") and found["library"] != driver)


def _mig_devices(node: Node) -> dict[str, str]:
    """Return the UUID of each MIG device by its place, as nvidia-ctk writes that: GPU:device."""
    return {
        f"{gpu.get('index')}:{device['index']}": device["uuid"]
        for gpu in node.gpus
        for instance in gpu.get("mig_instances", [])
        for device in instance.get("devices", [])
    }


def _same_mig_devices(node: Node, specification: Facts) -> bool:
    """Tell whether a specification names those that are there, in one way or the other, and no others."""
    if not node.gpus or any(gpu.get("mig.enabled") and gpu.get("mig_instances") is None for gpu in node.gpus):
        return True  # nobody can tell
    there, names = _mig_devices(node), set(specification.get("mig_devices", []))
    places = {name for name in names if ":" in name}
    uuids = names - places
    return bool(names) == bool(there) and places in (set(), set(there)) and uuids in (set(), set(there.values()))


@check(
    "toolkit-ldconfig",
    proves="the container toolkit uses the host's ldconfig, not the container's (CVE-2024-0136, CVE-2024-0137)",
    source="https://github.com/NVIDIA/product-security",
)
def toolkit_ldconfig(node: Node) -> Iterator[Result]:
    """Expect the path to be marked as the host's with @."""
    ldconfig = node.facts.optional("containers.toolkit_ldconfig")
    if not ldconfig:
        yield inapplicable("the toolkit's config.toml sets no ldconfig")
    elif ldconfig.startswith("@"):
        yield ok("the host's ldconfig is used", ldconfig)
    else:
        yield warn(
            "the container's own ldconfig would be used", "configure", observed=ldconfig, expected=f"@{ldconfig}"
        )
