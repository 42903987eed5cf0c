# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker: images, volumes and containers as its daemon tells them.

The daemon is asked over its socket, and only where it runs: a question would start one that systemd holds back. It
keeps the digests of images that came from a registry or were sent to one, but with its image store of containerd it has
digests for all images.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Callable

from ansible_collections.gpulab.node.plugins.module_utils.capture.container_storage import (
    BUILT_HERE,
    CONTAINERD,
    DOCKER,
    Storage,
    at,
    is_local,
    listed,
    shown,
    text,
    variables,
)
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.engines import (
    Bind,
    Compose,
    Container,
    ContainerNetwork,
    Engine,
    Image,
    Volume,
)
from ansible_collections.gpulab.node.plugins.module_utils.containers import docker_engine
from ansible_collections.gpulab.node.plugins.module_utils.core import commands
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.homes import Places
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

PID, ROOT, SETTINGS = "/run/docker.pid", "/var/lib/docker", "/etc/docker/daemon.json"
# Where Docker keeps the manifests of what it pulled, by their digests
MANIFESTS = "/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256"
SECONDS = 10.0  # for one answer of the daemon
NOT_TOLD = "Docker's image store of containerd does not tell whether it came from a registry"
COMPOSE = "com.docker.compose.project"
OWN_NETWORKS = ("bridge", "host", "none")
_LAYER = re.compile(r"/overlay2/([^/:]+)/diff")
_DIGEST = re.compile(r'"sha256:([0-9a-f]{64})"')
Ask = Callable[[str], Any]


def ask_daemon(question: str) -> Any:
    """Return the daemon's answer. Raises NoAnswerError."""
    return docker_engine.ask(question, seconds=SECONDS)


def read(node: Node, ask: Ask, places: Places) -> tuple[list[Engine], list[Storage]]:
    """Return Docker, where it is there, and what of its storage comes back."""
    process = node.number(PID)
    if process is None or not node.exists(f"/proc/{process}"):
        root = _setting(node)
        return ([_silent(root, "its daemon does not run")] if node.names(root) else []), []
    try:
        return _answering(node, ask, places)
    except docker_engine.NoAnswerError as error:
        return [_silent(_setting(node), str(error))], []


def _silent(root: str, trouble: str) -> Engine:
    return Engine(DOCKER, "", root, "", for_people(trouble), [], [], [], [])


def _answering(node: Node, ask: Ask, places: Places) -> tuple[list[Engine], list[Storage]]:
    info = ask("/info") or {}
    known, containers = _each(ask, "images"), _each(ask, "containers")
    volumes, networks = listed(ask("/volumes"), "Volumes"), ask("/networks") or []
    of_containerd = "containerd.snapshotter" in json.dumps(info)
    images = [(one, _image(one, of_containerd=of_containerd)) for one in known]
    able, root = [one for one, image in images if image.comes_back], text(info, "DockerRootDir") or ROOT
    engine = Engine(
        program=DOCKER,
        version=text(info, "ServerVersion"),
        root=root,
        driver=text(info, "Driver"),
        trouble="",
        images=[image for one, image in images if image.names or not one.get("Parent")],
        volumes=[_volume(one, places) for one in volumes],
        networks=[_network(one) for one in networks if one.get("Name") not in OWN_NETWORKS],
        containers=[_container(one) for one in containers],
    )
    layers = frozenset(layer for one in able for layer in _layers(node, root, one))
    manifests = frozenset(_manifests(node, able))
    return [engine], [Storage(DOCKER, root.rstrip("/"), layers), Storage(CONTAINERD, MANIFESTS, images=manifests)]


def _each(ask: Ask, kind: str) -> list[dict[str, Any]]:
    """Return what the daemon says of each image, or of each container; one that is gone meanwhile is left out."""
    answers = [ask(f"/{kind}/{one['Id']}/json") for one in ask(f"/{kind}/json?all=1") or ()]
    return [answer for answer in answers if answer]


def _layers(node: Node, root: str, image: dict[str, Any]) -> Iterator[str]:
    """Yield the directories of an image's layers; those of vfs are not in its answer, but in Docker's notes."""
    yield from _LAYER.findall(json.dumps(at(image, "GraphDriver", "Data") or {}))
    above = ""
    for layer in listed(image, "RootFS", "Layers") if at(image, "GraphDriver", "Name") == "vfs" else ():
        above = f"sha256:{hashlib.sha256(f'{above} {layer}'.encode()).hexdigest()}" if above else str(layer)
        identity = node.text(f"{root}/image/vfs/layerdb/{above.replace(':', '/')}/cache-id").strip()
        yield from [identity] if identity else []


def _manifests(node: Node, images: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the digests of images' manifests; one for many platforms has that of each in it."""
    for digest in (name.rpartition("@sha256:")[2] for one in images for name in listed(one, "RepoDigests")):
        yield digest
        yield from _DIGEST.findall(node.text(f"{MANIFESTS}/{digest}"))


def _setting(node: Node) -> str:
    try:
        settings = json.loads(node.text(SETTINGS) or "{}")
        return str(settings.get("data-root") or settings.get("graph") or ROOT)
    except (ValueError, AttributeError):
        return ROOT


def _image(image: dict[str, Any], *, of_containerd: bool) -> Image:
    digests = listed(image, "RepoDigests")
    able = not of_containerd and not all(map(is_local, digests))
    why = "" if able else NOT_TOLD if of_containerd and digests else BUILT_HERE
    return Image(text(image, "Id"), listed(image, "RepoTags"), digests, able, why)


def _volume(volume: dict[str, Any], places: Places) -> Volume:
    place, given = text(volume, "Mountpoint"), at(volume, "Options") or {}
    options = {name: commands.shown_options(str(value)) for name, value in given.items()}
    on_root_disk = bool(place) and places.on_root_disk(place)
    return Volume(text(volume, "Name"), text(volume, "Driver"), place, options, on_root_disk)


def _network(network: dict[str, Any]) -> ContainerNetwork:
    subnets = [one["Subnet"] for one in listed(network, "IPAM", "Config") if one.get("Subnet")]
    return ContainerNetwork(text(network, "Name"), text(network, "Driver"), subnets)


def _container(one: dict[str, Any]) -> Container:
    requests = [request for request in listed(one, "HostConfig", "DeviceRequests") if "gpu" in json.dumps(request)]
    return Container(
        name=text(one, "Name").lstrip("/"),
        image=text(one, "Config", "Image"),
        command=shown([*listed(one, "Config", "Entrypoint"), *listed(one, "Config", "Cmd")]),
        environment=variables(listed(one, "Config", "Env")),
        mounts=[_bind(mount) for mount in listed(one, "Mounts")],
        running=bool(at(one, "State", "Running")),
        ports=list(_ports(at(one, "HostConfig", "PortBindings") or {})),
        restart=text(one, "HostConfig", "RestartPolicy", "Name"),
        network=text(one, "HostConfig", "NetworkMode"),
        runtime=text(one, "HostConfig", "Runtime"),
        gpus=[request.get("DeviceIDs") or request.get("Count") for request in requests],
        privileged=bool(at(one, "HostConfig", "Privileged")),
        user=text(one, "Config", "User"),
        compose=_compose(at(one, "Config", "Labels") or {}),
    )


def _bind(mount: dict[str, Any]) -> Bind:
    return Bind(text(mount, "Name") or text(mount, "Source"), text(mount, "Destination"), not mount.get("RW", True))


def _ports(bindings: dict[str, Any]) -> Iterator[str]:
    for port, bound in bindings.items():
        for where in bound or ():
            yield f"{text(where, 'HostIp')}:{text(where, 'HostPort')}:{port}".lstrip(":")


def _compose(labels: dict[str, str]) -> Compose | None:
    project, files = text(labels, COMPOSE), text(labels, f"{COMPOSE}.config_files")
    if not project:
        return None
    return Compose(project, text(labels, f"{COMPOSE}.working_dir"), [file for file in files.split(",") if file])
