# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the works of restore_software take of a capture; the action plugin asks, the module answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.engines import Engine
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.environments import Environment
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import Entry
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.gpulab import Lock
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.jobs import Unit
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.machine import Release
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.software import Installed


class Held(Entry, total=False):
    """A captured file; data is its content in Base64."""

    data: str


@dataclass(frozen=True)
class OfPackages:
    """What the work packages takes.

    release is that of the captured system; managed are names and globs of the packages that gpulab's roles answer for,
    entries the captured files of APT, lacking the packages that an earlier run could not install: once the rebuild is
    over, only these are tried.
    """

    release: Release
    lacking: list[str]
    section: Installed
    managed: list[str]
    entries: list[Held]


@dataclass(frozen=True)
class OfJobs:
    """What the works of jobs take.

    capture is its name; states are those of unit files, None where nobody knows them; managed are the units that
    gpulab's roles answer for; sources are APT's, of which some wait for the end.
    """

    release: Release
    capture: str
    units: list[Unit]
    states: dict[str, str] | None
    managed: list[str]
    entries: list[Held]
    sources: list[Held]


@dataclass(frozen=True)
class Pull:
    """An image to pull, and the names that it lacks; one that is present only gets its names."""

    program: str
    digest: str
    names: list[str]
    present: bool


# All works, with the type of what each takes; of environments, an operation takes one.
TAKEN: dict[str, Any] = {
    "begin": dict[str, str],
    "packages": OfPackages,
    "hold_jobs": OfJobs,
    "services": OfJobs,
    "locks": list[Lock],
    "containers": list[Engine],
    "environments": Environment,
    "jobs": OfJobs,
    "check_locks": Environment,
}
