# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages as they were before a change, kept on the node until the change has proved itself."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils import apt
from ansible_collections.gpulab.node.plugins.module_utils.steps import ROOT as STEPS

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.apt import Package
    from ansible_collections.gpulab.node.plugins.module_utils.package_plan import Plan

ROOT = STEPS.parent / "former"
RECORD = "packages.json"
_DPKG = ("dpkg", "--force-hold", "--force-downgrade", "--force-confdef", "--force-confold")


@dataclass(frozen=True)
class Former:
    """How things were: the version of each package that changed or went, those on hold, and what was not there."""

    versions: dict[str, str] = field(default_factory=dict)
    held: tuple[str, ...] = ()
    new: tuple[str, ...] = ()


def merge(former: Former, plan: Plan, packages: dict[str, Package]) -> Former:
    """Return how things were before this transaction and those before it; packages is the state before it."""
    before = {name: old for name, (old, _new) in plan.change.items()}
    before.update(plan.remove)
    before = {name: version for name, version in before.items() if name not in former.new}
    held = {name for name in before if name not in former.versions and name in packages and packages[name].held}
    brought = {name for name in plan.install if name not in former.versions and not apt.is_on_disk(packages, name)}
    return Former(
        versions={**before, **former.versions},
        held=tuple(sorted({*former.held, *held})),
        new=tuple(sorted({*former.new, *brought})),
    )


def keep_script(former: Former, directory: Path) -> str:
    """Return shell commands that put the file of each former package into a directory of its own name.

    A package that no source has any more is packed again from what is installed.
    """
    lines = ["set -e", f"cd {shlex.quote(str(directory))}"]
    for name, version in sorted(former.versions.items()):
        here, wish = shlex.quote(name), shlex.quote(f"{name}={version}")
        lines.append(
            f"[ -d {here} ] || {{ rm -rf new; mkdir new; "
            f"(cd new && {{ apt-get --quiet download {wish} || dpkg-repack {here}; }}) && mv new {here}; }}"
        )
    return "\n".join([*lines, ""])


def restore_script(former: Former, directory: Path, packages: dict[str, Package]) -> str:
    """Return shell commands that bring the former packages back and take off what came with the change.

    dpkg and not apt-get: it needs no package source, where apt-get would rather fetch a version that it knows anew.
    """
    gone = [name for name in former.new if apt.is_on_disk(packages, name)]
    files = [f"{shlex.quote(str(directory / name))}/*.deb" for name in sorted(former.versions)]
    lines = ["set -e"]
    if gone:
        lines.append(shlex.join([*_DPKG, "--force-depends", "--force-remove-reinstreq", "--remove", *gone]))
    if files:
        lines.append(" ".join([*_DPKG, "--auto-deconfigure", "--install", *files]))
    if former.held:
        lines.append(shlex.join(["apt-mark", "hold", *former.held]))
    return "\n".join([*lines, ""])


class FormerPackages:
    """The former packages under one name, in a directory of the node that only root reads."""

    def __init__(self, name: str, root: Path = ROOT) -> None:
        """Name them; nothing is read or written yet."""
        self.directory = root / name

    def read(self) -> Former:
        """Return what is recorded; empty where nothing is kept."""
        try:
            record = json.loads((self.directory / RECORD).read_text())
        except OSError:  # none is kept, or the reader is not root
            return Former()
        return Former(record["versions"], tuple(record["held"]), tuple(record["new"]))

    def add(self, plan: Plan, packages: dict[str, Package]) -> None:
        """Record how things were before a transaction, beside what is recorded of those before it."""
        former = merge(self.read(), plan, packages)
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.directory / RECORD).write_text(json.dumps(asdict(former)))

    def keep_script(self) -> str:
        """Return shell commands that fetch what is not kept yet; empty where all is."""
        former = self.read()
        complete = all((self.directory / name).is_dir() for name in former.versions)
        return "" if complete else keep_script(former, self.directory)

    def restore_script(self, packages: dict[str, Package]) -> str:
        """Return shell commands that put everything back; empty where nothing is kept."""
        former = self.read()
        return restore_script(former, self.directory, packages) if former != Former() else ""

    def amiss(self, packages: dict[str, Package]) -> list[str]:
        """Return the packages that are not as they were: those that are not back, then those that are still there."""
        former = self.read()
        wishes = former.versions.items()
        away = [name for name, version in wishes if not apt.is_installed(packages, f"{name}={version}")]
        return away + [name for name in former.new if apt.is_on_disk(packages, name)]

    def restored(self, packages: dict[str, Package]) -> bool:
        """Tell whether all is as it was."""
        return not self.amiss(packages)

    def forget(self) -> None:
        """Remove what is kept."""
        shutil.rmtree(self.directory, ignore_errors=True)
