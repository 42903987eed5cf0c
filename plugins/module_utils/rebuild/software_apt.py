# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages of a capture on this node: sources that answer, one transaction, holds and marks.

Sources are tried before they are put in place: one whose server does not answer would keep all package lists from being
refreshed. Such a file waits until the jobs are let go, and then comes back as it was. Where a bundle stands for all
sources, none is tried: APT does not read them, and the node may have no way to their servers.
"""

from __future__ import annotations

import posixpath
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import files, installed_packages
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.rebuild import refuse
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt, apt_sources
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_host import STATES
from ansible_collections.gpulab.node.plugins.module_utils.packages.plan import Plan, Wishes
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import (
    release,
    software_done,
    software_entries,
    software_packages,
)
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.software_packages import missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.gpulab.node.plugins.module_utils.core.installed_packages import Deb
    from ansible_collections.gpulab.node.plugins.module_utils.core.steps import Call
    from ansible_collections.gpulab.node.plugins.module_utils.rebuild.software_asked import Held, OfPackages

ROOT = Path("/")
TRIAL = Path("/var/lib/gpulab/rebuild/sources")
# While this is there, packages' scripts start no service: its settings come after it.
POLICY = Path("/usr/sbin/policy-rc.d")
POLICY_TEXT = "#!/bin/sh\n# Of gpulab's rebuild: services start once their settings are back.\nexit 101\n"
LOCK_TIMEOUT = 600


class Packages:
    """What a capture says of packages, and this node."""

    def __init__(self, call: Call, asked: OfPackages, root: Path = ROOT) -> None:
        """Read the node. call runs an argument list: (rc, output, errors)."""
        self._call = call
        self._section, self._managed = asked.section, asked.managed
        self._root = root
        self._over = bool(software_done.read(root))
        self._lacking = set(asked.lacking)
        self._why_other = release.difference(Node(root), asked.release)
        self._same = not self._why_other
        self._has_bundle = Node(root).exists(apt_sources.BUNDLE)
        self._sources = [one for one in asked.entries if software_packages.is_source(one["path"])]
        pins = [one for one in asked.entries if software_packages.is_pin(one["path"])]
        self._others = [one for one in asked.entries if one not in self._sources and (self._same or one not in pins)]
        self._left = [] if self._same else [*self._sources, *pins]

    def look(self) -> dict[str, Any]:
        """Return {files, names, missing}: what differs, what is to be installed, what stays away for certain."""
        found = self._candidates()
        differing = self._differing([*self._others, *(self._sources if self._same else [])])
        return {
            "files": [one["path"] for one in differing],
            "names": list(found.names),
            "missing": [*found.left, *self._missing_files()],
        }

    def _missing_files(self) -> list[dict[str, str]]:
        return [
            missing(one["path"], self._why_other)
            for one in self._left
            if one["kind"] == "file" and not self._of_distribution(one)
        ]

    def _of_distribution(self, entry: Held) -> bool:
        """Tell whether a captured file has nothing but the distribution's own sources, which the node has anyway."""
        declared = self._declared(entry)
        return bool(declared) and len(apt_sources.distribution(declared)) == len(declared)

    @staticmethod
    def _declared(entry: Held) -> list[apt_sources.Source]:
        return apt_sources.parse(entry["path"], software_entries.text(entry), "")

    def _candidates(self) -> software_packages.Candidates:
        installed = self._installed()
        found = software_packages.candidates(self._section, installed, self._managed, same_release=self._same)
        if not self._over:
            return found
        return software_packages.Candidates(tuple(name for name in found.names if name in self._lacking), found.left)

    def _installed(self) -> dict[str, Deb]:
        return installed_packages.debs(self._call(list(installed_packages.DPKG))[1])

    def lists(self) -> list[str]:
        """Put all in place but for sources, and return what tries these and refreshes the package lists.

        What it prints is for unanswered().
        """
        software_entries.put(self._differing(self._others), self._root)
        native = self._call(["dpkg", "--print-architecture"])[1].strip()
        known = self._call(["dpkg", "--print-foreign-architectures"])[1].split()
        for architecture in software_packages.foreign_architectures(self._section, native) if self._same else ():
            if architecture not in known:
                self._call(["dpkg", "--add-architecture", architecture])
        shutil.rmtree(TRIAL, ignore_errors=True)
        files.make_directory(TRIAL, 0o700)
        lines = [shlex.join(["apt-get", "--quiet", *apt.options(LOCK_TIMEOUT), "update"])]
        for entry in [] if self._has_bundle else self._new_sources():
            draft = TRIAL / posixpath.basename(entry["path"])
            tried: Held = {**entry, "path": str(draft)}
            software_entries.put([tried], ROOT)
            lines += [
                f"echo {shlex.quote(software_packages.BEGINS + entry['path'])}",
                shlex.join(_update(str(draft))) + " 2>&1",
                f'echo "{software_packages.ENDED}$?"',
            ]
        return ["sh", "-c", "\n".join(lines)]

    def _new_sources(self) -> list[Held]:
        return self._differing(self._sources) if self._same else []

    def _differing(self, entries: list[Held]) -> list[Held]:
        return [] if self._over else software_entries.differing(entries, self._root)

    def install(self, log: str) -> dict[str, Any]:
        """Put the sources that answered in place, and return {argv, install, missing}; argv is None without packages.

        log is what lists() printed. Raises Refusal R060 where no source has anything.
        """
        refused = software_packages.unanswered(log)
        answered = [one for one in self._new_sources() if one["path"] not in refused]
        software_entries.put(answered, self._root)
        if any(apt_sources.distribution(self._declared(one)) for one in answered):
            self._remove_installers({one["path"] for one in self._sources})
        shutil.rmtree(TRIAL, ignore_errors=True)
        captured = {one.name for one in self._section.packages or []}
        found = self._candidates()
        if found.names and not self._call(["apt-cache", "madison", "dpkg"])[1].strip():
            raise refuse("R060", detail=software_packages.fault(log))
        settled = software_packages.settle(found.names, captured, self._simulate)
        lacking = [
            *found.left,
            *self._missing_files(),
            *(missing(path, f"it does not answer: {why}") for path, why in refused.items()),
            *settled.missing,
        ]
        if settled.install:
            POLICY.write_text(POLICY_TEXT, encoding="ascii")
            POLICY.chmod(0o755)
        argv = self._command(settled.install) if settled.install else None
        return {"argv": argv, "install": settled.install, "missing": lacking}

    def _remove_installers(self, captured: set[str]) -> None:
        """Remove the sources that the installer wrote, where the captured ones are in other files."""
        for file in apt_sources.INSTALLER_FILES:
            if file not in captured:
                (self._root / file.lstrip("/")).unlink(missing_ok=True)

    def _simulate(self, names: Sequence[str]) -> tuple[Plan, str]:
        rc, out, errors = self._call(self._command(names, "--simulate"))
        return apt.parse_plan(out), (out + errors) if rc else ""

    def _command(self, names: Sequence[str], simulate: str = "") -> list[str]:
        return apt.install_command(
            Wishes(present=tuple(names)),
            recommends=not self._same,
            lock_timeout=LOCK_TIMEOUT,
            changes_held=False,
            simulate=simulate,
        )

    def marks(self, *, check_mode: bool) -> dict[str, Any]:
        """Let services start again, give packages their marks, and return {changes, missing}."""
        if not check_mode and files.read(POLICY) == POLICY_TEXT:
            POLICY.unlink()
        installed, states = self._installed(), files.read(self._root / str(STATES).lstrip("/"))
        found, lacking = software_packages.marks(self._section, installed, states, self._managed, same=self._same)
        lacking += software_packages.other_versions(self._section, installed)
        if self._over:
            return {"changes": [], "missing": [one for one in lacking if one["name"] in self._lacking]}
        for command, names in found.items():
            if not check_mode:
                self._call(["apt-mark", command, *names])
        told = [f"apt-mark {command} {' '.join(names)}" for command, names in found.items()]
        return {"changes": changes(run=told), "missing": lacking}


def _update(file: str) -> list[str]:
    """Return the command that asks the sources of one file; the lists of others stay."""
    return [
        *("apt-get", "--quiet", *apt.options(LOCK_TIMEOUT), "--option=Acquire::Retries=1"),
        *("--option=APT::Update::Error-Mode=any", "--option=APT::Get::List-Cleanup=false"),
        *(f"--option=Dir::Etc::sourcelist={file}", "--option=Dir::Etc::sourceparts=-", "update"),
    ]
