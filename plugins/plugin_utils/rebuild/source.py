# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each work of a rebuild takes from a capture: the entries of the manifest, and the contents of their files."""

from __future__ import annotations

import base64
import hashlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.rebuild.files import PAM, modules_of_pam
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import captures
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import manifest as manifests
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import state, works

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.captures import Capture
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.secrets import Cipher

AT_ONCE = 8 << 20  # bytes of contents in one question
SEARCHED, LARGEST = ("/etc/", "/boot/", "/usr/local/"), 1 << 20  # files in which UUIDs are looked for, and their size
SHORTEST = 9  # characters of a UUID: that of a FAT
# The sections of the manifest that a work needs beside its files.
SECTIONS = {
    "accounts": ("users", "groups", "unnamed", "directory"),
    "identity": ("users", "groups"),
    "storage": ("disks",),
    "network": ("network",),
    "files": (),
}


def chosen(of_host: Path, host: str, name: str | None, unsigned: str | None = None) -> Capture:
    """Return the capture with this name; without one, that of a rebuild at work, else the newest.

    Raises Refusal R001, and as captures.read does.
    """
    written = state.read(of_host)
    if name is None and written and not written.reached("proven"):
        name = written.capture
    return captures.named(of_host, host, name, unsigned)


class Source:
    """A capture, and the way to its secrets."""

    def __init__(self, capture: Capture, cipher: Cipher) -> None:
        """Decrypt nothing yet."""
        self.capture = capture
        self._cipher = cipher

    @cached_property
    def secrets(self) -> dict[str, bytes]:
        """The contents of the secret files, by path."""
        return self.capture.secrets(self._cipher)

    def content(self, entry: dict[str, Any]) -> bytes:
        """Return the content of a file. Raises Refusal R006 where it is not there."""
        if entry.get("secret"):
            return self.secrets[entry["path"]]
        return self.capture.data(entry["path"])

    def entries(self, work: str) -> list[dict[str, Any]]:
        """Return what the manifest says of the paths of a work."""
        wanted = works.Works(self.capture.manifest)
        return [entry for entry in self.capture.manifest["files"] if wanted.of(entry) == work]

    def asked(self, work: str) -> dict[str, Any]:
        """Return what the module gets for a work: of files what it needs to judge them, of others the contents, too."""
        entries, manifest = self.entries(work), self.capture.manifest
        asked = {
            "capture": self.capture.path.name,
            "host": manifest["host"],
            "machine": manifest["machine"],
            "sections": {name: manifest["sections"].get(name, {}) for name in SECTIONS[work]},
        }
        if work == works.FILES:
            return {**asked, "entries": [self._judged(entry) for entry in entries]}
        with_content = [entry for entry in entries if entry["kind"] == manifests.FILE]
        contents = {entry["path"]: base64.b64encode(self.content(entry)).decode("ascii") for entry in with_content}
        return {**asked, "entries": entries, "contents": contents}

    def _judged(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Return an entry with the digest of its content, and with what its content says about its place.

        names are UUIDs of the former system disk in it, modules those of PAM that it needs, version is that of its
        package, why says why it has to stay away.
        """
        found = dict(entry)
        path = entry["path"]
        if path in works.BY_HAND:
            found["why"] = works.BY_HAND[path]
        if entry.get("package") in self._versions:
            found["version"] = self._versions[entry["package"]]
        if entry["kind"] != manifests.FILE:
            return found
        if entry.get("secret") or (path.startswith(SEARCHED) and entry["size"] <= LARGEST):
            content = self.content(entry)
            found["sha256"] = hashlib.sha256(content).hexdigest()
            text = content.decode("utf-8", "replace")
            found["names"] = [uuid for uuid in self._uuids if uuid in text.lower()]
            if path.startswith(PAM):
                found["modules"] = sorted(modules_of_pam(text))
        return found

    @cached_property
    def _uuids(self) -> list[str]:
        """The UUIDs of all that the former system disk held."""
        disks = self.capture.manifest["sections"].get("disks", {}).get("disks", ())
        return sorted({uuid for disk in disks if disk["root"] for uuid in _uuids(disk)})

    @cached_property
    def _versions(self) -> dict[str, str]:
        packages = self.capture.manifest["sections"].get("packages") or ()
        return {one["name"].partition(":")[0]: one["version"] for one in packages}

    def parts(self, digests: Iterable[str], entries: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
        """Yield parts of the contents with these digests, so many at a time as one question carries."""
        by_digest = {entry["sha256"]: entry for entry in entries if "sha256" in entry}
        batch: list[dict[str, Any]] = []
        size = 0
        for digest in digests:
            content = self.content(by_digest[digest])
            for start in range(0, max(len(content), 1), AT_ONCE):
                data = content[start : start + AT_ONCE]
                batch.append(
                    {
                        "sha256": digest,
                        "path": by_digest[digest]["path"],
                        "start": start,
                        "data": base64.b64encode(data).decode("ascii"),
                        "last": start + AT_ONCE >= len(content),
                    }
                )
                size += len(data)
                if size >= AT_ONCE:
                    yield batch
                    batch, size = [], 0
        if batch:
            yield batch


def _uuids(device: dict[str, Any]) -> Iterator[str]:
    for uuid in (device["uuid"], device["part_uuid"]):
        if len(uuid) >= SHORTEST:
            yield uuid.lower()
    for each in device["below"]:
        yield from _uuids(each)
