# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof of a bundle: with it alone, APT and uv find all that a host gets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle import repositories, wheels
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.apt_root import AptError, Root, System
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.apt_root import Wanted
    from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.hosts import Host

_KEY = "/bundle.asc"


def prove_packages(host: Host, root: Root) -> None:
    """Let a root, whose sources are the bundle's, resolve all that a host gets from nothing. Raises Refusal B012."""
    try:
        root.update()
    except AptError as error:
        raise refuse("B012", host=host.name, what="the indexes", detail=error) from error
    for wanted in host.transactions:
        problem = _problem(root, wanted)
        if problem:
            raise refuse("B012", host=host.name, what=" ".join(wanted.wishes.present), detail=problem)


def _problem(root: Root, wanted: Wanted) -> str:
    try:
        places = [Path(urlsplit(url).path) for url in root.resolve(wanted)]
    except AptError as error:
        return str(error)
    return next((f"{path.name} is missing" for path in places if not path.is_file()), "")


def prove_environment(directory: Path, asked: wheels.Asked, lock: str, uv: wheels.Uv | None) -> None:
    """Let uv find the wheels of a lock in the bundle. Raises Refusal B012."""
    build = (asked.wanted.index or "").rstrip("/").rpartition("/")[2]
    own = directory / wheels.BUILDS / build
    wanted = replace(asked.wanted, index=own.absolute().as_uri() if build and own.is_dir() else None)
    index = (directory / wheels.INDEX).absolute().as_uri()
    closed = {"UV_DEFAULT_INDEX": index, "UV_FIND_LINKS": "", "UV_INDEX": "", "UV_NO_CACHE": "1"}
    try:
        if uv:
            uv.wheels(replace(asked, wanted=wanted, settings=closed), lock)
    except Refusal as refusal:
        what = f"the environment {wanted.name}"
        raise refuse("B012", host=asked.host, what=what, detail=refusal.cause) from refusal


def system(host: Host, directory: Path, key: bytes, root: Root) -> System:
    """Return a host's system with all sources in the bundle, by priorities that go by what these say of themselves.

    root is that of the host, with the sources as they are elsewhere: in a folder, they have no host to go by.
    """
    bundle, sources, preferences = directory.absolute().as_uri(), [], host.system.preferences
    for source in host.system.sources:
        options = tuple((name, value) for name, value in source.options if name != "Signed-By")
        address = repositories.address(bundle, source)
        sources.append(replace(source, uri=address, options=(*options, ("Signed-By", _KEY))))
    for repository in host.repositories:
        said = next((root.release(source) for source in host.system.sources if source.uri == repository.url), None)
        known_by = repositories.known_by(
            said.read_text(encoding="utf-8", errors="replace") if said else "", repository.url
        )
        preferences = preferences.replace(f"Pin: {repository.pin}", f"Pin: release {known_by}")
    return System(host.system.architectures, tuple(sources), ((_KEY, key),), preferences)
