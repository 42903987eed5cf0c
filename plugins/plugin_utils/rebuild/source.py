# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each work of a rebuild takes from a capture: the entries of the manifest, and the contents of their files."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cached_property
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.accounts import Accounts
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import FILE
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.asked import (
    Asked,
    Judged,
    Part,
    WithAccounts,
    WithDisks,
    WithNetwork,
)
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.files import PAM, modules_of_pam
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import captures
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import rebuild_state as state
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import works

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import Entry
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.captures import Capture
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.secrets import Cipher

AT_ONCE = 8 << 20  # bytes of contents in one question
SEARCHED, LARGEST = ("/etc/", "/boot/", "/usr/local/"), 1 << 20  # files in which UUIDs are looked for, and their size
MAPPED = "dm-name-"  # how udev begins the name of a mapped device below /dev/disk/by-id
SHORTEST = 9  # characters of a UUID: that of a FAT


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

    def content(self, entry: Entry) -> bytes:
        """Return the content of a file. Raises Refusal R006 where it is not there."""
        if entry.get("secret"):
            return self.secrets[entry["path"]]
        return self.capture.data(entry["path"])

    def entries(self, work: str) -> list[Judged]:
        """Return what the manifest says of the paths of a work."""
        wanted = works.Works(self.capture.manifest.sections.disks)
        return [{**entry} for entry in self.capture.manifest.files if wanted.of(entry) == work]

    def asked(self, work: str, user: str, minutes: int) -> Asked:
        """Return what the module gets for a work: of files what it needs to judge them, of others the contents, too."""
        manifest, entries, contents = self.capture.manifest, self.entries(work), {}
        if work == works.FILES:
            entries = [self._judged(entry) for entry in entries]
        else:
            with_content = [entry for entry in entries if entry["kind"] == FILE]
            contents = {entry["path"]: base64.b64encode(self.content(entry)).decode("ascii") for entry in with_content}
        asked = Asked(self.capture.path.name, manifest.host, manifest.machine, user, minutes, entries, contents)
        sections = manifest.sections
        if work in ("accounts", "identity"):
            accounts = Accounts(sections.users, sections.groups, sections.unnamed, sections.directory)
            return WithAccounts(**vars(asked), accounts=accounts)
        if work == "storage":
            return WithDisks(**vars(asked), disks=sections.disks)
        return WithNetwork(**vars(asked), network=sections.network) if work == "network" else asked

    def _judged(self, entry: Entry) -> Judged:
        """Return an entry with the digest of its content, and with what its content says about its place."""
        found: Judged = {**entry}
        path, package = entry["path"], entry.get("package", "")
        if path in works.BY_HAND:
            found["why"] = works.BY_HAND[path]
        if package in self._versions:
            found["version"] = self._versions[package]
        if entry["kind"] != FILE:
            return found
        if entry.get("secret") or (path.startswith(SEARCHED) and entry["size"] <= LARGEST):
            content = self.content(entry)
            found["sha256"] = hashlib.sha256(content).hexdigest()
            text = content.decode("utf-8", "replace")
            found["names"] = [name for name, pattern in self._names.items() if pattern.search(text)]
            if path.startswith(PAM):
                found["modules"] = sorted(modules_of_pam(text))
        return found

    @cached_property
    def _names(self) -> dict[str, re.Pattern[str]]:
        """What names something of the former system disk, each with how a file does: UUIDs, and mapped devices."""
        wiped = [device for disk in self.capture.manifest.sections.disks.disks if disk.root for device in disk.whole()]
        uuids = {uuid.lower() for device in wiped for uuid in (device.uuid, device.part_uuid)}
        mapped = {name[len(MAPPED) :] for device in wiped for name in device.names if name.startswith(MAPPED)}
        patterns = {uuid: re.escape(uuid) for uuid in sorted(uuids) if len(uuid) >= SHORTEST}
        patterns |= {f"/dev/mapper/{name}": _argument(name) for name in sorted(mapped)}
        return {name: re.compile(pattern, re.IGNORECASE) for name, pattern in patterns.items()}

    @cached_property
    def _versions(self) -> dict[str, str]:
        packages = self.capture.manifest.sections.packages or ()
        return {one.name.partition(":")[0]: one.version for one in packages}

    def parts(self, digests: Iterable[str], entries: Iterable[Entry]) -> Iterator[list[Part]]:
        """Yield parts of the contents with these digests, so many at a time as one question carries."""
        by_digest = {entry["sha256"]: entry for entry in entries if "sha256" in entry}
        batch: list[Part] = []
        size = 0
        for digest in digests:
            content = self.content(by_digest[digest])
            for start in range(0, max(len(content), 1), AT_ONCE):
                data = content[start : start + AT_ONCE]
                last = start + AT_ONCE >= len(content)
                encoded = base64.b64encode(data).decode("ascii")
                batch.append(Part(digest, by_digest[digest]["path"], start, encoded, last))
                size += len(data)
                if size >= AT_ONCE:
                    yield batch
                    batch, size = [], 0
        if batch:
            yield batch


def _argument(mapped: str) -> str:
    """Return how an argument of a kernel names a mapped device: root=/dev/mapper/lab-root, rd.lvm.lv=lab/root."""
    volume = re.sub("-(-)?", lambda dash: dash[1] or "/", mapped)
    return rf"=(?:/dev/mapper/{re.escape(mapped)}|(?:/dev/)?{re.escape(volume)})(?![\w/-])"
