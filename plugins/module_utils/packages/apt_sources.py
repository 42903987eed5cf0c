# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""APT sources as data: which repositories a node reads, and which components they lack. No I/O happens here.

Both forms are read: one-line (``sources.list``) and deb822 (``*.sources``); see sources.list(5).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from ansible_collections.gpulab.node.plugins.module_utils.core.quoting import quoted
from ansible_collections.gpulab.node.plugins.module_utils.packages.deb822 import stanzas

ONE_LINE = re.compile(r"^(deb|deb-src)\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)((?:\s+\S+)*)$")
SOURCES_LIST = "/etc/apt/sources.list"
BUNDLE = "/etc/apt/sources.list.d/gpulab-bundle.sources"  # which stands for all others, where there is one
INSTALLER_FILES = (
    SOURCES_LIST,
    "/etc/apt/sources.list.d/debian.sources",
    "/etc/apt/sources.list.d/ubuntu.sources",
)
KEYRINGS = ("debian-archive-", "ubuntu-archive-")  # Debian has one for each release, too
HOSTS = (".debian.org", ".ubuntu.com")
ORIGINS = ("Debian", "Ubuntu")  # in the Release file of an archive, and of every mirror of it
_ORIGIN = re.compile(r"^Origin: *(.+?) *$", re.MULTILINE)
# What APT takes for no, and which files of sources.list.d it reads.
OFF = ("no", "false", "without", "off", "disable", "0")
# What a one-line source calls otherwise than deb822 does, where a list has spaces between its words and no commas.
_LISTS = {"arch": "Architectures", "lang": "Languages", "target": "Targets"}
_CHANGES = {"+": "-Add", "-": "-Remove"}
_NO_OPTIONS = {"Types", "Uris", "Suites", "Components", "Enabled"}
_READ = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*\.(?:list|sources)")


@dataclass(frozen=True)
class Source:
    """One suite of one repository, as one file declares it; options has the other fields, by their names in deb822.

    origin is what its Release file says, where APT has read that; it is empty elsewhere.
    """

    file: str
    uri: str
    suite: str
    components: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()
    origin: str = ""

    @property
    def signed_by(self) -> str:
        """Return who may sign it: keyrings, fingerprints or the key itself; empty for any key that the node trusts."""
        return dict(self.options).get("Signed-By", "")

    @property
    def may_be_distribution(self) -> bool:
        """Whether this can be the distribution's own archive: the installer wrote it, or its own key signs it.

        Vendors are declared in the installer's files, too: theirs are flat or have no main, and in sources.list, where
        the installer names no keyring, they have one of their own.
        """
        own_key = self._has_own_key
        installed = self.file in (*INSTALLER_FILES, BUNDLE) and "main" in self.components
        foreign_key = self.file == SOURCES_LIST and self.signed_by
        return not self.suite.endswith("/") and (own_key or (installed and not foreign_key))

    @property
    def is_surely_distribution(self) -> bool:
        """Whether host, key or Release file tell that it is the distribution's own archive, or a mirror of it."""
        host = urlsplit(self.uri).hostname or ""
        return self.may_be_distribution and (self._has_own_key or host.endswith(HOSTS) or self.origin in ORIGINS)

    @property
    def _has_own_key(self) -> bool:
        return any(name in self.signed_by for name in KEYRINGS)

    @property
    def release_files(self) -> list[str]:
        """Return the names under which APT keeps its Release file in its lists."""
        parts = urlsplit(self.uri)
        base = f"{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/").replace("_", "%5f")
        place = f"{base}/{self.suite}".rstrip("/") if self.suite.endswith("/") else f"{base}/dists/{self.suite}"
        return [f"{place}/{name}".replace("/", "_") for name in ("InRelease", "Release")]


def is_read(name: str) -> bool:
    """Tell whether APT reads a file of this name in sources.list.d; it passes over editors' and installers' copies."""
    return _READ.fullmatch(name) is not None


def parse(file: str, text: str, architecture: str) -> list[Source]:
    """Read the enabled binary sources of one file; lines that are not sources, and discs, are passed over.

    architecture is dpkg's name for the node's own, which a source may call $(ARCH).
    """
    text = text.replace("$(ARCH)", architecture)
    found = _parse_deb822(file, text) if file.endswith(".sources") else _parse_one_line(file, text)
    return [source for source in found if not source.uri.startswith("cdrom:")]


def origin(release: str) -> str:
    """Return who publishes a repository, from its Release file."""
    found = _ORIGIN.search(release)
    return found[1] if found else ""


def distribution(sources: list[Source]) -> list[Source]:
    """Return the distribution's own archive: of two that can be it and have the same suite, the one that surely is.

    A vendor may have a suite of the distribution's name, with main and under no key of its own:
    https://github.com/NVIDIA/nvidia-container-toolkit/issues/170
    """
    sure = {source.suite for source in sources if source.is_surely_distribution}
    return [
        source
        for source in sources
        if source.is_surely_distribution or (source.may_be_distribution and source.suite not in sure)
    ]


def missing(sources: list[Source], components: list[str]) -> list[Source]:
    """Return the distribution's archive with the wanted components that no source has, as it is to be declared.

    Each suite keeps the options that it has: two declarations with different ones stop apt.
    """
    own = distribution(sources)
    enabled: dict[tuple[str, str], set[str]] = {}
    archive: dict[tuple[str, str], Source] = {}
    for source in sources:
        key = (source.uri.rstrip("/"), source.suite)
        enabled.setdefault(key, set()).update(source.components)  # whoever declares them: twice makes apt complain
        if source in own:
            archive.setdefault(key, source)
    lacks = {key: tuple(name for name in components if name not in enabled[key]) for key in archive}
    return [replace(source, components=lacks[key]) for key, source in archive.items() if lacks[key]]


def render(sources: list[Source]) -> str:
    """Render what is missing as a deb822 file; empty when nothing is."""
    header = "# Written by gpulab; the archive's other components are declared elsewhere.\n"
    return header + "\n".join(map(_stanza, sources)) if sources else ""


def _stanza(source: Source) -> str:
    fields = {
        "Types": "deb",
        "URIs": source.uri,
        "Suites": source.suite,
        "Components": " ".join(quoted(name, "deb822 word", "an APT component") for name in source.components),
        **dict(source.options),
    }
    return "".join(f"{name}: {value}".replace("\n", "\n ") + "\n" for name, value in fields.items())


def _parse_one_line(file: str, text: str) -> list[Source]:
    sources = []
    for line in text.splitlines():
        match = ONE_LINE.match(line.split("#")[0].strip())
        if match and match.group(1) == "deb":
            options = dict(_option(pair) for pair in (match.group(2) or "").split() if "=" in pair)
            components = tuple(match.group(5).split())
            sources.append(Source(file, match.group(3), match.group(4), components, tuple(options.items())))
    return sources


def _option(pair: str) -> tuple[str, str]:
    """Return an option of a one-line source as deb822 has it."""
    name, value = pair.split("=", 1)
    base = name.rstrip("+-")
    if base not in _LISTS:
        return name.title(), value
    return _LISTS[base] + _CHANGES.get(name[-1], ""), value.replace(",", " ")


def _parse_deb822(file: str, text: str) -> list[Source]:
    sources: list[Source] = []
    for fields in stanzas(text):
        if "deb" not in fields.get("Types", "").split() or fields.get("Enabled", "yes").lower() in OFF:
            continue
        options = tuple((name, value) for name, value in fields.items() if name not in _NO_OPTIONS)
        sources.extend(
            Source(file, uri, suite, tuple(fields.get("Components", "").split()), options)
            for uri in fields.get("Uris", "").split()
            for suite in fields.get("Suites", "").split()
        )
    return sources
