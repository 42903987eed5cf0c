# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a capture tells the node for each part of its software, with the contents of the files that belong to it."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import FILE
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.secrets import cipher_of
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import software_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import Entry
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.captures import Capture
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import Sections

_KEPT = ("path", "kind", "mode", "owner", "uid", "group", "gid", "target")


def asked(capture: Capture, work: str, identity: str | None, lacking: list[str]) -> Any:
    """Return what the module restore_software takes for a work; lacking has the names that did not come back so far.

    Raises Refusal R006.
    """
    if work == "begin":
        return {}
    sections, release = capture.manifest.sections, asdict(capture.manifest.machine.system)
    if work in ("environments", "check_locks"):
        found = sorted(sections.environments, key=lambda one: (one.path.count("/"), one.path))
        return list(map(asdict, found))
    if work == "containers":
        return [asdict(one) for one in sections.containers.engines]
    items = [item.partition(":") for role in sections.gpulab.receipts.values() for item in role]
    if work == "locks":
        return [asdict(one) for one in sections.gpulab.locks]
    if work == "packages":
        packages = None if sections.packages is None else list(map(asdict, sections.packages))
        return {
            "release": release,
            "lacking": lacking,
            "section": {"packages": packages, "manual": sections.manual, "holds": sections.holds},
            "managed": sorted({name for kind, _colon, name in items if kind == "package"} | _brought(sections)),
            "entries": list(_entries(capture, software_files.of_apt, identity)),
        }
    return {
        "release": release,
        "capture": capture.path.name,
        "units": list(map(asdict, sections.units)),
        "states": sections.unit_states,
        "managed": sorted({name for kind, _colon, name in items if kind in ("unit", "running")}),
        "entries": list(_entries(capture, software_files.of_jobs, identity)),
        "sources": list(_entries(capture, software_files.of_apt, identity)) if work == "jobs" else [],
    }


def _brought(sections: Sections) -> set[str]:
    """Return the packages that only gpulab's own brought with them: where the roles bring these, they come as well.

    Brought by the rebuild instead, they would count as the node's, and stay when gpulab's are removed.
    """
    return set(sections.gpulab.brought) - set(sections.manual or ())


def _entries(capture: Capture, chosen: Callable[[Entry], bool], identity: str | None) -> Iterator[dict[str, Any]]:
    """Yield captured files as software_entries.py takes them."""
    entries = [one for one in capture.manifest.files if chosen(one)]
    secret = any(one.get("secret") for one in entries)
    cipher = cipher_of(capture.manifest.host, capture.archive.name, identity)
    secrets = capture.secrets(cipher) if secret else {}
    for one in entries:
        kept: dict[str, Any] = {name: value for name, value in one.items() if name in _KEPT}
        if one["kind"] == FILE:
            content = secrets[one["path"]] if one.get("secret") else capture.data(one["path"])
            kept["data"] = base64.b64encode(content).decode("ascii")
        yield kept
