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
from ansible_collections.gpulab.node.plugins.module_utils.checks.software import release
from ansible_collections.gpulab.node.plugins.module_utils.containers import cdi
from ansible_collections.gpulab.node.plugins.module_utils.facts.containers import DAEMON_JSON, TOOLKIT_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node, Result

INSTALL_GUIDE = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
CDI_GUIDE = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/cdi-support.html"
DOCKER_RUN = "https://docs.docker.com/reference/cli/docker/container/run/"
SELINUX_GUIDE = "https://github.com/containers/container-selinux"
BUILT_IN_RUNTIMES = ("runc", "io.containerd.runc.v2")
CDI_WAY = "CDI"


@check(
    "container-runtime", proves="Docker's settings are valid and give containers access to GPUs", source=INSTALL_GUIDE
)
def container_runtime(node: Node) -> Iterator[Result]:
    """Expect Docker to know NVIDIA's runtime or CDI, once the toolkit is there."""
    docker = node.facts.optional("containers.docker")
    if not node.facts.optional("engines.docker"):
        planned = node.plan.get("container_toolkit.engines", []) if node.plan else []
        yield skipped("Docker is not installed") if "docker" in planned else inapplicable("Docker is not installed")
    elif docker and (refused := _refused(docker)):
        yield refused
    elif node.facts.get("services.docker.active") == "failed":
        yield fail("docker.service has failed", "start_service", observed="failed", expected="active")
    elif not node.facts.optional("engines.nvidia_container_toolkit"):
        yield _without_toolkit(node)
    elif not (ways := _ways(node, docker)):
        yield _not_set_up(docker)
    elif node.facts.get("containers.toolkit_no_cgroups"):
        yield warn(
            "no-cgroups takes the GPUs from Docker's containers that get them by --gpus or the runtime nvidia",
            "set_by_hand",
            observed="no-cgroups = true",
            expected="no-cgroups = false",
            reason=f"{TOOLKIT_CONFIG}; for rootless containers alone, use CDI: --device nvidia.com/gpu=all",
        )
    elif ways == [CDI_WAY] and not _specifications(node):
        yield skipped("Docker takes GPUs by CDI alone (see cdi-specification)")
    else:
        yield ok("Docker is set up for GPUs", ways)


@check("container-start", proves="Docker starts a container, with its default runtime and settings", source=DOCKER_RUN)
def container_start(node: Node) -> Iterator[Result]:
    """Judge the container without GPUs that this proof had Docker start."""
    started = node.facts.get("container_started")
    planned = node.plan.get("container_toolkit.engines", []) if node.plan else []
    if not node.facts.optional("engines.docker"):
        yield inapplicable("Docker is not installed")
    elif not started:
        yield skipped("no container was started: Docker does not run, or this is a preview")
    elif started.get("problem"):
        told = ("Docker does not start a container", "mend_docker")
        yield (fail if "docker" in planned else warn)(*told, observed=started["problem"], reason=started["problem"])
    else:
        yield ok(f"Docker starts a container{node.when_tried}", started["seconds"], unit="s")


def _refused(docker: Facts) -> Result | None:
    """Return why Docker cannot restart, or cannot start a container, with its settings."""
    default, missing = docker.get("default_runtime"), _missing_programs(docker)
    file = docker.get("file", DAEMON_JSON)
    if docker.get("invalid"):
        return fail(
            f"{file} is not valid, so Docker cannot restart",
            "configure",
            observed=docker["invalid"],
            expected="a JSON object",
        )
    if default not in (None, *BUILT_IN_RUNTIMES, *docker["runtimes"]):
        return fail(
            f"Docker's default runtime {default} is not defined, so Docker cannot restart",
            "configure",
            observed=default,
            expected=", ".join(docker["runtimes"]) or "runc",
        )
    if default in missing:
        return fail(
            f"Docker's default runtime {default} is {missing[default]}, which does not exist, so no container starts",
            "set_by_hand",
            observed=missing[default],
            expected="a program, or no default-runtime",
            reason=file,
        )
    return None


def _missing_programs(docker: Facts | None) -> dict[str, str]:
    found = docker.get("missing_programs") if docker else None
    return found.data if found else {}


def _ways(node: Node, docker: Facts | None) -> list[str]:
    """Return how Docker gives containers the GPUs: the runtime nvidia, CDI."""
    runtime = docker and "nvidia" in docker["runtimes"] and "nvidia" not in _missing_programs(docker)
    return [*(["runtime nvidia"] if runtime else []), *([CDI_WAY] if _takes_cdi(node, docker) else [])]


def _takes_cdi(node: Node, docker: Facts | None) -> bool:
    """Tell whether Docker takes CDI: by its settings, or else by its version."""
    said: bool | None = docker.get("cdi") if docker else None
    return _by_default(node, "docker") if said is None else said


def _by_default(node: Node, engine: str) -> bool:
    since = node.catalog.get("container_toolkit", {})["engines"][engine]["cdi_default_since"]
    version = node.facts.get(f"engines.{engine}")
    return bool(version and release(version) >= release(since))


def _not_set_up(docker: Facts | None) -> Result:
    """Say that Docker gives no GPUs, and how it can."""
    missing = _missing_programs(docker).get("nvidia")
    file = docker.get("file", DAEMON_JSON) if docker else DAEMON_JSON
    gone = f": its runtime nvidia is {missing}, which does not exist" if missing else ""
    if file != DAEMON_JSON:
        return warn(
            f"Docker is not set up for GPUs{gone}. It reads {file}, which gpulab does not write",
            "another_docker",
            observed=file,
            expected=DAEMON_JSON,
        )
    return warn(
        f"Docker is not set up for GPUs{gone}",
        "set_by_hand" if missing else "configure",
        observed=missing,
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
    specifications = _specifications(node)
    driver = node.facts.optional("driver.library")
    wrong = list(_wrong_specifications(node, specifications, driver))
    yield from wrong
    users = _users_of_cdi(node)
    unread = _unread_directories(node, specifications)
    if unread:
        yield warn(
            f"Docker reads CDI specifications in {', '.join(unread)} alone, where the GPUs have none",
            "set_by_hand",
            observed=unread,
            expected=sorted({found["path"].rpartition("/")[0] for found in specifications}),
            reason="cdi-spec-dirs of Docker",
        )
    elif not specifications and users:
        yield warn(
            f"{' and '.join(users)} cannot give the GPUs to containers: they have no CDI specification",
            "configure",
            expected=cdi.KIND,
            reason=f"{cdi.REFRESH} writes it; systemctl status says why it did not. By hand: nvidia-ctk cdi generate",
        )
    elif not specifications:
        yield inapplicable("nothing on the node uses CDI for NVIDIA GPUs")
    elif not wrong:
        yield ok(f"{len(specifications)} CDI specifications describe driver {driver}")


def _wrong_specifications(node: Node, specifications: list[Facts], driver: str | None) -> Iterator[Result]:
    """Yield those of another driver, those that describe one device twice, and those of other MIG devices."""
    stale = [found for found in specifications if found.get("missing") or _is_of_another_driver(found, driver)]
    yield from (_stale(found, driver) for found in stale)
    for device, one, other in cdi.rivals(specifications):
        yield warn(
            f"{one} and {other} both describe the device {device}, so containers cannot use it",
            "configure",
            reason="remove the outdated one",
        )
    for found in specifications:
        if found not in stale and not _same_mig_devices(node, found):
            yield warn(
                f"{found['path']} was made for other MIG devices",
                "configure",
                observed=found.get("mig_devices"),
                expected=sorted(_mig_devices(node)),
                reason="run nvidia-ctk cdi generate to renew it",
            )


def _stale(found: Facts, driver: str | None) -> Result:
    missing = found.get("missing", [])
    return warn(
        f"{found['path']} was made for another driver"
        if _is_of_another_driver(found, driver) or not missing
        else f"{found['path']} names missing {'device nodes' if missing[0].startswith('/dev/') else 'files'}",
        "configure",
        observed=found.get("library") or f"{len(missing)} files are missing",
        expected=driver,
        reason=f"missing: {', '.join(missing[:3])}" if missing else "run nvidia-ctk cdi generate to renew it",
    )


def _specifications(node: Node) -> list[Facts]:
    return cdi.used(node.facts["containers.cdi"])


def _users_of_cdi(node: Node) -> list[str]:
    """Return the engines that need a specification, where the toolkit is there to write it."""
    if not node.facts.get("engines.nvidia_container_toolkit"):
        return []
    docker = node.facts.get("containers.docker")
    by_cdi = bool(node.facts.get("engines.docker") and node.facts.get("driver.library")) and (
        bool(docker and docker.get("cdi")) or _ways(node, docker) == [CDI_WAY]
    )
    return [*(["Docker"] if by_cdi else []), *(["Podman"] if node.facts.get("engines.podman") else [])]


def _unread_directories(node: Node, specifications: list[Facts]) -> list[str]:
    """Return the directories that Docker's settings name, where no specification of the GPUs is in one of them."""
    docker = node.facts.get("containers.docker")
    named: list[str] = docker.get("cdi_directories", []) if docker and node.facts.get("engines.docker") else []
    held = {_place(found["path"].rpartition("/")[0]) for found in specifications}
    return named if named and held and held.isdisjoint(map(_place, named)) else []


def _place(directory: str) -> str:
    """Return a directory under one name: /var/run is /run."""
    return directory.rstrip("/").replace("/var/run", "/run")


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


@check(
    "toolkit-driver-root",
    proves="the container toolkit looks for the driver where one is",
    source=INSTALL_GUIDE,
)
def toolkit_driver_root(node: Node) -> Iterator[Result]:
    """Find what the GPU Operator's driver container leaves behind."""
    root = node.facts.get("containers.toolkit_root")
    if not root:
        yield inapplicable("the toolkit's config.toml sets no root of the driver")
    elif node.facts["containers.toolkit_root_there"]:
        yield ok("the root in the toolkit's settings holds a driver", root)
    else:
        yield warn(
            f"the container toolkit looks for the driver in {root}, where none is, so containers get no GPU",
            "set_by_hand",
            observed=f'root = "{root}"',
            expected="no root, for a driver on the host",
            reason=TOOLKIT_CONFIG,
        )


@check(
    "containerd-cdi",
    proves="containerd, where it is to give containers the GPUs, serves Kubernetes and takes CDI or NVIDIA's runtime",
    source=CDI_GUIDE,
)
def containerd_cdi(node: Node) -> Iterator[Result]:
    """Look at what its version does by itself, and at its settings."""
    version = node.facts.get("engines.containerd")
    if "containerd" not in (node.plan.get("container_toolkit.engines", []) if node.plan else []):
        yield inapplicable("containerd is not among the engines of the plan")
        return
    if not version:
        yield skipped("containerd is not installed")
        return
    settings = node.facts.get("containers.containerd")
    said = settings.get("cdi") if settings else None
    record = node.catalog["container_toolkit"]["engines"]["containerd"]
    if settings and not settings.get("kubernetes", True):
        yield warn(
            f"the plugin for Kubernetes is off in containerd {version}, so no kubelet can start containers by it",
            "set_by_hand",
            observed="disabled_plugins names cri",
            expected="it does not, unless containerd is for Docker or nerdctl alone",
            reason="/etc/containerd/config.toml, disabled_plugins; then restart containerd",
        )
    elif settings and settings.get("nvidia_runtime"):
        yield ok("containerd knows the runtime nvidia", version)
    elif release(version) < release(record["cdi_since"]):
        yield warn(
            f"containerd {version} has no CDI, so its containers cannot use GPUs",
            "upgrade_software",
            observed=version,
            expected=f"{record['cdi_since']} or newer",
        )
    elif not (_by_default(node, "containerd") if said is None else said):
        yield warn(
            f"CDI is off in containerd {version}: its pods start without their GPUs, and nothing says so",
            "set_by_hand",
            observed=said,
            expected="enable_cdi = true, as containerd config dump shows it",
            reason="/etc/containerd/config.toml, after version = 2: enable_cdi = true below"
            ' [plugins."io.containerd.grpc.v1.cri"]; then restart containerd',
        )
    else:
        yield ok(f"containerd {version} takes CDI", version)


@check(
    "container-selinux",
    proves="SELinux lets containers use the GPUs",
    source=SELINUX_GUIDE,
)
def container_selinux(node: Node) -> Iterator[Result]:
    """Look at the policy where an engine labels its containers: Podman always does, Docker if it is told to."""
    selinux = node.facts.get("containers.selinux")
    labels = [
        *(["Podman"] if node.facts.get("engines.podman") else []),
        *(["Docker"] if node.facts.get("engines.docker") and node.facts.get("containers.docker.selinux") else []),
    ]
    if not selinux or not selinux["enforcing"]:
        yield inapplicable("SELinux does not enforce a policy")
    elif not labels:
        yield inapplicable("no container engine uses SELinux")
    elif not node.facts.get("engines.nvidia_container_toolkit"):
        yield inapplicable("no NVIDIA Container Toolkit is installed")
    elif selinux.get("devices"):
        yield ok("the boolean container_use_devices is on")
    else:
        yield warn(
            f"SELinux keeps containers of {' and '.join(labels)} from the GPUs: NVML says Insufficient Permissions",
            "allow_devices",
            observed="container_use_devices is off",
            expected="on",
        )
