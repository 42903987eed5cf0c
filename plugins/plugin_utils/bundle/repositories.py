# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The repositories of a bundle: indexes that have what is in the bundle and nothing else, signed by a key of the lab.

Each lies where its address says, as apt/deb.debian.org/debian. Records are copied as the source had them, but for where
their file is. An index has no date at which it ends: how old a bundle is, its own record says.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.fetching import File

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_sources import Source
    from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.apt_root import Package, Root
    from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.keys import Keys

POOL = "pool"
_KEPT = ("Origin", "Label", "Suite", "Version", "Codename")  # of what a source says of itself; pins go by it
_FILENAME = re.compile(r"^Filename: *(.*)$", re.MULTILINE)


def place(uri: str) -> str:
    """Return where the repository of an address lies in a bundle."""
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2].replace(":", "_") or "local"
    return str(PurePosixPath("apt") / host / parts.path.strip("/"))


def file_of(package: Package) -> File:
    """Return the file of a package."""
    name = PurePosixPath(package.field("Filename")).name
    return File(f"{place(package.source[0])}/{POOL}/{name}", package.url, package.size, package.field("SHA256"))


class Repositories:
    """All repositories of a bundle, by what systems have of them."""

    def __init__(self) -> None:
        """Have none."""
        self._records: dict[tuple[str, str], dict[tuple[str, str], dict[str, str]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self._said: dict[tuple[str, str], str] = {}

    def add(self, root: Root, packages: Iterable[Package]) -> None:
        """Add what a system has: each of its sources, even where nothing comes from it, and these packages."""
        architecture = root.system.architectures[0]
        for source in root.system.sources:
            key = (source.uri.rstrip("/"), source.suite)
            for component in source.components or ("",):
                self._records[key][component, architecture]  # makes an empty index
            release = root.release(source)
            self._said[key] = release.read_text(encoding="utf-8", errors="replace") if release else ""
        for package in packages:
            filename = f"{POOL}/{PurePosixPath(package.field('Filename')).name}"  # no backslash: dpkg has none
            record = _FILENAME.sub(f"Filename: {filename}", package.record)
            self._records[package.source][package.component, architecture][package.label] = record

    def write(self, directory: Path, keys: Keys, made: datetime) -> None:
        """Write and sign all indexes, and keep beside what the sources said of themselves. Raises Refusal B021."""
        signed = {}
        for key, indexes in sorted(self._records.items()):
            uri, suite = key
            top = directory / place(uri) / ("" if suite.endswith("/") else f"dists/{suite}")
            top.mkdir(parents=True, exist_ok=True)
            sums = []
            for (component, architecture), records in sorted(indexes.items()):
                name = f"{component}/binary-{architecture}/Packages" if component else "Packages"
                data = "".join(f"{record}\n\n" for _label, record in sorted(records.items())).encode()
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).write_bytes(data)
                sums.append(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n")
            text = _release(_said(self._said[key], uri), sorted(indexes), sums, made)
            (top / "Release").write_text(text, encoding="utf-8")
            signed[top / "Release"] = top / "InRelease"
            kept = directory / "evidence" / place(uri) / suite.strip("/") / "InRelease"
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(self._said[key], encoding="utf-8")
        keys.clear_sign(signed)


def known_by(said: str, uri: str) -> str:
    """Return by what preferences(5) knows a repository of a bundle, whose source says this of itself."""
    fields = _said(said, uri)
    known = ((letter, fields.get(name, "")) for letter, name in (("o", "Origin"), ("l", "Label")))
    return ",".join(f"{letter}={value.replace(',', '?')}" for letter, value in known if value)  # a comma would end it


def address(bundle: str, source: Source) -> str:
    """Return the address of a source in a bundle that lies at an address."""
    return f"{bundle.rstrip('/')}/{place(source.uri)}"


def _said(said: str, uri: str) -> dict[str, str]:
    """Return what a source says of itself and a bundle says, too; one that says nothing is called by its host."""
    found = {name: re.search(rf"^{name}: *(.*)$", said, re.MULTILINE) for name in _KEPT}
    fields = {name: match[1].strip() for name, match in found.items() if match and match[1].strip()}
    return fields if {"Origin", "Label"} & {*fields} else {**fields, "Label": PurePosixPath(place(uri)).parts[1]}


def _release(fields: dict[str, str], indexes: list[tuple[str, str]], sums: list[str], made: datetime) -> str:
    fields["Date"] = f"{made:%a, %d %b %Y %H:%M:%S} UTC"
    fields["Architectures"] = " ".join(sorted({architecture for _component, architecture in indexes}))
    components = " ".join(sorted({component for component, _architecture in indexes if component}))
    fields |= {"Components": components} if components else {}
    return "".join(f"{name}: {value}\n" for name, value in fields.items()) + "SHA256:\n" + "".join(sums)
