# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages on a node that gpulab has to know of: one question to the package manager for all of them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.gpulab.node.plugins.module_utils.core import installed_packages

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node


class Package(NamedTuple):
    """An installed package; maintainer is the vendor that an RPM package names.

    One of a foreign architecture is called name:architecture, as by dpkg.
    """

    name: str
    version: str
    maintainer: str
    held: bool


def of_dpkg(report: str) -> list[Package]:
    """Return the packages that are there, in dpkg's listing."""
    known = installed_packages.debs(report).items()
    return [Package(name, deb.version, deb.maintainer, deb.held) for name, deb in known if deb.on_disk]


def of_rpm(report: str) -> list[Package]:
    """Return the packages in rpm's listing, which knows no holds."""
    return [Package(rpm.name, rpm.version, rpm.vendor, held=False) for rpm in installed_packages.rpms(report)]


class PackagesQuery:
    """The installed packages; the package manager runs beside the caller's other work."""

    def __init__(self, node: Node, *patterns: str) -> None:
        """Ask for the packages whose names fit one of the patterns (globs)."""
        self._is_debian = node.exists("/var/lib/dpkg/status")
        query = (*installed_packages.DPKG, installed_packages.OF_DPKG) if self._is_debian else installed_packages.RPM
        self._listing = node.start([*query, *patterns])

    @cached_property
    def installed(self) -> list[Package]:
        """Return those that are installed."""
        return (of_dpkg if self._is_debian else of_rpm)(self._listing.output() or "")
