# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A vendor's APT repository: what its files hold, and who else on the node declares it. No I/O happens here.

See sources.list(5) and apt_preferences(5).
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable
from urllib.parse import urlsplit

from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.packages import refuse
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt_sources, openpgp

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_sources import Source

HEADER = "# Written by gpulab; changes made by hand are lost.\n"
WANTED, UNWANTED = 600, 100  # above the distribution's 500; below it, and not above what is installed
_EVERY_PACKAGE = re.compile(r"^Package:[ \t]*\*[ \t]*$", re.MULTILINE | re.IGNORECASE)
# What vendors call systems in the addresses of their repositories: debian12, ubuntu2404, ubuntu22.04, rhel9, debian
_SYSTEM = re.compile(r"(?:almalinux|amzn|azl|centos|cm|debian|fedora|kylin|opensuse|rhel|rocky|sles|ubuntu)[\d.]*")
_FINGERPRINT = re.compile(r"(?:[0-9A-F]{40}|[0-9A-F]{64})(?=!?\Z)", re.IGNORECASE)


def key_path(name: str) -> str:
    """Return where the key of a repository is."""
    return f"/etc/apt/keyrings/gpulab-{name}.asc"


@dataclass(frozen=True)
class Repository:
    """A repository as it is wanted. suite ends with "/" in a flat one, which has no components.

    fingerprint is that of the one key that signs it; packages are names and globs of what comes from here even though
    the distribution has it too. release is what it says of itself in a bundle, as preferences(5) has it ("o=NVIDIA"):
    the bundle declares it, and priorities go by that, since all of a bundle has one host. It is empty elsewhere.
    """

    name: str
    url: str
    suite: str
    components: tuple[str, ...]
    fingerprint: str
    packages: tuple[str, ...]
    release: str = ""

    @property
    def host(self) -> str:
        """Return the host that serves it."""
        return urlsplit(self.url).hostname or ""

    @property
    def key_path(self) -> str:
        """Return the path of its key."""
        return key_path(self.name)

    @property
    def sources_path(self) -> str:
        """Return the path of the file that declares it."""
        return f"/etc/apt/sources.list.d/gpulab-{self.name}.sources"

    @property
    def preferences_path(self) -> str:
        """Return the path of its priorities.

        The first record that names a package decides, in the order of the file names, and a package that holds a
        version, such as nvidia-driver-pinning, brings a file of its own: ours comes last. APT passes over names with
        any other extension.
        """
        return f"/etc/apt/preferences.d/zz-gpulab-{self.name}.pref"

    def sources(self) -> str:
        """Return the file that declares it, in deb822 form."""
        fields = {
            "Types": "deb",
            "URIs": self.url,
            "Suites": self.suite,
            "Components": " ".join(self.components),
            "Signed-By": self.key_path,
        }
        return HEADER + "".join(f"{name}: {value}\n" for name, value in fields.items() if value)

    def preferences(self, others: str) -> str:
        """Return the priorities: the packages before the distribution's, what else it has too after the distribution's.

        others are all other preferences of the node. A record for "*" among them, such as cuda-keyring brings, would
        come first, and may outlive what it came with; a pattern overrules it, at some cost for every apt command.
        """
        records = [(" ".join(self.packages), WANTED)] if self.packages else []
        records.append(("?*" if _EVERY_PACKAGE.search(others) else "*", UNWANTED))
        return HEADER + "\n".join(
            f"Package: {names}\nPin: {self.pin}\nPin-Priority: {priority}\n" for names, priority in records
        )

    @property
    def pin(self) -> str:
        """Return by what its packages are known."""
        return f"release {self.release}" if self.release else f'origin "{self.host}"'

    def declared_elsewhere(self, sources: list[Source], read: Callable[[str], bytes]) -> str | None:
        """Return the file of somebody else that declares the repository already; None where there is none.

        sources are the sources that gpulab does not write, read returns the bytes of a keyring. Raises Refusal H062
        where that file does not tie the repository to the pinned key: two declarations with different keys stop apt.
        """
        for source in sources:
            if (source.uri.rstrip("/"), source.suite) != (self.url.rstrip("/"), self.suite):
                continue
            allowed = signers(source.signed_by, read)
            if self.fingerprint not in allowed:
                found = ", ".join(sorted(allowed)) or "any key that the node trusts"
                raise refuse("H062", file=source.file, url=self.url, found=found, pinned=self.fingerprint)
            return source.file
        return None

    def check_host(self, sources: list[Source]) -> None:
        """Raise Refusal for what the host serves beside it, since priorities go by host.

        H063: the distribution, which would fall behind with the rest. H210: the same vendor's packages for another
        release, which would rise with it.
        """
        for source in apt_sources.distribution(sources):
            if urlsplit(source.uri).hostname == self.host:
                raise refuse("H063", host=self.host, other=source.uri, file=source.file, name=self.name)
        for source in sources:
            if self._is_for_another_release(source):
                other = f"{source.uri} {source.suite}".removesuffix(" /")
                raise refuse("H210", file=source.file, other=other, name=self.name, url=self.url)

    def _is_for_another_release(self, source: Source) -> bool:
        """Tell whether a source is this repository but for the system in its address, or for its suite."""
        own, other = urlsplit(self.url), urlsplit(source.uri)
        ours, theirs = _parts(own.path), _parts(other.path)
        if other.hostname != own.hostname or len(ours) != len(theirs):
            return False
        differing = [name for pair in zip(ours, theirs) if pair[0] != pair[1] for name in pair]
        another_suite = source.suite != self.suite and not {source.suite[-1:], self.suite[-1:]} & {"/"}
        return all(map(_SYSTEM.fullmatch, differing)) and (bool(differing) or another_suite)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def proxy_question(url: str) -> list[str]:
    """Return the command that asks for APT's proxy for a URL; its output is read by proxy_environment."""
    parts = urlsplit(url)
    keys = [f"{scheme}::Proxy" for scheme in (f"{parts.scheme}", "http")]
    keys.insert(0, f"{parts.scheme}::Proxy::{parts.hostname}")
    return ["apt-config", "shell", *(word for key in keys for word in ("PROXY", f"Acquire::{key}"))]


def proxy_environment(answer: str, url: str) -> dict[str, str]:
    """Return the environment variables that make a download take APT's proxy; none where APT names none."""
    parts = urlsplit(url)
    proxies = [word.partition("=")[2] for word in shlex.split(answer)]
    if not proxies:
        return {}
    if proxies[0].upper() == "DIRECT":
        return {"no_proxy": parts.hostname or ""}
    return {f"{parts.scheme}_proxy": proxies[0]}


def signers(signed_by: str, read: Callable[[str], bytes]) -> set[str]:
    """Return the fingerprints that a Signed-By allows; none where it is missing or names what cannot be read.

    It is a list of keyrings and fingerprints, or in deb822 form the armored key itself.
    """
    if "-----BEGIN PGP" in signed_by:
        return _fingerprints(signed_by.replace("\n.\n", "\n\n").encode())
    found: set[str] = set()
    for word in re.split(r"[\s,]+", signed_by):
        match = _FINGERPRINT.match(word)
        found |= {match[0].upper()} if match else _fingerprints(read(word)) if word.startswith("/") else set()
    return found


def _fingerprints(key: bytes) -> set[str]:
    try:
        return set(openpgp.fingerprints(key))
    except ValueError:
        return set()
