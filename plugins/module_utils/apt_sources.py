# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""APT sources as data: which repositories a node reads, and which components they lack. No I/O happens here.

Both forms are read: one-line (``sources.list``) and deb822 (``*.sources``); see sources.list(5).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ONE_LINE = re.compile(r"^(deb|deb-src)\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)((?:\s+\S+)*)$")
INSTALLER_FILES = (
    "/etc/apt/sources.list",
    "/etc/apt/sources.list.d/debian.sources",
    "/etc/apt/sources.list.d/ubuntu.sources",
)
KEYRINGS = ("debian-archive-keyring", "ubuntu-archive-keyring")
# What APT takes for no, and which files of sources.list.d it reads.
OFF = ("no", "false", "without", "off", "disable", "0")
_READ = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*\.(?:list|sources)")


@dataclass(frozen=True)
class Source:
    """One suite of one repository, as one file declares it."""

    file: str
    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str

    @property
    def is_distribution(self) -> bool:
        """Whether this is the distribution's own archive: the installer wrote it, or its own key signs it."""
        return self.file in INSTALLER_FILES or any(name in self.signed_by for name in KEYRINGS)


def is_read(name: str) -> bool:
    """Tell whether APT reads a file of this name in sources.list.d; it passes over editors' and installers' copies."""
    return _READ.fullmatch(name) is not None


def parse(file: str, text: str, architecture: str) -> list[Source]:
    """Read the enabled binary sources of one file; lines that are not sources are passed over.

    architecture is dpkg's name for the node's own, which a source may call $(ARCH).
    """
    text = text.replace("$(ARCH)", architecture)
    return _parse_deb822(file, text) if file.endswith(".sources") else _parse_one_line(file, text)


def missing(sources: list[Source], components: list[str]) -> dict[tuple[str, str, str], list[str]]:
    """Return, per (uri, suite, signed_by) of the distribution's archive, the wanted components that no source has."""
    enabled: dict[tuple[str, str], set[str]] = {}
    signed_by: dict[tuple[str, str], str] = {}
    for source in sources:
        key = (source.uri.rstrip("/"), source.suite)
        enabled.setdefault(key, set()).update(source.components)  # whoever declares them: twice makes apt complain
        if source.is_distribution:
            signed_by.setdefault(key, source.signed_by)
    lacks = {
        (*key, signed_by[key]): [name for name in components if name not in have]
        for key, have in enabled.items()
        if key in signed_by
    }
    return {key: names for key, names in lacks.items() if names}


def render(lacks: dict[tuple[str, str, str], list[str]]) -> str:
    """Render what is missing as a deb822 file; empty when nothing is."""
    stanzas = []
    for (uri, suite, signed_by), components in lacks.items():
        fields = ["Types: deb", f"URIs: {uri}", f"Suites: {suite}", f"Components: {' '.join(components)}"]
        if signed_by:
            fields.append(f"Signed-By: {signed_by}")
        stanzas.append("\n".join(fields) + "\n")
    return (
        "# Written by gpulab; the archive's other components are declared elsewhere.\n" + "\n".join(stanzas)
        if stanzas
        else ""
    )


def _parse_one_line(file: str, text: str) -> list[Source]:
    sources = []
    for line in text.splitlines():
        match = ONE_LINE.match(line.split("#")[0].strip())
        if match and match.group(1) == "deb":
            options = dict(pair.split("=", 1) for pair in (match.group(2) or "").split() if "=" in pair)
            sources.append(
                Source(
                    file, match.group(3), match.group(4), tuple(match.group(5).split()), options.get("signed-by", "")
                )
            )
    return sources


def _parse_deb822(file: str, text: str) -> list[Source]:
    sources: list[Source] = []
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1].isspace() and name:
                fields[name] += "\n" + line.strip()
            elif ":" in line:
                name, value = line.split(":", 1)
                name = name.strip().lower()
                fields[name] = value.strip()
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in OFF:
            continue
        sources.extend(
            Source(file, uri, suite, tuple(fields.get("components", "").split()), fields.get("signed-by", ""))
            for uri in fields.get("uris", "").split()
            for suite in fields.get("suites", "").split()
        )
    return sources
