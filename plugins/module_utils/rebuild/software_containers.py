# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The images of a capture, by digest from their registries. No I/O happens here but in what runs the commands.

Containers, volumes and images that were built on the node do not come back; they are named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SECTION = "containers"


def plan(engines: list[dict[str, Any]], now: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return {pulls, missing}.

    engines are those of the capture; now has each engine of the node by its program, as capture/containers.py reads it.
    pulls are {program, digest, names}: an image to pull, and the names that it had; one that is here only gets its
    names, and its digest is then in present.
    """
    pulls: list[dict[str, Any]] = []
    missing: list[dict[str, str]] = []
    for engine in engines:
        program = engine["program"]
        here = now.get(program)
        images = [one for one in engine["images"] if one["comes_back"] and one["digests"]]
        if here is None or here["trouble"]:
            why = here["trouble"] if here else "it is not on the node"
            if images or engine["containers"] or engine["volumes"]:
                missing.append(_missing(program, f"{why}; {_count(engine)} did not come back"))
            continue
        present = {digest: one for one in here["images"] for digest in one["digests"]}
        for image in images:
            digest = next((one for one in image["digests"] if one in present), image["digests"][0])
            lacking = [name for name in image["names"] if name not in present.get(digest, {"names": ()})["names"]]
            if digest not in present or lacking:
                there = digest in present
                pulls.append({"program": program, "digest": digest, "names": lacking, "present": there})
        missing += _own(engine, here)
    return {"pulls": pulls, "missing": missing}


def commands(pull: dict[str, Any]) -> list[list[str]]:
    """Return the commands that bring an image and give it its names."""
    first = [] if pull["present"] else [[pull["program"], "pull", "--quiet", pull["digest"]]]
    return [*first, *([pull["program"], "tag", pull["digest"], name] for name in pull["names"])]


def failed(pull: dict[str, Any], line: str) -> dict[str, str]:
    """Return what did not come back of an image."""
    return _missing(called(pull), line or "it cannot be pulled")


def called(pull: dict[str, Any]) -> str:
    """Return what people call an image."""
    return ", ".join(pull["names"]) or str(pull["digest"])


def _own(engine: dict[str, Any], here: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield what no registry has, as far as nobody made it again."""
    names = {name for one in here["images"] for name in one["names"]}
    for image in engine["images"]:
        if not image["comes_back"]:
            called = ", ".join(name for name in image["names"]) or image["id"]
            if not image["names"] or not names.issuperset(image["names"]):
                yield _missing(f"image {called}", image["why"])
    for kind in ("volumes", "networks", "containers"):
        known = {one["name"] for one in here[kind]}
        for one in engine[kind]:
            if one["name"] not in known:
                yield _missing(f"{kind[:-1]} {one['name']}", _why(kind, one))


def _why(kind: str, one: dict[str, Any]) -> str:
    if kind == "volumes":
        return "volumes are not captured; its backup has the data"
    if kind == "networks":
        return "networks are not made again: docker network create"
    compose = one.get("compose")
    if compose:
        return f"start it again in {compose['directory']}: docker compose up --detach"
    return f"containers are not made again; its image was {one['image']}"


def _count(engine: dict[str, Any]) -> str:
    return f"{len(engine['images'])} images, {len(engine['containers'])} containers, {len(engine['volumes'])} volumes"


def _missing(name: str, why: str) -> dict[str, str]:
    return {"section": SECTION, "name": name, "why": why}
