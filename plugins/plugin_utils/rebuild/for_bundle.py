# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rebuild of a host brings back, by its last capture: packages and Python environments.

Among them is what roles installed once and do not ask for as long as it is there, as Docker.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments import venv
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import software_packages
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.hosts import Captured
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.wheels import Asked
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import captures
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import software

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.environments import Environment
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.captures import Capture

# A capture says what a node said: nothing else than these becomes an argument or a line for a program here.
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*(?::[a-z0-9]+)?")
_PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+_-]+")


def last(directory: Path, host: str, system: str, there: Mapping[str, Any]) -> Captured:
    """Return what a host had at its last capture; of one that is not whole or not signed by this user, only why."""
    try:
        capture = captures.latest(captures.place(directory, host))
    except Refusal as refusal:
        return Captured(fault=refusal.cause)
    return of(host, system, capture, there) if capture else Captured()


def of(host: str, system: str, capture: Capture, there: Mapping[str, Any]) -> Captured:
    """Return what a host had at a capture, but for kernels, the driver and CUDA, which go by the plan.

    system is that of the host now, as "debian 13 x86_64"; there is what the module package_sources found on it.
    """
    release, native = capture.manifest.machine.system, there["architectures"][0]
    same = f"{release.id} {release.version}" == system.rpartition(" ")[0]
    found = software_packages.candidates(software.installed(capture), {}, (), same_release=same).names
    packages = (name.removesuffix(f":{native}") for name in found if _PACKAGE.fullmatch(name))
    environments = {
        one.path: _asked(host, number, one, there) for number, one in enumerate(software.environments(capture))
    }
    fitting = {
        path: asked
        for path, asked in environments.items()
        if asked.wanted.requirements and asked.wanted.python in there["pythons"]
    }
    return Captured(tuple(dict.fromkeys(packages)), fitting)


def _asked(host: str, number: int, record: Environment, there: Mapping[str, Any]) -> Asked:
    """Return an environment by the lines of its lock that a package index answers; of conda's there are none."""
    python = ".".join(record.python.split(".")[:2])
    lines = tuple(line for line in record.lock if _PINNED.fullmatch(line))
    return Asked(host, venv.Wanted(f"captured-{number}", python, lines), "", there["machine"], there["libc"])
