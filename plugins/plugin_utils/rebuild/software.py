# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a capture tells the node for each part of its software, with the contents of the files that belong to it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.capture import manifest
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.secrets import cipher_of
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import software_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.captures import Capture

_KEPT = ("path", "kind", "mode", "owner", "uid", "group", "gid", "target")


def asked(capture: Capture, work: str, identity: str | None, lacking: list[str]) -> Any:
    """Return what the module restore_software takes for a work; lacking has the names that did not come back so far.

    Raises Refusal R006.
    """
    if work == "begin":
        return {}
    sections = capture.manifest["sections"]
    if work in ("environments", "check_locks"):
        return sorted(sections["environments"], key=lambda one: (one["path"].count("/"), one["path"]))
    if work == "containers":
        return sections["containers"]["engines"]
    items = [item.partition(":") for role in sections["gpulab"]["receipts"].values() for item in role]
    system = capture.manifest["machine"]["system"]
    told = {"release": {name: system.get(name) for name in ("id", "version", "name")}}
    if work == "locks":
        return sections["gpulab"].get("locks", [])
    if work == "packages":
        return {
            **told,
            "lacking": lacking,
            "section": {name: sections[name] for name in ("packages", "manual", "holds")},
            "managed": sorted({name for kind, _colon, name in items if kind == "package"} | _brought(sections)),
            "entries": list(_entries(capture, software_files.of_apt, identity)),
        }
    return {
        **told,
        "capture": capture.path.name,
        "units": sections["units"],
        "states": sections["unit_states"],
        "managed": sorted({name for kind, _colon, name in items if kind in ("unit", "running")}),
        "entries": list(_entries(capture, software_files.of_jobs, identity)),
        "sources": list(_entries(capture, software_files.of_apt, identity)) if work == "jobs" else [],
    }


def _brought(sections: Mapping[str, Any]) -> set[str]:
    """Return the packages that only gpulab's own brought with them: where the roles bring these, they come as well.

    Brought by the rebuild instead, they would count as the node's, and stay when gpulab's are removed.
    """
    return set(sections["gpulab"].get("brought", ())) - set(sections["manual"] or ())


def _entries(
    capture: Capture, chosen: Callable[[Mapping[str, Any]], bool], identity: str | None
) -> Iterator[dict[str, Any]]:
    """Yield captured files as software_entries.py takes them."""
    entries = [one for one in capture.manifest["files"] if chosen(one)]
    secret = any(one.get("secret") for one in entries)
    cipher = cipher_of(capture.manifest["host"], capture.archive.name, identity)
    secrets = capture.secrets(cipher) if secret else {}
    for one in entries:
        kept = {name: one[name] for name in _KEPT if name in one}
        if one["kind"] == manifest.FILE:
            content = secrets[one["path"]] if one.get("secret") else capture.data(one["path"])
            kept["data"] = base64.b64encode(content).decode("ascii")
        yield kept
