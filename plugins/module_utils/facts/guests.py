# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers, guests and builds on a node, by their control groups, and which of them a boot brings back."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import Process

PODMAN_RESTARTS = "/etc/systemd/system/default.target.wants/podman-restart.service"
_STARTS = ("always", "unless-stopped")  # policies by which an engine starts a container when it starts itself
_KUBERNETES = re.compile(r"/(?:kubepods|kubelet)")  # kubelet starts its pods again
_ENGINES = (
    ("Docker", re.compile(r"/docker(?:-|/)([0-9a-f]{2,64})(?:\.scope)?(?:/|\Z)")),
    ("Podman", re.compile(r"/libpod-(?:payload-)?([0-9a-f]{2,64})(?:\.scope)?(?:/|\Z)")),
    ("containerd", re.compile(r"/(?:nerdctl-|default/)([0-9a-f]{12,64})(?:\.scope)?(?:/|\Z)")),
)
_MONITOR = "conmon"  # Podman's; it and what it runs stay where --cgroups=no-conmon or disabled leaves them
_CONTROL = re.compile(r"/[^/]*-containers/([0-9a-f]{64})/userdata/ctl\Z")  # what it has open, below the storage's top
_BUILD = re.compile(r"/(?:docker/)?buildkit/")
_GUESTS = (
    ("the virtual machine", re.compile(r"/machine\.slice/machine-qemu(?:\\x2d\d+)?(?:\\x2d)?(.*?)\.scope(?:/|\Z)")),
    ("the LXC guest", re.compile(r"/lxc(?:\.payload\.|\.payload/|/)([^/]+)")),
    (
        "the guest",
        re.compile(r"/machine\.slice/(?:machine-(?!qemu)|systemd-nspawn@)([^/]+)\.(?:scope|service)(?:/|\Z)"),
    ),
)
_HYPERVISORS = ("qemu-system-", "qemu-kvm", "kvm", "firecracker", "cloud-hyperviso")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
_DOCKER = "{{.Id}} {{.Name}} {{.HostConfig.RestartPolicy.Name}}"
_PODMAN = _DOCKER + ' {{index .Config.Labels "PODMAN_SYSTEMD_UNIT"}}'
_MOST = 32  # containers of containerd that are asked for, one by one


class Guest(NamedTuple):
    """What a process runs in: engine is empty for guests, which count whatever starts them."""

    engine: str
    name: str


def guest(place: str, command: str) -> Guest | None:
    """Tell the container, guest or build that a process is of, by its control group; None where it is of none."""
    for engine, pattern in _ENGINES:
        match = pattern.search(place)
        if match:
            return Guest(engine, match[1])
    if _BUILD.search(place):
        return Guest("", "a build of an image")
    for kind, pattern in _GUESTS:
        match = pattern.match(place)
        if match:
            name = _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), match[1])
            return Guest("", f"{kind} {name}".strip())
    return Guest("", "a virtual machine") if command.startswith(_HYPERVISORS) else None


def of_monitor(node: Node, line: Iterable[Process]) -> Guest | None:
    """Tell root's container that a process is of, by the monitor that it descends from; line begins with the process.

    A container without control groups of its own stands in those of whoever started it: in a login session, say.
    """
    for process in line:
        if process.command != _MONITOR or process.uid != 0:
            continue
        for descriptor in node.names(f"/proc/{process.pid}/fd"):
            control = _CONTROL.search(node.link(f"/proc/{process.pid}/fd/{descriptor}") or "")
            if control:
                return Guest("Podman", control[1])
    return None


def is_of_kubernetes(place: str) -> bool:
    """Tell whether a control group is of a pod."""
    return _KUBERNETES.match(place) is not None


def not_coming_back(node: Node, found: Iterable[Guest]) -> dict[Guest, str]:
    """Name each of these that a boot does not bring back; one whose engine does not say counts."""
    said: dict[Guest, str] = {}
    of_engines: dict[str, list[Guest]] = {}
    for one in found:
        if one.engine:
            of_engines.setdefault(one.engine, []).append(one)
        else:
            said[one] = one.name
    for engine, ones in of_engines.items():
        answers = _ASK[engine](node, [one.name for one in ones])
        for one in ones:
            name, policy = next(
                (answer for number, answer in answers.items() if number.startswith(one.name)), ("", "?")
            )
            if policy not in _STARTS:
                why = "with unknown restart policy" if policy == "?" else "without restart policy"
                said[one] = f"container {name or one.name[:12]} of {engine} {why}"
    return said


def _of_docker(node: Node, numbers: list[str]) -> dict[str, tuple[str, str]]:
    text = node.start(["docker", "inspect", "--format", _DOCKER, *numbers]).output() or ""
    lines = ([*line.split(" "), "", ""][:3] for line in text.splitlines())
    return {number: (name.lstrip("/"), policy) for number, name, policy in lines}


def _of_podman(node: Node, numbers: list[str]) -> dict[str, tuple[str, str]]:
    """Ask Podman: a container comes back by its unit, or by a service that starts those with a policy."""
    starts, found = node.exists(PODMAN_RESTARTS), {}
    for line in (node.start(["podman", "inspect", "--format", _PODMAN, *numbers]).output() or "").splitlines():
        number, name, policy, unit = [*line.split(" "), "", "", ""][:4]
        found[number] = (name, "always" if unit.endswith(".service") else policy if starts else "no")
    return found


def _of_containerd(node: Node, numbers: list[str]) -> dict[str, tuple[str, str]]:
    found = {}
    for number in numbers[:_MOST]:
        text = node.start(["ctr", "--namespace", "default", "containers", "info", number]).output()
        try:
            labels = json.loads(text or "").get("Labels") or {}
        except (ValueError, AttributeError):
            continue
        runs = labels.get("containerd.io/restart.status") == "running"
        policy = labels.get("containerd.io/restart.policy", "always") if runs else "no"
        found[number] = (labels.get("nerdctl/name", ""), policy)
    return found


_ASK = {"Docker": _of_docker, "Podman": _of_podman, "containerd": _of_containerd}
