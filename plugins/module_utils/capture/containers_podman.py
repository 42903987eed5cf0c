# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Podman: images, volumes and containers, as its storage has them.

Podman is not run, for its first call after a boot writes to its storage; what that says of itself is read (images.json,
layers.json and containers.json of containers/storage). It has digests for all images; layers from a registry have
another digest as they came, compressed. The storage of users' own engines lies in their homes.
"""

from __future__ import annotations

import json
import posixpath
import re
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture.container_storage import (
    BUILT_HERE,
    PODMAN,
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
    Container,
    Engine,
    Image,
    Volume,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.homes import Places
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

ROOT = "/var/lib/containers/storage"
STORAGE_CONF = ("/etc/containers/storage.conf", "/usr/share/containers/storage.conf")
_IMAGES = "-images"
_GRAPH_ROOT = re.compile(r'^\s*graphroot\s*=\s*"([^"]+)"', re.MULTILINE)


def read(node: Node, places: Places) -> tuple[list[Engine], list[Storage]]:
    """Return Podman, where it is there, and what of its storage comes back."""
    configured = _GRAPH_ROOT.search("\n".join(node.text(path) for path in STORAGE_CONF))
    root = configured[1].rstrip("/") if configured else ROOT
    driver = next((name[: -len(_IMAGES)] for name in node.names(root) if name.endswith(_IMAGES)), "")
    if not driver:
        return [], []
    kinds = ("images", "layers", "containers")
    images, layers, containers = (_json(node, f"{root}/{driver}-{kind}/{kind}.json") for kind in kinds)
    by_id = {str(one.get("id")): one for one in layers}
    able = {str(one.get("id")): chain for one in images if (chain := _of_registry(one, by_id))}
    engine = Engine(
        program=PODMAN,
        version="",
        root=root,
        driver=driver,
        trouble="",
        images=[_image(one, comes_back=str(one.get("id")) in able) for one in images],
        volumes=list(_volumes(node, root, places)),
        networks=[],
        containers=[_container(node, root, driver, one) for one in containers],
    )
    brought = frozenset(layer for chain in able.values() for layer in chain)
    return [engine], [Storage(PODMAN, root, brought, frozenset(able))]


def _of_registry(image: dict[str, Any], layers: dict[str, dict[str, Any]]) -> list[str]:
    """Return the layers of an image that comes back: it has a registry's name, and they came compressed; else none."""
    named = any(not is_local(name) for name in listed(image, "names"))
    chain = list(_chain(str(image.get("layer") or ""), layers)) if named else []
    return chain if all(_came_compressed(layers[layer]) for layer in chain) else []


def _image(image: dict[str, Any], *, comes_back: bool) -> Image:
    names, digest = listed(image, "names"), text(image, "digest")
    digests = sorted({f"{_repository(name)}@{digest}" for name in names}) if digest else []
    tags = [name for name in names if "@" not in name]
    return Image(text(image, "id"), tags, digests, comes_back, "" if comes_back else BUILT_HERE)


def _volumes(node: Node, root: str, places: Places) -> Iterator[Volume]:
    for name in node.names(f"{root}/volumes"):
        place = f"{root}/volumes/{name}/_data"
        if node.is_dir(place):
            yield Volume(name, "local", place, {}, places.on_root_disk(place))


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


def _container(node: Node, root: str, driver: str, one: dict[str, Any]) -> Container:
    """Return a container; what it runs is known once it was started, from the specification that it was run with."""
    try:
        metadata = json.loads(one.get("metadata") or "{}")
        path = f"{root}/{driver}-containers/{one.get('id')}/userdata/config.json"
        specification = json.loads(node.text(path) or "{}")
    except (ValueError, RecursionError):
        metadata, specification = {}, {}
    mounts = [mount for mount in listed(specification, "mounts") if mount.get("type") == "bind"]
    return Container(
        name=next(iter(one.get("names") or ()), ""),
        image=text(metadata, "image-name"),
        command=shown(listed(specification, "process", "args")),
        environment=variables(listed(specification, "process", "env")),
        mounts=[
            Bind(text(mount, "source"), text(mount, "destination"), "ro" in (at(mount, "options") or ()))
            for mount in mounts
        ],
    )
