# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The images of a capture, by digest from their registries. No I/O happens here but in what runs the commands.

Containers, volumes and images that were built on the node do not come back; they are named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.engines import (
    Container,
    ContainerNetwork,
    Volume,
)
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.software_asked import Pull

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.engines import Engine, Image

SECTION = "containers"
Named = TypeVar("Named", Container, ContainerNetwork, Volume)


def plan(engines: list[Engine], now: dict[str, Engine]) -> tuple[list[Pull], list[dict[str, str]]]:
    """Return the images to pull, and what does not come back: engines are those of the capture, now those of the node.

    now has them by program.
    """
    pulls: list[Pull] = []
    missing: list[dict[str, str]] = []
    for engine in engines:
        here = now.get(engine.program)
        if here is None or here.trouble:
            missing += _without(engine, here.trouble if here else "it is not on the node")
        else:
            pulls += _pulls(engine, here)
            missing += _own(engine, here)
    return pulls, missing


def _images(engine: Engine) -> list[Image]:
    return [one for one in engine.images if one.comes_back and one.digests]


def _without(engine: Engine, why: str) -> Iterator[dict[str, str]]:
    if _images(engine) or engine.containers or engine.volumes:
        yield _missing(engine.program, f"{why}; {_count(engine)} did not come back")


def _pulls(engine: Engine, here: Engine) -> Iterator[Pull]:
    present = {digest: one.names for one in here.images for digest in one.digests}
    for image in _images(engine):
        digest = next((one for one in image.digests if one in present), image.digests[0])
        lacking = [name for name in image.names if name not in present.get(digest, ())]
        if digest not in present or lacking:
            yield Pull(engine.program, digest, lacking, digest in present)


def commands(pull: Pull) -> list[list[str]]:
    """Return the commands that bring an image and give it its names."""
    first = [] if pull.present else [[pull.program, "pull", "--quiet", pull.digest]]
    return [*first, *([pull.program, "tag", pull.digest, name] for name in pull.names)]


def failed(pull: Pull, line: str) -> dict[str, str]:
    """Return what did not come back of an image."""
    return _missing(called(pull), line or "it cannot be pulled")


def called(pull: Pull) -> str:
    """Return what people call an image."""
    return ", ".join(pull.names) or pull.digest


def _own(engine: Engine, here: Engine) -> Iterator[dict[str, str]]:
    """Yield what no registry has, as far as nobody made it again."""
    names = {name for one in here.images for name in one.names}
    for image in engine.images:
        if not image.comes_back and (not image.names or not names.issuperset(image.names)):
            yield _missing(f"image {', '.join(image.names) or image.id}", image.why)
    for volume in _gone(engine.volumes, here.volumes):
        yield _missing(f"volume {volume.name}", "volumes are not captured; its backup has the data")
    for network in _gone(engine.networks, here.networks):
        yield _missing(f"network {network.name}", "networks are not made again: docker network create")
    for container in _gone(engine.containers, here.containers):
        yield _missing(f"container {container.name}", _way_back(container))


def _gone(captured: list[Named], now: list[Named]) -> list[Named]:
    names = {one.name for one in now}
    return [one for one in captured if one.name not in names]


def _way_back(container: Container) -> str:
    if container.compose:
        return f"start it again in {container.compose.directory}: docker compose up --detach"
    return f"containers are not made again; its image was {container.image}"


def _count(engine: Engine) -> str:
    return f"{len(engine.images)} images, {len(engine.containers)} containers, {len(engine.volumes)} volumes"


def _missing(name: str, why: str) -> dict[str, str]:
    return {"section": SECTION, "name": name, "why": why}
