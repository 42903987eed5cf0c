# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How container engines are given the GPUs: Docker's settings, CDI specifications, the NVIDIA toolkit's settings."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.facts_node import Node

DAEMON_JSON = "/etc/docker/daemon.json"
TOOLKIT_CONFIG = "/etc/nvidia-container-runtime/config.toml"
CDI_DIRECTORIES = ("/etc/cdi", "/var/run/cdi", "/run/cdi")
# In YAML as in JSON, which are both allowed; nvidia-ctk writes them one to a line.
_KIND = re.compile(r'^[\s{]*"?kind"?:\s*"?(nvidia\.com/[\w-]+)', re.MULTILINE)
_HOST_PATH = re.compile(r'"?hostPath"?:\s*"?([^"\s,}]+)')
_LIBCUDA = re.compile(r"libcuda\.so\.(\d+\.[\d.]*\d)")
# Devices of MIG, by their place (GPU:device) and by UUID: nvidia-ctk names them in either way, or in both
_MIG_DEVICE = re.compile(r'^[\s{-]*"?name"?:\s*"?(?:mig)?(\d+:\d+|MIG-[\w-]+)"?', re.MULTILINE)
_LDCONFIG = re.compile(r'^\s*ldconfig\s*=\s*"([^"]*)"', re.MULTILINE)


def read(node: Node) -> dict[str, Any]:
    """Return the facts ``containers``."""
    ldconfig = _LDCONFIG.search(node.text(TOOLKIT_CONFIG))
    return {
        "docker": docker(node.text(DAEMON_JSON)) if node.exists(DAEMON_JSON) else None,
        "cdi": cdi(node),
        "toolkit_ldconfig": ldconfig.group(1) if ldconfig else None,
    }


def docker(text: str) -> dict[str, Any]:
    """Parse daemon.json: {"invalid", "runtimes", "default_runtime", "cdi"}; invalid says why Docker will not start."""
    facts: dict[str, Any] = {"invalid": None, "runtimes": [], "default_runtime": None, "cdi": None}
    try:
        settings = json.loads(text) if text else {}
    except ValueError as error:
        return {**facts, "invalid": str(error)}
    if not isinstance(settings, dict):
        return {**facts, "invalid": "it holds no JSON object"}
    runtimes, features = settings.get("runtimes"), settings.get("features")
    return {
        **facts,
        "runtimes": sorted(runtimes) if isinstance(runtimes, dict) else [],
        "default_runtime": settings.get("default-runtime"),
        "cdi": features.get("cdi") if isinstance(features, dict) else None,
    }


def cdi(node: Node) -> list[dict[str, Any]]:
    """List NVIDIA's CDI specifications: {"path", "kind", "library", "missing", "mig_devices"}.

    library is the driver version that a specification was made for, None where it names none; missing are the host's
    paths that it names and that are not there; mig_devices are the names of its MIG devices.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for directory in CDI_DIRECTORIES:
        for name in node.names(directory):
            text = node.text(f"{directory}/{name}") if name.endswith((".yaml", ".json")) else ""
            kind, library = _KIND.search(text), _LIBCUDA.search(text)
            if kind:
                paths = sorted(set(_HOST_PATH.findall(text)))
                found.setdefault(
                    (name, text),  # /var/run is /run on most systems
                    {
                        "path": f"{directory}/{name}",
                        "kind": kind.group(1),
                        "library": library.group(1) if library else None,
                        "missing": [path for path in paths if not node.exists(path)],
                        "mig_devices": sorted(set(_MIG_DEVICE.findall(text))),
                    },
                )
    return list(found.values())
