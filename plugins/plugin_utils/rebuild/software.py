# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a capture tells the node for each part of its software, with the contents of the files that belong to it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import FILE
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.software import Installed
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.software_asked import OfJobs, OfPackages
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.secrets import cipher_of
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import software_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.environments import Environment
    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import Entry
    from ansible_collections.gpulab.node.plugins.module_utils.rebuild.software_asked import Held
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.captures import Capture
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import Sections


def installed(capture: Capture) -> Installed:
    """Return the packages of a captured system, and their marks."""
    sections = capture.manifest.sections
    return Installed(sections.packages, sections.manual, sections.holds)


def of_packages(capture: Capture, identity: str | None, lacking: list[str]) -> OfPackages:
    """Return what the work packages takes; lacking has the names that did not come back so far.

    Raises Refusal R006.
    """
    sections = capture.manifest.sections
    return OfPackages(
        release=capture.manifest.machine.system,
        lacking=lacking,
        section=installed(capture),
        managed=sorted({*_items(sections, "package"), *_brought(sections)}),
        entries=list(_entries(capture, software_files.of_apt, identity)),
    )


def of_jobs(capture: Capture, identity: str | None, *, sources: bool) -> OfJobs:
    """Return what the works of jobs take; sources tells whether those of APT that wait are among it.

    Raises Refusal R006.
    """
    sections = capture.manifest.sections
    return OfJobs(
        release=capture.manifest.machine.system,
        capture=capture.path.name,
        units=sections.units,
        states=sections.unit_states,
        managed=sorted(_items(sections, "unit", "running")),
        entries=list(_entries(capture, software_files.of_jobs, identity)),
        sources=list(_entries(capture, software_files.of_apt, identity)) if sources else [],
    )


def environments(capture: Capture) -> list[Environment]:
    """Return the environments, those that lie in another one after it."""
    return sorted(capture.manifest.sections.environments, key=lambda one: (one.path.count("/"), one.path))


def _items(sections: Sections, *kinds: str) -> set[str]:
    """Return the names of these kinds that receipts answer for."""
    items = [item.partition(":") for role in sections.gpulab.receipts.values() for item in role]
    return {name for kind, _colon, name in items if kind in kinds}


def _brought(sections: Sections) -> set[str]:
    """Return the packages that only gpulab's own brought with them: where the roles bring these, they come as well.

    Brought by the rebuild instead, they would count as the node's, and stay when gpulab's are removed.
    """
    return set(sections.gpulab.brought) - set(sections.manual or ())


def _entries(capture: Capture, chosen: Callable[[Entry], bool], identity: str | None) -> Iterator[Held]:
    """Yield captured files with their contents."""
    entries = [one for one in capture.manifest.files if chosen(one)]
    secret = any(one.get("secret") for one in entries)
    cipher = cipher_of(capture.manifest.host, capture.archive.name, identity)
    secrets = capture.secrets(cipher) if secret else {}
    for one in entries:
        if one["kind"] == FILE:
            content = secrets[one["path"]] if one.get("secret") else capture.data(one["path"])
            yield {**one, "data": base64.b64encode(content).decode("ascii")}
        else:
            yield {**one}
