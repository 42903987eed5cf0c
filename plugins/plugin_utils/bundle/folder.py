# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder that a bundle is made in: its list of SHA-256 and the signature of that list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.bundle.folder import PURPOSE, RECORD, SUMS
from ansible_collections.gpulab.node.plugins.module_utils.core import signatures
from ansible_collections.gpulab.node.plugins.module_utils.core.files import sha256
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORK = ".work"  # what a bundle is made with; it goes when the bundle is whole
TOPS = (
    "apt",
    "evidence",
    "files",
    "keys",
    "models",
    "pypi",
    "sbom.cdx.json",
    RECORD,
)  # what a bundle writes, beside the list


def check_is_bundle(directory: Path) -> None:
    """Raise Refusal B001 unless the folder is missing, empty, or one with a bundle, which may not be whole yet."""
    there = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    if directory.exists() and not directory.is_dir():
        raise refuse("B001", path=directory, name="a file")
    if there and not {SUMS, RECORD, WORK} & {*there}:
        raise refuse("B001", path=directory, name=there[0])


def listed(directory: Path) -> Iterator[str]:
    """Yield the paths in the folder of all files that a bundle has of its own, in order."""
    for top in TOPS:
        place = directory / top
        paths = sorted(place.rglob("*")) if place.is_dir() and not place.is_symlink() else [place]
        yield from (path.relative_to(directory).as_posix() for path in paths if path.is_file())


def write_sums(directory: Path) -> None:
    """Write the list of all files."""
    lines = [f"{sha256(directory / name)}  {name}\n" for name in listed(directory)]
    (directory / SUMS).write_text("".join(lines), encoding="utf-8")


def sign(directory: Path, key: Path) -> None:
    """Sign the list with a key of OpenSSH. Raises Refusal B021."""
    try:
        signatures.sign(directory / SUMS, key, PURPOSE)
    except signatures.NotSigned as error:
        raise refuse("B021", what=directory / SUMS, detail=error, keys=key.parent) from error
