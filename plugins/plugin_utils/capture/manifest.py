# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest of a capture: what a node held, and each captured file with its rights and SHA-256.

Paths are absolute. Bytes that are not UTF-8 are lone surrogates in them (surrogateescape), and the JSON is ASCII.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.accounts import Accounts
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.disks import Disks
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.engines import Containers
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.environments import Environment
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import (
    DIRECTORY,
    FILE,
    LINK,
    Acknowledged,
    Count,
    Deleted,
    Entry,
    Remainder,
)
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.gpulab import Gpulab
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.jobs import Jobs
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.machine import Machine
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.software import Software
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.system import System
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = 1
_FORMS = {"mode": r"[0-7]{4}", "sha256": r"[0-9a-f]{64}", "kind": f"{FILE}|{LINK}|{DIRECTORY}"}
_LATER: dict[str, dict[str, Any]] = {  # what sections have only since a later version, or on a node that was proven
    "baseline": {"results": []},
    "boot": {"sbat_level": None},
    "gpulab": {"locks": [], "brought": []},
}


@dataclass(frozen=True)
class Finding:
    """A result of the last proof."""

    id: str
    severity: str


@dataclass(frozen=True)
class Baseline:
    """The last proof of the node before the capture; no results where there was none."""

    results: list[Finding]


@dataclass(frozen=True)
class Sections(System, Accounts, Jobs, Software):
    """What a node held, beside its files."""

    disks: Disks
    environments: list[Environment]
    containers: Containers
    gpulab: Gpulab
    baseline: Baseline


@dataclass(frozen=True)
class Manifest:
    """The manifest of a capture."""

    schema: int
    gpulab: str
    host: str
    made: str
    seconds: float
    machine: Machine
    sections: Sections
    files: list[Entry]
    bins: dict[str, Count]
    kept: list[Any]
    acknowledged: list[Acknowledged]
    receipts: list[Any]
    remainder: list[Remainder]
    open_deleted: list[Deleted]


def text(document: dict[str, Any]) -> bytes:
    """Return a manifest as JSON."""
    return json.dumps(document, indent=1, sort_keys=True).encode("ascii") + b"\n"


def read(data: bytes, place: Path) -> dict[str, Any]:
    """Return the manifest of the capture at place, as it was written.

    Raises Refusal R006 where it is damaged, R018 for another schema.
    """
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


def typed(document: dict[str, Any]) -> Manifest:
    """Return a manifest that was read as its type."""
    return records.typed(_completed(document), Manifest)


def _completed(document: Any) -> Any:
    """Return a manifest with what is missing in one of an earlier version, or of a node that nobody had proven."""
    with contextlib.suppress(KeyError, TypeError):
        sections = document["sections"]
        completed = {name: {**later, **sections[name]} for name, later in _LATER.items()}
        return {**document, "sections": {**sections, **completed}}
    return document


def faults(manifest: Any) -> Iterator[str]:
    """Yield what is wrong with a manifest of this schema."""
    wrong = list(records.faults(_completed(manifest), Manifest))
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


def _faults_of_entry(entry: Entry) -> Iterator[str]:
    for name, form in _FORMS.items():
        value = str(entry.get(name, ""))
        if name in entry and not re.fullmatch(form, value):
            yield f"has the {name} {value!a}"
    if not is_path(entry["path"]):
        yield f"has the path {entry['path']!a}"
    if ("sha256" in entry) != has_content(entry):
        yield "has a sha256, but no content of its own" if "sha256" in entry else "has no sha256"


def has_content(entry: Entry) -> bool:
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


def secret_paths(files: list[Entry]) -> set[str]:
    """Return the paths of the files whose content only the encrypted archive has."""
    return {one["path"] for one in files if one["kind"] == FILE and one.get("secret", False)}


def encodable(value: Any) -> Any:
    """Return data of a manifest for the result of a task, which has to be UTF-8: other bytes as escapes."""
    if isinstance(value, dict):
        return {encodable(name): encodable(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [encodable(one) for one in value]
    return value.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(value, str) else value
