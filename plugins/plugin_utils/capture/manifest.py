# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest of a capture: what a node held, and each captured file with its rights and SHA-256.

Paths are absolute. Bytes that are not UTF-8 are lone surrogates in them (surrogateescape), and the JSON is ASCII.
"""

from __future__ import annotations

import json
import posixpath
import re
from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = 1
FILE, LINK, DIRECTORY = "file", "link", "directory"
_FORMS = {"mode": r"[0-7]{4}", "sha256": r"[0-9a-f]{64}", "kind": f"{FILE}|{LINK}|{DIRECTORY}"}


class _More(TypedDict, total=False):
    sha256: str
    secret: bool
    target: str
    acl: str
    default_acl: str
    capability: str
    immutable: bool
    sparse: bool
    links: int
    identity: str
    section: str
    package: str


class Entry(_More):
    """A file of a capture."""

    path: str
    kind: str
    mode: str
    owner: str | None
    uid: int
    group: str | None
    gid: int
    size: int


class Count(TypedDict):
    """How many files, and how large they are together."""

    files: int
    bytes: int


class Remainder(Count):
    """What nothing brings back."""

    path: str
    owner: str | None
    why: str


class Manifest(TypedDict):
    """The manifest of a capture."""

    schema: int
    gpulab: str
    host: str
    made: str
    seconds: float
    machine: dict[str, Any]
    sections: dict[str, Any]
    files: list[Entry]
    bins: dict[str, Count]
    kept: list[Any]
    acknowledged: list[Any]
    receipts: list[Any]
    remainder: list[Remainder]


def text(manifest: dict[str, Any]) -> bytes:
    """Return a manifest as JSON."""
    return json.dumps(manifest, indent=1, sort_keys=True).encode("ascii") + b"\n"


def read(data: bytes, place: Path) -> dict[str, Any]:
    """Return the manifest of the capture at place. Raises Refusal R006 where it is damaged, R018 for another schema."""
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise refuse("R006", path=place, detail=f"its manifest is not JSON: {error}") from error
    found = manifest.get("schema") if isinstance(manifest, dict) else None
    if type(found) is int and found != SCHEMA:
        way = "Update gpulab" if found > SCHEMA else "Capture the node again"
        raise refuse("R018", path=place, found=found, known=SCHEMA, way=way)
    fault = next(faults(manifest), None)
    if fault:
        raise refuse("R006", path=place, detail=f"its manifest is not valid: {fault}")
    checked: dict[str, Any] = manifest
    return checked


def faults(manifest: Any) -> Iterator[str]:
    """Yield what is wrong with a manifest of this schema."""
    wrong = list(records.faults(manifest, Manifest))
    yield from wrong
    if wrong:
        return
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", manifest["made"]):
        yield f"made is {manifest['made']!a}"
    seen: dict[str, str] = {}
    for number, entry in enumerate(manifest["files"]):
        place, path = f"files[{number}]", entry["path"]
        yield from (f"{place} {detail}" for detail in _faults_of_entry(entry))
        if path in seen:
            yield f"{place} has the path of another file"
        seen[path] = entry["kind"]
    for path in seen:
        if seen.get(posixpath.dirname(path), DIRECTORY) != DIRECTORY:
            yield f"{path!a} is below a file that is no directory"


def _faults_of_entry(entry: dict[str, Any]) -> Iterator[str]:
    for name, form in _FORMS.items():
        if name in entry and not re.fullmatch(form, entry[name]):
            yield f"has the {name} {entry[name]!a}"
    if not is_path(entry["path"]):
        yield f"has the path {entry['path']!a}"
    if ("sha256" in entry) != has_content(entry):
        yield "has a sha256, but no content of its own" if "sha256" in entry else "has no sha256"


def has_content(entry: dict[str, Any]) -> bool:
    """Tell whether the capture holds the content of this file as it is: it is a file, and not secret."""
    return entry["kind"] == FILE and not entry.get("secret", False)


def is_path(path: str) -> bool:
    """Tell whether this is an absolute path in its shortest form that a file system can have."""
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    shortest = "/" + posixpath.normpath(path).lstrip("/")  # normpath leaves two slashes at the beginning
    return path == shortest and path != "/" and "\0" not in path


def secret_paths(manifest: dict[str, Any]) -> set[str]:
    """Return the paths of the files whose content only the encrypted archive has."""
    return {one["path"] for one in manifest["files"] if one["kind"] == FILE and one.get("secret", False)}


def encodable(value: Any) -> Any:
    """Return data of a manifest for the result of a task, which has to be UTF-8: other bytes as escapes."""
    if isinstance(value, dict):
        return {encodable(name): encodable(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [encodable(one) for one in value]
    return value.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(value, str) else value
