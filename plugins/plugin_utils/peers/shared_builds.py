# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes of a run share a build of kernel modules, which of them compiles, and where the result lies meanwhile."""

from __future__ import annotations

import json
import os
import pwd
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible import constants
from ansible_collections.gpulab.node.plugins.module_utils.core.files import sha256
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.driver_steps import lacks_modules
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan

FACT = "gpulab_builds"  # {"run": a run, "kernels": {kernel: digest of all that its build depends on}}
# What of the driver's plan two nodes must have in common to need the same modules; the digests then tell.
_OF_DRIVER = ("source", "dkms_module", "kernel_package", "version", "kernel_modules")
_DIGEST = "[0-9a-f]{64}"
_OF_SYSTEM = ("id", "version", "architecture")
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
MOST_KEPT = 20  # builds in a directory that outlives the run; one has 30 to 60 MB


@dataclass(frozen=True)
class Shared:
    """A packed build on the controller: the file, its SHA-256, and the node that built it."""

    file: str
    checksum: str
    node: str


def alike(known: Mapping[str, Mapping[str, Any]], own: str, *, kept: bool = False) -> list[str]:
    """Return the nodes that may have to build the same kernel modules as one of them, in the given order.

    known has each node's ansible_facts. Where the node is the only one, no node is returned, unless builds are kept for
    the nodes of later runs.
    """
    wanted = _asked(known[own])
    found = [name for name, facts in known.items() if wanted is not None and _asked(facts) == wanted]
    return found if len(found) > 1 or kept else []


def _asked(facts: Mapping[str, Any]) -> list[Any] | None:
    if not facts.get("gpulab") or not facts.get("gpulab_plan"):
        return None
    plan: Plan = facts["gpulab_plan"]
    driver, system = plan["driver"], facts["gpulab"]["system"]
    if driver["change"] is None and not driver["upgrade"] and not lacks_modules(driver, facts["gpulab"]):
        return None
    return [*(dict(driver)[key] for key in _OF_DRIVER), sorted(driver["kernels"]), *(system[key] for key in _OF_SYSTEM)]


def digests(facts: Mapping[str, Any], run: str) -> dict[str, str] | None:
    """Return what a node has said of its builds in this run, by kernel; None where it has said nothing."""
    said = facts.get(FACT)
    if not isinstance(said, Mapping) or said.get("run") != run:
        return None
    told = said.get("kernels")
    # A digest becomes the name of a file on the controller, and the node says it.
    kernels = told if isinstance(told, Mapping) else {}
    return {kernel: digest for kernel, digest in kernels.items() if re.fullmatch(_DIGEST, str(digest))}


def builder(said: Mapping[str, Mapping[str, str] | None], kernel: str, digest: str) -> str:
    """Return the node that builds for all with this digest: the first in the order of the play."""
    return next(name for name, known in said.items() if known and known.get(kernel) == digest)


def is_awaited(said: Mapping[str, Mapping[str, str] | None], own: str, kernel: str, digest: str) -> bool:
    """Tell whether another node needs this build, or may: one whose turn has not come has said nothing."""
    return any(known is None or known.get(kernel) == digest for name, known in said.items() if name != own)


class BuildStore:
    """The packed builds on the controller: those of this run, which deletes them at its end, or those that are kept."""

    def __init__(self, kept: str | None = None) -> None:
        """Use the directory in which builds are kept, or one of the run's own, the same in all of its processes."""
        self._kept = kept is not None
        self._directory = (
            Path(kept).expanduser() if kept is not None else Path(constants.DEFAULT_LOCAL_TMP) / "gpulab-builds"
        )

    def check(self) -> None:
        """Look at the directory where builds are kept, before anything is compiled for it. Raises Refusal D050."""
        if self._kept and os.path.lexists(self._directory):
            self._refuse_where_others_write()

    def draft(self, digest: str) -> Path:
        """Return where this process puts a packed build before it is added."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._refuse_where_others_write()
        return self._directory / f"{digest}.{os.getpid()}.new"

    def add(self, digest: str, checksum: str, node: str) -> bool:
        """Add what lies at draft; tell whether it arrived whole."""
        draft = self.draft(digest)
        if sha256(draft) != checksum:
            draft.unlink()
            return False
        draft.rename(self._file(digest))
        draft.write_text(json.dumps({"checksum": checksum, "node": node}), encoding="utf-8")
        draft.rename(self._record(digest))
        for record in sorted(self._directory.glob("*.json"), key=lambda path: path.stat().st_mtime)[:-MOST_KEPT]:
            record.unlink()
            self._file(record.stem).unlink(missing_ok=True)
        return True

    def find(self, digest: str) -> Shared | None:
        """Return the packed build of a digest; one that was kept counts only while it is whole."""
        record, file = self._record(digest), self._file(digest)
        if not record.is_file():
            return None
        self._refuse_where_others_write()
        try:
            found = Shared(str(file), **json.loads(record.read_text(encoding="utf-8")))
            whole = not self._kept or sha256(file) == found.checksum
            record.touch()  # what is used last stays longest
        except (OSError, ValueError, TypeError):
            return None  # a run was cut off, or another one has just removed it
        return found if whole else None

    def _refuse_where_others_write(self) -> None:
        """Refuse a directory into which others can lay a module that the nodes' kernels would run. Raises Refusal."""
        there = self._directory.lstat()
        if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.geteuid() or there.st_mode & OTHERS_WRITE:
            raise refuse("D050", directory=str(self._directory), user=pwd.getpwuid(os.geteuid()).pw_name)

    def _record(self, digest: str) -> Path:
        return self._directory / f"{digest}.json"

    def _file(self, digest: str) -> Path:
        return self._directory / f"{digest}.tar.gz"


def read(hostvars: Mapping[str, Any], names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return each host's ansible_facts."""
    return {name: hostvars[name].get("ansible_facts", {}) for name in names}
