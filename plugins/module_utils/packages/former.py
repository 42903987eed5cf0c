# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages as they were before a change, kept on the node until the change has proved itself."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.steps import ROOT as STEPS
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.core.installed_packages import Deb, Rpm

ROOT = STEPS.parent / "former"
RECORD = "packages.json"
_LOST = "Without it, gpulab cannot go back to the former packages."
_DPKG = ("dpkg", "--force-hold", "--force-downgrade", "--force-confdef", "--force-confold")
# Their own files are asked for wherever they are, and they are in no stream of a module that is enabled by now.
_DNF = (
    *("dnf", "--quiet", "--assumeyes", "--disableplugin=versionlock", "--disableexcludes=all"),
    *("--setopt=*.module_hotfixes=1", "--setopt=*.metadata_expire=never", "--setopt=strict=1"),
    "download",
)


@dataclass(frozen=True)
class Former:
    """How things were: the version of each package that changed or went, what was held of them, what was not there.

    files has the text of settings that changed with them, by path, empty where there was no such file.
    """

    versions: dict[str, str] = field(default_factory=dict)
    held: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """What a transaction is about to do: the version of what changes or goes, what is held of it, what is new."""

    going: dict[str, str] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    new: Iterable[str] = ()


def merge(former: Former, change: Change) -> Former:
    """Return how things were before this transaction and those before it."""
    before = {name: version for name, version in change.going.items() if name not in former.new}
    held = {hold for name, hold in change.held.items() if name in before and name not in former.versions}
    brought = {name for name in change.new if name not in former.versions}
    return Former(
        versions={**before, **former.versions},
        held=tuple(sorted({*former.held, *held})),
        new=tuple(sorted({*former.new, *brought})),
        files=former.files,
    )


def _away(former: Former, installed: dict[str, set[str]]) -> list[str]:
    """Return the former packages that are not there in their former version and no other."""
    return [name for name, version in former.versions.items() if installed.get(name) != {version}]


def _brought(former: Former, installed: dict[str, set[str]]) -> list[str]:
    """Return what came with the change and is still there."""
    return [name for name in former.new if name in installed]


def held() -> set[str]:
    """Return what is held of all former packages that are kept. Raises Refusal H220."""
    return {hold for record in _all() for hold in record["held"]}


def names() -> set[str]:
    """Return the names of all former packages that are kept, with rpm also without the architecture. Raises H220."""
    kept = [name for record in _all() for name in record["versions"]]
    return {*kept, *(name.rpartition(".")[0] for name in kept)}


def _all() -> list[Recorded]:
    read = (records.read(path, Recorded, None, _LOST) for path in sorted(ROOT.glob(f"*/{RECORD}")))
    return [record for record in read if record]


class _Files(TypedDict, total=False):
    files: dict[str, str]


class Recorded(_Files):
    """A record of former packages: see Former."""

    versions: dict[str, str]
    held: list[str]
    new: list[str]


class FormerPackages:
    """The former packages under one name, in a directory of the node that only root reads.

    What the methods call installed is the version, or versions, in which each package is properly there, and an empty
    set where it is on the disk in another way.
    """

    def __init__(self, name: str, root: Path = ROOT) -> None:
        """Name them; nothing is read or written yet."""
        self.directory = root / name

    def read(self) -> Former:
        """Return what is recorded; empty where nothing is kept, or where the reader is not root."""
        record = records.read(self.directory / RECORD, Recorded, None, _LOST)
        if record is None:
            return Former()
        return Former(record["versions"], tuple(record["held"]), tuple(record["new"]), record.get("files", {}))

    def add(self, change: Change) -> None:
        """Record how things were before a transaction, beside what is recorded of those before it."""
        self._write(merge(self.read(), change))

    def add_files(self, files: dict[str, str]) -> None:
        """Record the text of settings before they change; what no transaction followed is not told any more."""
        former = self.read()
        self._write(replace(former, files={**files, **(former.files if former.versions or former.new else {})}))

    def _write(self, former: Former) -> None:
        records.write(self.directory / RECORD, asdict(former), 0o600)

    def amiss(self, installed: dict[str, set[str]]) -> list[str]:
        """Return the packages that are not as they were: those that are not back, then those that are still there."""
        former = self.read()
        return [*_away(former, installed), *_brought(former, installed)]

    def restored(self, installed: dict[str, set[str]]) -> bool:
        """Tell whether all is as it was."""
        return not self.amiss(installed)

    def forget(self) -> None:
        """Remove what is kept."""
        shutil.rmtree(self.directory, ignore_errors=True)


class FormerDebs(FormerPackages):
    """Former packages of dpkg, by their names; held are the names of those that are on hold."""

    @staticmethod
    def installed(packages: dict[str, Deb]) -> dict[str, set[str]]:
        """Return what is there of the packages that dpkg knows."""
        return {
            name: {package.version} if package.status == "installed" else set()
            for name, package in packages.items()
            if apt.is_on_disk(packages, name)
        }

    def keep_script(self) -> str:
        """Return shell commands that put each former package into a directory of its own name; empty where all are.

        A package that no source has any more is packed again from what is installed.
        """
        versions = self.read().versions
        if all((self.directory / name).is_dir() for name in versions):
            return ""
        lines = ["set -e", f"cd {shlex.quote(str(self.directory))}"]
        for name, version in sorted(versions.items()):
            here, wish = shlex.quote(name), shlex.quote(f"{name}={version}")
            lines.append(
                f"[ -d {here} ] || {{ rm -rf new; mkdir new; "
                f"(cd new && {{ apt-get --quiet download {wish} || dpkg-repack {here}; }}) && mv new {here}; }}"
            )
        return "\n".join([*lines, ""])

    def restore_script(self, installed: dict[str, set[str]]) -> str:
        """Return shell commands that bring the former packages back and take off what came with the change.

        dpkg and not apt-get: it needs no package source, where apt-get would download a version that it knows.
        """
        former = self.read()
        if former == Former():
            return ""
        gone = _brought(former, installed)
        files = [f"{shlex.quote(str(self.directory / name))}/*.deb" for name in sorted(_away(former, installed))]
        lines = ["set -e"]
        if gone:
            lines.append(shlex.join([*_DPKG, "--force-depends", "--force-remove-reinstreq", "--remove", *gone]))
        if files:
            lines.append(" ".join([*_DPKG, "--auto-deconfigure", "--install", *files]))
        if former.held:
            lines.append(shlex.join(["apt-mark", "hold", *former.held]))
        return "\n".join([*lines, ""])


class FormerRpms(FormerPackages):
    """Former packages of rpm, by name.architecture; held are their lines in the list of the versionlock plugin."""

    @staticmethod
    def installed(packages: list[Rpm]) -> dict[str, set[str]]:
        """Return what is there of the packages that rpm knows. Some, as kernels, are there in several versions."""
        found: dict[str, set[str]] = {}
        for package in packages:
            found.setdefault(package.na, set()).add(package.evr)
        return found

    def keep_script(self) -> str:
        """Return shell commands that fetch the former packages; empty where all are there.

        Nothing packs a package again that no repository has any more: they fail then.
        """
        files = {self._file(na, version): (na, version) for na, version in self.read().versions.items()}
        if all(file.is_file() for file in files):
            return ""
        lines = ["set -e", f"cd {shlex.quote(str(self.directory))}", "set --"]
        for file, (na, version) in sorted(files.items()):
            name, _dot, architecture = na.rpartition(".")
            wish = shlex.quote(f"{name}-{version}.{architecture}")
            lines.append(f'[ -f {shlex.quote(file.name)} ] || set -- "$@" {wish}')
        download = f'{shlex.join(_DNF)} --destdir=new "$@" && rpm --checksig --quiet new/*.rpm && mv new/*.rpm .'
        return "\n".join([*lines, f"[ $# -eq 0 ] || {{ rm -rf new; {download}; }}", ""])

    def restore_script(self, installed: dict[str, set[str]]) -> str:
        """Return shell commands that bring the former packages back and take off what came with the change.

        rpm and not dnf: it needs no repository, and no stream of a module filters what it installs.
        """
        former = self.read()
        if former == Former():
            return ""
        gone = _brought(former, installed)
        files = [self._file(na, former.versions[na]) for na in _away(former, installed)]
        lines = ["set -e"]
        if gone:
            lines.append(shlex.join(["rpm", "--erase", "--nodeps", *gone]))
        if files:
            lines.append(shlex.join(["rpm", "--upgrade", "--oldpackage", *sorted(map(str, files))]))
        return "\n".join([*lines, ""])

    def _file(self, na: str, version: str) -> Path:
        """Return the file of a package as dnf names it, without its epoch."""
        name, _dot, architecture = na.rpartition(".")
        return self.directory / f"{name}-{version.rpartition(':')[2]}.{architecture}.rpm"
