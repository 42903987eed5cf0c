# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What package managers and builds say in a text that was pasted: explained as when gpulab itself runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.tool_words import find, speaking
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import asked
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt_failure, dnf_failure
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import IMPORT, MISMATCH, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.tool_words import Meaning
    from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Weight

SOURCE = "catalog/tool_messages.yml"
MANAGERS = {"apt": apt_failure.classify, "dnf": dnf_failure.classify}
BUILDS = ("dkms", "build")
_LOG = "the whole output"


def errors(text: str, known: Weight, following: Weight) -> Iterator[tuple[Meaning, Finding]]:
    """Yield what each tool that speaks in a text says, at most one message of the builds and of each package manager.

    known and following are the places of a cause, and of what only follows from one.
    """
    said = speaking(text)
    build = _build(text) if said & set(BUILDS) else None
    if build:
        yield build, _finding(build, build.cause, build.remedy, known, MISMATCH)
    for tool, classify in MANAGERS.items():
        found = find(text, tool) if tool in said else None
        if found and _is_meant(text, found):
            refusal = classify(text, _LOG)
            weight = following if found.message.follows else known
            yield found, _finding(found, refusal.cause, refusal.remedy, weight, IMPORT)


def _build(text: str) -> Meaning | None:
    """Return what a build said; what builds that succeed print, too, only where nothing else is there."""
    found = find(text, *BUILDS) or find(text, *BUILDS, weak=True)
    return found if found and _is_meant(text, found) else None


def _is_meant(text: str, found: Meaning) -> bool:
    return asked.is_meant(text, found.place, found.place)


def _finding(found: Meaning, cause: str, remedy: str, weight: Weight, symptom: str) -> Finding:
    return Finding(cause, remedy, weight, found.lines[:1], f"error-{found.message.id}", symptom, SOURCE)
