# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages on a node that gpulab has to know of: one question to the package manager for all of them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

DPKG_FORMAT = "${db:Status-Abbrev}\\t${Package}\\t${Version}\\t${Maintainer}\\t${Architecture}\\n"
DPKG = "dpkg"
RPM_FORMAT = "ii \\t%{NAME}\\t%{VERSION}-%{RELEASE}\\t%{VENDOR}\\n"


class Package(NamedTuple):
    """An installed package; maintainer is the vendor that an RPM package names.

    One of a foreign architecture is called name:architecture, as by dpkg.
    """

    name: str
    version: str
    maintainer: str
    held: bool


def installed(listing: str) -> list[Package]:
    """Parse lines of status, name, version, maintainer and, of dpkg, architecture; dpkg's own is the node's."""
    rows = [[*row, ""][:5] for row in (line.split("\t") for line in listing.splitlines()) if len(row) in (4, 5)]
    native = next((architecture for _status, name, *_rest, architecture in rows if name == DPKG), "")
    found = []
    for status, name, version, maintainer, architecture in rows:
        if len(status) < 2 or status[1] in "nc":  # noqa: PLR2004 - not installed, or only its files
            continue
        own = not native or architecture in {native, "all", ""}
        full_name = name if own else f"{name}:{architecture}"
        found.append(Package(full_name, version, maintainer, held=status[0] == "h"))
    return found


class PackagesQuery:
    """The installed packages; the package manager runs beside the caller's other work."""

    def __init__(self, node: Node, *patterns: str) -> None:
        """Ask for the packages whose names fit one of the patterns (globs)."""
        if node.exists("/var/lib/dpkg/status"):
            self._listing = node.start(["dpkg-query", "-W", "-f", DPKG_FORMAT, DPKG, *patterns])
        else:
            self._listing = node.start(["rpm", "-qa", "--qf", RPM_FORMAT, *patterns])

    @cached_property
    def installed(self) -> list[Package]:
        """Return those that are installed."""
        return installed(self._listing.output() or "")
