# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How container engines are given the GPUs: their settings, CDI specifications, the NVIDIA toolkit's settings.

A setting counts where the engine reads it, and where what it names is there.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.containers import docker_flags, docker_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.services import (
        Cdi,
        Containerd,
        Containers,
        Docker,
        Selinux,
    )

DAEMON_JSON = "/etc/docker/daemon.json"
DOCKER_PIDS = ("/run/docker.pid", "/run/snap.docker/docker.pid")
# Docker of a snap reads this file and no other: see its dockerd's --config-file in github:canonical/docker-snap
SNAP_DOCKER, SNAP_DAEMON_JSON = "/snap/bin/docker", "/var/snap/docker/current/config/daemon.json"
DOCKER_PROGRAMS = ("/usr/bin/dockerd", "/usr/sbin/dockerd", "/usr/local/bin/dockerd")
PROGRAMS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")  # the PATH of a service
CONTAINERD_CONFIG, CONTAINERD_DROP_INS = "/etc/containerd/config.toml", "/etc/containerd/conf.d"
CONTAINERD_DUMP = ["containerd", "config", "dump"]
TOOLKIT_CONFIG = "/etc/nvidia-container-runtime/config.toml"
CDI_DIRECTORIES = ("/etc/cdi", "/var/run/cdi", "/run/cdi")
SELINUX = "/sys/fs/selinux"
_KIND = re.compile(r"nvidia\.com/[\w-]+")
_LIBCUDA = re.compile(r"libcuda\.so\.(\d+\.[\d.]*\d)")
# Devices of MIG, by their place (GPU:device) and by UUID: nvidia-ctk names them in either way, or in both
_MIG_DEVICE = re.compile(r"(?:mig)?(\d+:\d+|MIG-[\w-]+)")
# A line of a mapping in YAML's block style, which is what nvidia-ctk and editors write: dashes, key, value
_YAML_LINE = re.compile(r"""( *)((?:- +)*)["']?([\w.-]+)["']? *:(?: +(?:"([^"]*)"|'([^']*)'|(.*?))(?: +#.*)?)?""")
# Settings of TOML that a file has once, whatever their table
_TOOLKIT_SETTING = re.compile(r'^\s*(ldconfig|root|no-cgroups)\s*=\s*"?([^"\n#]*)', re.MULTILINE)
# What makes the settings of containerd differ from its own, as far as gpulab asks
_OF_CONTAINERD = re.compile(r"^(?!\s*#).*(?:cdi|nvidia|imports|disabled_plugins)", re.MULTILINE)
_ENABLE_CDI = re.compile(r"^\s*enable_cdi\s*=\s*(true|false)", re.MULTILINE)
_NO_KUBERNETES = re.compile(r"^disabled_plugins\s*=.*\bcri\b", re.MULTILINE)
_NVIDIA_HANDLER = re.compile(r"""^\s*\[.*\bruntimes\.["']?nvidia""", re.MULTILINE)
_DRIVER_FILES = ("usr/bin/nvidia-smi", "bin/nvidia-smi", "opt/bin/nvidia-smi")


def read(node: Node) -> Containers:
    """Return the facts ``containers``."""
    toolkit = {name: value.strip() for name, value in _TOOLKIT_SETTING.findall(node.text(TOOLKIT_CONFIG))}
    root = toolkit.get("root") or None
    return {
        "docker": _docker(node),
        "containerd": containerd(node),
        "cdi": cdi(node),
        "toolkit_ldconfig": toolkit.get("ldconfig"),
        "toolkit_no_cgroups": toolkit.get("no-cgroups") == "true",
        "toolkit_root": root,
        "toolkit_root_there": root is None or any(node.exists(f"{root}/{file}") for file in _DRIVER_FILES),
        "selinux": selinux(node),
    }


def _docker(node: Node) -> Docker | None:
    """Return the settings that Docker has: of the daemon that runs, else of the one that is installed."""
    flags = next(filter(None, map(docker_flags.of_process, _daemons(node))), {})
    from_snap = node.exists(SNAP_DOCKER) and not any(map(node.exists, DOCKER_PROGRAMS))
    file = flags.get("config-file") or (SNAP_DAEMON_JSON if from_snap else DAEMON_JSON)
    if not flags and not node.exists(file):
        return None
    found = docker(node.text(file), flags)
    return {
        "invalid": found["invalid"],
        "runtimes": found["runtimes"],
        "default_runtime": found["default_runtime"],
        "cdi": found["cdi"],
        "cdi_directories": found["cdi_directories"],
        "selinux": found["selinux"],
        "file": file,
        "missing_programs": {name: path for name, path in found["programs"].items() if not _is_program(node, path)},
    }


def docker_runs(node: Node) -> bool:
    """Tell whether Docker's daemon runs; it is not asked, for its socket would start it."""
    return any(command.partition("\0")[0].rpartition("/")[2] == docker_flags.PROGRAM for command in _daemons(node))


def _daemons(node: Node) -> list[str]:
    return [node.text(f"/proc/{node.number(pid)}/cmdline") for pid in DOCKER_PIDS if node.exists(pid)]


def _is_program(node: Node, path: str) -> bool:
    return node.exists(path) if "/" in path else any(node.exists(f"{place}/{path}") for place in PROGRAMS)


def containerd(node: Node) -> Containerd | None:
    """Return {"cdi", "nvidia_runtime", "kubernetes"} of containerd's settings; None where there are none.

    cdi tells whether Kubernetes' plugin of it takes CDI (None: its version decides), nvidia_runtime whether it knows
    a runtime called nvidia, kubernetes whether that plugin is on. containerd itself says what its file comes to: with
    imports, and with plugins that have another name in each form of the file.
    """
    more = node.names(CONTAINERD_DROP_INS)  # which containerd reads where it is told to, and by itself since 2.2
    if not more and not node.exists(CONTAINERD_CONFIG):
        return None
    asked = more or _OF_CONTAINERD.search(node.text(CONTAINERD_CONFIG))
    dump = node.start(CONTAINERD_DUMP).output() or "" if asked else ""
    said = _ENABLE_CDI.findall(dump)
    return {
        "cdi": said[-1] == "true" if said else None,
        "nvidia_runtime": bool(_NVIDIA_HANDLER.search(dump)),
        "kubernetes": not _NO_KUBERNETES.search(dump),
    }


def selinux(node: Node) -> Selinux | None:
    """Return {"enforcing", "devices"}; None without SELinux.

    devices is its boolean container_use_devices, without which a container may not open the host's devices; None where
    the policy has no such boolean.
    """
    if not node.exists(f"{SELINUX}/enforce"):
        return None
    devices = node.text(f"{SELINUX}/booleans/container_use_devices").split()  # now, and after a commit
    return {"enforcing": node.number(f"{SELINUX}/enforce") == 1, "devices": devices[0] == "1" if devices else None}


def docker(text: str, flags: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return what daemon.json and the command line make of Docker.

    That is {"invalid", "runtimes", "default_runtime", "cdi", "cdi_directories", "selinux", "programs"}: invalid says
    why Docker will not start; programs are those of its runtimes, by name.
    """
    facts: dict[str, Any] = {
        "invalid": None,
        "runtimes": [],
        "default_runtime": None,
        "cdi": None,
        "cdi_directories": None,
        "selinux": False,
        "programs": {},
    }
    try:
        settings = docker_settings.load(text) if text.strip() else {}
    except ValueError as error:
        return {**facts, "invalid": str(error)}
    if not isinstance(settings, dict):
        return {**facts, "invalid": "it does not contain a JSON object"}
    settings = docker_settings.effective(settings, flags or {})
    runtimes, features = _object(settings, "runtimes"), _object(settings, "features")
    directories = settings.get("cdi-spec-dirs")
    paths = {name: _object(runtimes, name).get("path") for name in runtimes}
    return {
        **facts,
        "runtimes": sorted(runtimes),
        "default_runtime": settings.get("default-runtime"),
        "cdi": features.get("cdi"),
        "cdi_directories": directories if isinstance(directories, list) else None,
        "selinux": settings.get("selinux-enabled") is True,
        "programs": {name: path for name, path in paths.items() if isinstance(path, str)},
    }


def _object(settings: dict[str, Any], key: str) -> dict[str, Any]:
    found = settings.get(key)
    return found if isinstance(found, dict) else {}


def cdi(node: Node) -> list[Cdi]:
    """List NVIDIA's CDI specifications.

    library is the driver version that a specification was made for, None where it names none; missing are the host's
    paths that it names and that are not there, device nodes and hooks among them; devices are the names of its devices,
    mig_devices those of MIG.
    """
    found: dict[tuple[str, str], Cdi] = {}
    for directory in CDI_DIRECTORIES:
        for name in node.names(directory):
            text = node.text(f"{directory}/{name}") if name.endswith((".yaml", ".json")) else ""
            parts = list(_mappings(text))
            kind = _KIND.fullmatch(str(next((part["kind"] for key, part in parts if not key and "kind" in part), "")))
            if kind:
                library = _LIBCUDA.search(text)
                devices = sorted({str(part["name"]) for key, part in parts if key == "devices" and "name" in part})
                mig_devices = filter(None, map(_MIG_DEVICE.fullmatch, devices))
                found.setdefault(
                    (name, text),  # /var/run is /run on most systems
                    {
                        "path": f"{directory}/{name}",
                        "kind": kind[0],
                        "library": library.group(1) if library else None,
                        "missing": [path for path in _host_paths(parts) if not node.exists(path)],
                        "devices": devices,
                        "mig_devices": sorted({device[1] for device in mig_devices}),
                    },
                )
    return list(found.values())


def _host_paths(parts: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the paths on the host: of mounts, hooks, and device nodes, where path stands for a missing hostPath."""
    paths = {str(part.get("hostPath") or part.get("path") or "") for _key, part in parts}
    return sorted(path for path in paths if path.startswith("/"))


def _mappings(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each mapping of a file in JSON, or in YAML's block style, below the key that it is under."""
    try:
        yield from _mappings_of("", json.loads(text))
    except (ValueError, RecursionError):
        yield from _yaml_mappings(text)


def _mappings_of(key: str, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        yield key, value
        for inner, content in value.items():
            yield from _mappings_of(inner, content)
    elif isinstance(value, list):
        for content in value:
            yield from _mappings_of(key, content)


def _yaml_mappings(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the mappings of a text in YAML's block style; what is written otherwise is passed over."""
    found: list[tuple[str, dict[str, Any]]] = [("", {})]
    stack = [(0, found[0][1])]  # the open mappings, by the column of their keys
    for line in filter(None, map(_YAML_LINE.fullmatch, text.splitlines())):
        spaces, dashes, key, *values = line.groups()
        column = len(spaces) + len(dashes)
        while len(stack) > 1 and stack[-1][0] > (len(spaces) if dashes else column):
            stack.pop()
        if dashes or column > stack[-1][0]:
            parent = next(reversed(stack[-1][1]), "")
            found.append((parent, {}))
            stack.append((column, found[-1][1]))
        stack[-1][1][key] = next((value for value in values if value), "")
    return found
