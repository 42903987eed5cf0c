# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container engines of a node: images, volumes, containers, and which files of their storage come back.

Docker's daemon is asked over its socket, and only where it runs: a question would start one that systemd holds back.
Podman is not run, for its first call after a boot writes to its storage; what that says of itself is read (images.json,
layers.json and containers.json of containers/storage). The storage of users' own engines lies in their homes.

An image comes back where a registry has it. Docker keeps the digests of images that came from a registry or were sent
to one, but with its image store of containerd it has digests for all images. Podman has digests for all; layers from a
registry have another digest as they came, compressed. Volumes, and what containers wrote, do not come back.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable

from ansible_collections.gpulab.node.plugins.module_utils.capture.homes import Places
from ansible_collections.gpulab.node.plugins.module_utils.containers import docker_engine
from ansible_collections.gpulab.node.plugins.module_utils.core import commands
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

DOCKER, PODMAN = "docker", "podman"
DOCKER_PID = "/run/docker.pid"
# Where Docker keeps the manifests of what it pulled, by their digests
CONTAINERD, MANIFESTS = "containerd", "/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256"
DOCKER_ROOT, PODMAN_ROOT = "/var/lib/docker", "/var/lib/containers/storage"
DAEMON_JSON = "/etc/docker/daemon.json"
STORAGE_CONF = ("/etc/containers/storage.conf", "/usr/share/containers/storage.conf")
SECONDS = 10.0  # for one answer of the daemon
BUILT_HERE = "it was built or loaded here: no registry is known to have it"
NOT_TOLD = "Docker's image store of containerd does not tell whether it came from a registry"
COMPOSE = "com.docker.compose.project"
_LOCAL = re.compile(r"(?:localhost|127\.[\d.]+|\[::1\])(?::\d+)?/")
_LAYER = re.compile(r"/overlay2/([^/:]+)/diff")
_DIGEST = re.compile(r'"sha256:([0-9a-f]{64})"')
_GRAPH_ROOT = re.compile(r'^\s*graphroot\s*=\s*"([^"]+)"', re.MULTILINE)
# Docker's own, which it makes again; containers has the settings and logs of each
_OF_DOCKER = ("builder", "buildkit", "containers", "image", "network", "runtimes", "tmp")
_BACKING = "backingFsBlockDev"  # a node of the device below, for quotas
_VOLUMES_OWN = ("metadata.db", _BACKING)
Ask = Callable[[str], Any]


@dataclass(frozen=True)
class _Storage:
    """The storage of an engine: where it is, and the ids of layers and images that come back."""

    program: str
    root: str
    layers: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()

    def covers(self, path: str) -> bool:
        """Tell whether a file or directory comes back; path is relative to the storage."""
        top, _slash, rest = path.partition("/")
        if self.program == CONTAINERD:
            return top in self.images
        if top == "volumes":
            return rest in ("", *_VOLUMES_OWN)
        return self._of_docker(top, rest) if self.program == DOCKER else self._of_podman(top, rest)

    def _of_docker(self, top: str, rest: str) -> bool:
        if rest == _BACKING:
            return True
        if top == "vfs":
            return self._of_copy(rest)
        if top == "overlay2":
            return self._of_layer(rest)
        if top == "containerd":  # its own, where Docker starts it: lists, but no layers and images
            return not re.search(r"snapshotter|\.content\.", rest)
        return top in ("", "engine-id", *_OF_DOCKER)

    def _of_podman(self, top: str, rest: str) -> bool:
        if top == "overlay":
            return self._of_layer(rest)
        if top == "vfs":
            return self._of_copy(rest)
        first = rest.partition("/")[0]
        if top.endswith("-images"):
            return not rest or first.startswith("images.") or first in self.images
        return top != "secrets"

    def _of_copy(self, rest: str) -> bool:
        """Tell whether a part of vfs comes back, which has a whole file system for each layer and each container."""
        identity = rest.partition("/")[2].partition("/")[0]
        return rest in ("", "dir") or identity.endswith("-init") or identity in self.layers

    def _of_layer(self, rest: str) -> bool:
        """Tell whether a part of overlay2 or overlay comes back: layers, but for diff, have only links and marks."""
        identity, _slash, part = rest.partition("/")
        return identity.endswith("-init") or identity in self.layers or part.partition("/")[0] != "diff"


@dataclass
class Engines:
    """The engines of a node; record is the section ``containers`` of the manifest, see read()."""

    record: dict[str, Any]
    storages: list[_Storage] = field(default_factory=list)

    def covers(self, path: str) -> bool:
        """Tell whether an engine brings this file of its storage back."""
        for storage in self.storages:
            if path == storage.root or path.startswith(f"{storage.root}/"):
                return storage.covers(path[len(storage.root) + 1 :])
        return False


def read(node: Node, ask: Ask | None = None) -> Engines:
    """Return the engines; ask asks Docker's daemon, and raises NoAnswerError.

    The record is {"engines": [{
        program     docker or podman
        version     "" where it does not tell
        root        where its storage is
        driver      overlay2, vfs, ...
        trouble     why it could not be asked; "" where it could
        images      [{id, names, digests, comes_back, why}]
        volumes     [{name, driver, mountpoint, options, on_root_disk}]
        networks    [{name, driver, subnets}], but for Docker's own
        containers  [{name, image, running, command, environment (names alone), mounts: [{source, destination,
                    read_only}], ports, restart, network, runtime, gpus, privileged, user, compose: {project,
                    directory, files}}]; what is unknown of one of Podman is None
    }]}. Secrets in options and commands are hidden.
    """
    places = Places(node)
    found = [*_docker(node, ask or _ask, places), *_podman(node, places)]
    records = [record for record, _storage in found if record]
    return Engines({"engines": records}, [storage for _record, storage in found if storage])


def _ask(question: str) -> Any:
    return docker_engine.ask(question, seconds=SECONDS)


def _docker(node: Node, ask: Ask, places: Places) -> Iterator[tuple[dict[str, Any] | None, _Storage | None]]:
    process = node.number(DOCKER_PID)
    if process is None or not node.exists(f"/proc/{process}"):
        root = _setting_of_docker(node)
        if node.names(root):
            yield _engine(DOCKER, root, trouble="its daemon does not run"), None
        return
    try:
        info = ask("/info") or {}
        images = [ask(f"/images/{one['Id']}/json") or {} for one in ask("/images/json?all=1") or ()]
        volumes = (ask("/volumes") or {}).get("Volumes") or []
        networks = ask("/networks") or []
        containers = [ask(f"/containers/{one['Id']}/json") or {} for one in ask("/containers/json?all=1") or ()]
    except docker_engine.NoAnswerError as error:
        yield _engine(DOCKER, _setting_of_docker(node), trouble=str(error)), None
        return
    root, of_containerd = info.get("DockerRootDir") or DOCKER_ROOT, "containerd.snapshotter" in json.dumps(info)
    listed = [_image_of_docker(one, of_containerd=of_containerd) for one in images if one]
    able = [one for one, record in zip(filter(None, images), listed) if record["comes_back"]]
    layers = [layer for one in able for layer in _layers(node, root, one)]
    engine = _engine(DOCKER, root)
    engine.update(
        version=info.get("ServerVersion") or "",
        driver=info.get("Driver") or "",
        images=[one for one, image in zip(listed, filter(None, images)) if one["names"] or not image.get("Parent")],
        volumes=[_volume(one, places) for one in volumes],
        networks=[_network(one) for one in networks if one.get("Name") not in ("bridge", "host", "none")],
        containers=[_container_of_docker(one) for one in containers if one],
    )
    yield engine, _Storage(DOCKER, root.rstrip("/"), frozenset(layers))
    yield None, _Storage(CONTAINERD, MANIFESTS, images=frozenset(_manifests(node, able)))


def _layers(node: Node, root: str, image: dict[str, Any]) -> Iterator[str]:
    """Yield the directories of an image's layers; those of vfs are not in its answer, but in Docker's notes."""
    graph = image.get("GraphDriver") or {}
    yield from _LAYER.findall(json.dumps(graph.get("Data") or {}))
    above = ""
    for layer in (image.get("RootFS") or {}).get("Layers") or () if graph.get("Name") == "vfs" else ():
        above = f"sha256:{hashlib.sha256(f'{above} {layer}'.encode()).hexdigest()}" if above else str(layer)
        identity = node.text(f"{root}/image/vfs/layerdb/{above.replace(':', '/')}/cache-id").strip()
        yield from [identity] if identity else []


def _manifests(node: Node, images: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the digests of images' manifests; one for many platforms has that of each in it."""
    for digest in (text.rpartition("@sha256:")[2] for one in images for text in one.get("RepoDigests") or ()):
        yield digest
        yield from _DIGEST.findall(node.text(f"{MANIFESTS}/{digest}"))


def _setting_of_docker(node: Node) -> str:
    try:
        settings = json.loads(node.text(DAEMON_JSON) or "{}")
        return str(settings.get("data-root") or settings.get("graph") or DOCKER_ROOT)
    except (ValueError, AttributeError):
        return DOCKER_ROOT


def _engine(program: str, root: str, trouble: str = "") -> dict[str, Any]:
    lists: dict[str, Any] = {name: [] for name in ("images", "volumes", "networks", "containers")}
    return {"program": program, "version": "", "root": root, "driver": "", "trouble": for_people(trouble), **lists}


def _image_of_docker(image: dict[str, Any], *, of_containerd: bool) -> dict[str, Any]:
    digests = image.get("RepoDigests") or []
    able = not of_containerd and any(not _LOCAL.match(one) for one in digests)
    return {
        "id": image.get("Id") or "",
        "names": image.get("RepoTags") or [],
        "digests": digests,
        "comes_back": able,
        "why": "" if able else NOT_TOLD if of_containerd and digests else BUILT_HERE,
    }


def _volume(volume: dict[str, Any], places: Places) -> dict[str, Any]:
    place = volume.get("Mountpoint") or ""
    options = {name: commands.shown_options(str(value)) for name, value in (volume.get("Options") or {}).items()}
    return {
        "name": volume.get("Name") or "",
        "driver": volume.get("Driver") or "",
        "mountpoint": place,
        "options": options,
        "on_root_disk": bool(place) and places.on_root_disk(place),
    }


def _network(network: dict[str, Any]) -> dict[str, Any]:
    ranges = (network.get("IPAM") or {}).get("Config") or []
    return {
        "name": network.get("Name") or "",
        "driver": network.get("Driver") or "",
        "subnets": [one["Subnet"] for one in ranges if one.get("Subnet")],
    }


def _container_of_docker(one: dict[str, Any]) -> dict[str, Any]:
    config, host = one.get("Config") or {}, one.get("HostConfig") or {}
    labels = config.get("Labels") or {}
    requests = [request for request in host.get("DeviceRequests") or () if "gpu" in json.dumps(request)]
    files = labels.get(f"{COMPOSE}.config_files") or ""
    compose = {
        "project": labels.get(COMPOSE) or "",
        "directory": labels.get(f"{COMPOSE}.working_dir") or "",
        "files": [file for file in files.split(",") if file],
    }
    return {
        "name": (one.get("Name") or "").lstrip("/"),
        "image": config.get("Image") or "",
        "running": bool((one.get("State") or {}).get("Running")),
        "command": _shown([*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]),
        "environment": _names(config.get("Env") or ()),
        "mounts": [
            {
                "source": mount.get("Name") or mount.get("Source") or "",
                "destination": mount.get("Destination") or "",
                "read_only": not mount.get("RW", True),
            }
            for mount in one.get("Mounts") or ()
        ],
        "ports": [
            f"{where.get('HostIp') or ''}:{where.get('HostPort') or ''}:{port}".lstrip(":")
            for port, bound in (host.get("PortBindings") or {}).items()
            for where in bound or ()
        ],
        "restart": (host.get("RestartPolicy") or {}).get("Name") or "",
        "network": host.get("NetworkMode") or "",
        "runtime": host.get("Runtime") or "",
        "gpus": [request.get("DeviceIDs") or request.get("Count") for request in requests],
        "privileged": bool(host.get("Privileged")),
        "user": config.get("User") or "",
        "compose": compose if compose["project"] else None,
    }


def _names(environment: Iterable[str]) -> list[str]:
    return sorted({one.partition("=")[0] for one in environment})


def _shown(words: Iterable[Any]) -> str:
    return commands.shown(" ".join(shlex.quote(str(word)) for word in words))


def _podman(node: Node, places: Places) -> Iterator[tuple[dict[str, Any], _Storage]]:
    texts = "\n".join(node.text(path) for path in STORAGE_CONF)
    configured = _GRAPH_ROOT.search(texts)
    root = configured[1].rstrip("/") if configured else PODMAN_ROOT
    names = node.names(root)
    driver = next((name[: -len("-images")] for name in names if name.endswith("-images")), "")
    if not driver:
        return
    images, layers, containers = (_json(node, f"{root}/{driver}-{kind}/{kind}.json") for kind in _KINDS)
    by_id = {str(one.get("id")): one for one in layers}
    engine, able, brought = _engine(PODMAN, root), set(), set()
    for one in images:
        chain = list(_chain(str(one.get("layer") or ""), by_id))
        named = [name for name in one.get("names") or () if not _LOCAL.match(name)]
        comes_back = bool(named) and bool(chain) and all(_came_compressed(by_id[layer]) for layer in chain)
        if comes_back:
            able.add(str(one.get("id")))
            brought.update(chain)
        digest = one.get("digest") or ""
        engine["images"].append(
            {
                "id": one.get("id") or "",
                "names": [name for name in one.get("names") or () if "@" not in name],
                "digests": sorted({f"{_repository(name)}@{digest}" for name in one.get("names") or ()})
                if digest
                else [],
                "comes_back": comes_back,
                "why": "" if comes_back else BUILT_HERE,
            }
        )
    engine["driver"] = driver
    volumes = [name for name in node.names(f"{root}/volumes") if node.is_dir(f"{root}/volumes/{name}/_data")]
    engine["volumes"] = [
        _volume({"Name": name, "Driver": "local", "Mountpoint": f"{root}/volumes/{name}/_data"}, places)
        for name in volumes
    ]
    engine["containers"] = [_container_of_podman(node, root, driver, one) for one in containers]
    yield engine, _Storage(PODMAN, root, frozenset(brought), frozenset(able))


_KINDS = ("images", "layers", "containers")


def _json(node: Node, path: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(node.text(path) or "[]")
    except (ValueError, RecursionError):
        return []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _chain(layer: str, layers: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield a layer and those below it; nothing where one of them is missing, or is below itself."""
    found: list[str] = []
    while layer:
        if layer not in layers or layer in found:
            return
        found.append(layer)
        layer = str(layers[layer].get("parent") or "")
    yield from found


def _came_compressed(layer: dict[str, Any]) -> bool:
    digest = layer.get("compressed-diff-digest")
    return bool(digest) and digest != layer.get("diff-digest")


def _repository(name: str) -> str:
    directory, base = posixpath.split(name.partition("@")[0])  # one that was pulled by its digest has that as a name
    return posixpath.join(directory, base.partition(":")[0])


def _container_of_podman(node: Node, root: str, driver: str, one: dict[str, Any]) -> dict[str, Any]:
    """Return a container; what it runs is known once it was started, from the specification that it was run with."""
    try:
        metadata = json.loads(one.get("metadata") or "{}")
        path = f"{root}/{driver}-containers/{one.get('id')}/userdata/config.json"
        specification = json.loads(node.text(path) or "{}")
    except (ValueError, RecursionError):
        metadata, specification = {}, {}
    process = specification.get("process") or {}
    unknown = dict.fromkeys(
        ("running", "ports", "restart", "network", "runtime", "gpus", "privileged", "user", "compose")
    )
    return {
        **unknown,
        "name": next(iter(one.get("names") or ()), ""),
        "image": metadata.get("image-name") or "",
        "command": _shown(process.get("args") or ()),
        "environment": _names(process.get("env") or ()),
        "mounts": [
            {
                "source": mount.get("source") or "",
                "destination": mount.get("destination") or "",
                "read_only": "ro" in (mount.get("options") or ()),
            }
            for mount in specification.get("mounts") or ()
            if mount.get("type") == "bind"
        ],
    }
