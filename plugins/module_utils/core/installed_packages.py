# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages on a node, as dpkg and rpm list them. No I/O happens here."""

from __future__ import annotations

from dataclasses import dataclass, field

# Patterns of names may follow; the architecture of the node is told by dpkg's own package, which is then one of them.
DPKG = (
    "dpkg-query",
    "--show",
    r"--showformat=${Package}\t${Architecture}\t${Version}\t${db:Status-Want}\t${db:Status-Status}\t${Maintainer}\n",
)
RPM = ("rpm", "-qa", "--queryformat", r"%{NAME}\t%{EPOCHNUM}\t%{VERSION}-%{RELEASE}\t%{ARCH}\t%{VENDOR}\n")
OF_DPKG = "dpkg"
_COLUMNS_OF_DPKG, _COLUMNS_OF_RPM = 6, 5


@dataclass(frozen=True)
class Deb:
    """A package as dpkg knows it; status is dpkg's word (installed, half-configured, config-files, ...)."""

    version: str
    status: str
    held: bool
    architecture: str = field(default="", compare=False)
    maintainer: str = field(default="", compare=False)

    @property
    def on_disk(self) -> bool:
        """Whether anything but its configuration files is on the node."""
        return self.status not in {"not-installed", "config-files"}


@dataclass(frozen=True)
class Rpm:
    """An installed package; version is that with the release. Some, as kernels, are there in several versions."""

    name: str
    epoch: str
    version: str
    architecture: str
    vendor: str = field(default="", compare=False)

    @property
    def nvra(self) -> str:
        """Return the name by which rpm and dnf know this and no other package."""
        return f"{self.name}-{self.version}.{self.architecture}"

    @property
    def na(self) -> str:
        """Return the name of this package in all its versions."""
        return f"{self.name}.{self.architecture}"

    @property
    def evr(self) -> str:
        """Return its version as dnf writes it, without an epoch of zero."""
        return self.version if self.epoch == "0" else f"{self.epoch}:{self.version}"

    @property
    def lock(self) -> str:
        """Return its line in the list of the versionlock plugin, as ``dnf versionlock add`` writes it."""
        return f"{self.name}-{self.epoch}:{self.version}.*"


def debs(report: str) -> dict[str, Deb]:
    """Return what DPKG printed by name; one of a foreign architecture is called name:architecture, as by dpkg."""
    rows = [row for row in (line.split("\t") for line in report.split("\n")) if len(row) == _COLUMNS_OF_DPKG]
    native = next((row[1] for row in rows if row[0] == OF_DPKG), "")
    packages = {}
    for name, architecture, version, want, status, maintainer in rows:
        own = not native or architecture in {native, "all", ""}
        packages[name if own else f"{name}:{architecture}"] = Deb(
            version, status, want == "hold", architecture, maintainer
        )
    return packages


def rpms(report: str) -> list[Rpm]:
    """Return what RPM printed."""
    rows = (line.split("\t") for line in report.split("\n"))
    return [Rpm(*row) for row in rows if len(row) == _COLUMNS_OF_RPM]
