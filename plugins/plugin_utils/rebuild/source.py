# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each work of a rebuild takes from a capture: the entries of the manifest, and the contents of their files."""

from __future__ import annotations

import base64
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import captures
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import manifest as manifests
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import state, works

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.captures import Capture
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.secrets import Cipher

# The sections of the manifest that a work needs beside its files.
SECTIONS = {
    "accounts": ("users", "groups", "unnamed", "directory"),
    "identity": ("identity", "ssh"),
    "storage": ("disks",),
    "network": ("network",),
    "files": (),
}


def chosen(of_host: Path, host: str, name: str | None) -> Capture:
    """Return the capture with this name; without one, that of a rebuild at work, else the newest.

    Raises Refusal R001, R006 and R018.
    """
    written = state.read(of_host)
    if name is None and written and not written.reached("proven"):
        name = written.capture
    if name is None:
        found = captures.latest(of_host)
    else:
        found = captures.read(of_host / name) if name in captures.names(of_host) else None
    if found is None:
        raise refuse("R001", host=host, what=f"capture {name}" if name else "capture", path=of_host)
    return found


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
        try:
            return self.capture.content(entry["path"]).read_bytes()
        except OSError as error:
            raise refuse("R006", path=self.capture.path, detail=error.strerror) from error

    def entries(self, work: str) -> list[dict[str, Any]]:
        """Return what the manifest says of the paths of a work."""
        wanted = works.Works(self.capture.manifest)
        return [entry for entry in self.capture.manifest["files"] if wanted.of(entry["path"]) == work]

    def asked(self, work: str) -> dict[str, Any]:
        """Return what the module gets for a work whose files are few and small."""
        entries, manifest = self.entries(work), self.capture.manifest
        return {
            "capture": self.capture.path.name,
            "host": manifest["host"],
            "machine": manifest["machine"],
            "sections": {name: manifest["sections"].get(name, {}) for name in SECTIONS[work]},
            "entries": entries,
            "contents": {
                entry["path"]: base64.b64encode(self.content(entry)).decode("ascii")
                for entry in entries
                if entry["kind"] == manifests.FILE
            },
        }
