# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How container engines are given the GPUs: Docker's settings, CDI specifications, the NVIDIA toolkit's settings."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.containers import docker_flags, docker_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

DAEMON_JSON = "/etc/docker/daemon.json"
DOCKER_PID = "/run/docker.pid"
TOOLKIT_CONFIG = "/etc/nvidia-container-runtime/config.toml"
CDI_DIRECTORIES = ("/etc/cdi", "/var/run/cdi", "/run/cdi")
_KIND = re.compile(r"nvidia\.com/[\w-]+")
_LIBCUDA = re.compile(r"libcuda\.so\.(\d+\.[\d.]*\d)")
# Devices of MIG, by their place (GPU:device) and by UUID: nvidia-ctk names them in either way, or in both
_MIG_DEVICE = re.compile(r"(?:mig)?(\d+:\d+|MIG-[\w-]+)")
# A line of a mapping in YAML's block style, which is what nvidia-ctk and editors write: dashes, key, value
_YAML_LINE = re.compile(r"""( *)((?:- +)*)["']?([\w.-]+)["']? *:(?: +(?:"([^"]*)"|'([^']*)'|(.*?))(?: +#.*)?)?""")
_LDCONFIG = re.compile(r'^\s*ldconfig\s*=\s*"([^"]*)"', re.MULTILINE)


def read(node: Node) -> dict[str, Any]:
    """Return the facts ``containers``."""
    flags = docker_flags.of_process(node.text(f"/proc/{node.number(DOCKER_PID)}/cmdline"))
    ldconfig = _LDCONFIG.search(node.text(TOOLKIT_CONFIG))
    return {
        "docker": docker(node.text(DAEMON_JSON), flags) if flags or node.exists(DAEMON_JSON) else None,
        "cdi": cdi(node),
        "toolkit_ldconfig": ldconfig.group(1) if ldconfig else None,
    }


def docker(text: str, flags: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return {"invalid", "runtimes", "default_runtime", "cdi"} of daemon.json and of what the command line fixes.

    invalid says why Docker will not start.
    """
    facts: dict[str, Any] = {"invalid": None, "runtimes": [], "default_runtime": None, "cdi": None}
    try:
        settings = docker_settings.load(text) if text.strip() else {}
    except ValueError as error:
        return {**facts, "invalid": str(error)}
    if not isinstance(settings, dict):
        return {**facts, "invalid": "it does not contain a JSON object"}
    settings = docker_settings.effective(settings, flags or {})
    runtimes, features = settings.get("runtimes"), settings.get("features")
    return {
        **facts,
        "runtimes": sorted(runtimes) if isinstance(runtimes, dict) else [],
        "default_runtime": settings.get("default-runtime"),
        "cdi": features.get("cdi") if isinstance(features, dict) else None,
    }


def cdi(node: Node) -> list[dict[str, Any]]:
    """List NVIDIA's CDI specifications: {"path", "kind", "library", "missing", "devices", "mig_devices"}.

    library is the driver version that a specification was made for, None where it names none; missing are the host's
    paths that it names and that are not there, device nodes and hooks among them; devices are the names of its devices,
    mig_devices those of MIG.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
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
