# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an installation is planned from: a capture, the machine as it is now, the inventory, the catalog. No I/O here.

Nothing is known by a name that another boot may give to something else: the machine by its DMI UUID, the disk by its
serial number or WWN and by UUIDs on it, the interfaces by their hardware addresses.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.accounts import User
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import Manifest, Sections

SECURITY = "-security"  # what the suite with updates for security is called
_USUAL_KEYS = ".ssh/authorized_keys .ssh/authorized_keys2"
_MIRROR = re.compile(r"https?://\S+")


@dataclass(frozen=True)
class Installer:
    """What a record of catalog/installers.yml says to the planning.

    architectures have, by the kernel's name of the processor and the kind of firmware, what such a machine starts.
    """

    system: str
    codename: str
    architectures: dict[str, dict[str, Any]]
    least_memory_mib: int
    least_disk_mib: int

    @property
    def distribution(self) -> str:
        """The id of its distribution."""
        return self.system.partition("-")[0]

    def starts_on(self, architecture: str, firmware: str) -> bool:
        """Tell whether it has what such a machine starts."""
        return firmware in self.architectures.get(architecture, {})


@dataclass(frozen=True)
class Wishes:
    """What the inventory says of a reinstall.

    system is one of catalog/installers.yml, None for the one that the node has; mirror an address, None for that of the
    captured sources, and security_mirror that of updates for security. packages come with the new system. network are
    files of systemd-networkd by name, instead of those made of the captured addresses. allow has what the lab gives up.
    """

    system: str | None = None
    mirror: str | None = None
    security_mirror: str | None = None
    packages: tuple[str, ...] = ()
    minutes: int = 15
    network: Mapping[str, str] | None = None
    allow: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """What the machine says now.

    memory is in bytes, None where nobody knows it; user is who Ansible connects as, authorized_keys the text that lets
    them in; server and client are the ends of its connection, empty where nobody knows them.
    """

    dmi_uuid: str
    memory: int | None
    user: str
    authorized_keys: str
    server: str
    client: str


@dataclass(frozen=True)
class Captured:
    """A manifest, and the way to the contents of its files.

    content returns that of a path, None where this run cannot read it (secrets in check mode). name is that of the
    capture, None for one that is not on the disk.
    """

    manifest: Manifest
    content: Callable[[str], bytes | None]
    name: str | None = None

    @cached_property
    def paths(self) -> frozenset[str]:
        """The paths of all files."""
        return frozenset(one["path"] for one in self.manifest.files)

    def data(self, path: str) -> bytes:
        """Return the content of a file; empty where this run cannot read it."""
        return self.content(path) or b""

    def user(self, name: str) -> User | None:
        """Return an account; None for one that is not known."""
        return next((one for one in self.manifest.sections.users if one.name == name), None)

    def authorized_keys(self, name: str) -> list[str]:
        """Return the files with the keys of an account, as sshd reads them; none for an account that is not known."""
        user = self.user(name)
        if user is None:
            return []
        named = self.manifest.sections.ssh.options.get("AuthorizedKeysFile") or [_USUAL_KEYS]
        tokens = {"%%": "%", "%h": user.home, "%u": name}
        words = [word for words in named for word in words.split() if word != "none"]
        filled = [re.sub(r"%[%hu]", lambda match: tokens[match[0]], word) for word in words]
        return [posixpath.join(user.home, path) for path in dict.fromkeys(filled)]


@dataclass(frozen=True)
class Case:
    """All that one installation is planned from; installer is None where there is none for this machine."""

    captured: Captured
    found: Found
    wishes: Wishes
    installer: Installer | None

    @property
    def manifest(self) -> Manifest:
        """The manifest."""
        return self.captured.manifest

    @property
    def sections(self) -> Sections:
        """The sections of the manifest."""
        return self.captured.manifest.sections

    @property
    def hostname(self) -> str:
        """The name that the new system gets."""
        return self.sections.identity.static_hostname or self.sections.identity.hostname

    @property
    def former_system(self) -> str:
        """The name of the node's system as the catalog has it."""
        return system_name(self.manifest)

    def mirror(self, kind: str = "") -> str | None:
        """Return the mirror that the node's own packages come from, where it has those of the new system, too."""
        release = self.manifest.machine.system
        if self.installer is None or self.installer.distribution != release.id:
            return None
        for source in self.sections.sources:
            if source.suite == f"{release.codename}{kind}" and "main" in source.components:
                for uri in source.uris:
                    if _MIRROR.fullmatch(uri) and HIDDEN not in uri:
                        return uri
        return None


def system_name(manifest: Manifest) -> str:
    """Return the name of a node's system as the catalog has it."""
    return f"{manifest.machine.system.id}-{manifest.machine.system.version}"
