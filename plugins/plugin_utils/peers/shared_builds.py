# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes of a run share a build of kernel modules, which of them compiles, and where the result lies meanwhile."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible import constants
from ansible_collections.gpulab.node.plugins.module_utils.driver.shared_build import sha256
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.driver_steps import lacks_modules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan

FACT = "gpulab_builds"  # {"run": a run, "kernels": {kernel: digest of all that its build depends on}}
# What of the driver's plan two nodes must have in common to need the same modules; the digests then tell.
_OF_DRIVER = ("source", "dkms_module", "kernel_package", "version", "kernel_modules")
_DIGEST = "[0-9a-f]{64}"
_OF_SYSTEM = ("id", "version", "architecture")


@dataclass(frozen=True)
class Shared:
    """A packed build on the controller: the file, its SHA-256, and the node that built it."""

    file: str
    checksum: str
    node: str


def alike(known: Mapping[str, Mapping[str, Any]], own: str) -> list[str]:
    """Return the nodes that may have to build the same kernel modules as one of them, in the given order.

    known has each node's ansible_facts. Where the node is the only one, no node is returned.
    """
    wanted = _asked(known[own])
    found = [name for name, facts in known.items() if wanted is not None and _asked(facts) == wanted]
    return found if len(found) > 1 else []


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
    """The packed builds of this run of ansible-playbook, which deletes them when it ends."""

    def __init__(self, directory: Path | None = None) -> None:
        """Use a directory of the run's own temporary one, the same in all of its processes."""
        self._directory = directory or Path(constants.DEFAULT_LOCAL_TMP) / "gpulab-builds"

    def draft(self, digest: str) -> Path:
        """Return where to put a packed build before it is added."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        return self._directory / f"{digest}.new"

    def add(self, digest: str, checksum: str, node: str) -> bool:
        """Add what lies at draft; tell whether it arrived whole."""
        draft = self.draft(digest)
        if sha256(draft) != checksum:
            return False
        file = draft.with_suffix(".tar.gz")
        draft.rename(file)
        told = draft.with_suffix(".draft")
        told.write_text(json.dumps(asdict(Shared(str(file), checksum, node))), encoding="utf-8")
        told.rename(draft.with_suffix(".json"))
        return True

    def find(self, digest: str) -> Shared | None:
        """Return the packed build of a digest."""
        path = self._directory / f"{digest}.json"
        return Shared(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None


def read(hostvars: Mapping[str, Any], names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return each host's ansible_facts."""
    return {name: hostvars[name].get("ansible_facts", {}) for name in names}
