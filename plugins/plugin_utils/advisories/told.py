# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The holes of a node in lines for a terminal."""

from __future__ import annotations

from datetime import date
from itertools import groupby
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import counted, first, for_people
from ansible_collections.gpulab.node.plugins.plugin_utils.advisories.judge import (
    ACCEPTED,
    AFFECTED,
    CONDITION,
    NOT_STATED,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.advisories.versions import key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.advisories.judge import Finding

OLD_DAYS = 45
MOST = 8  # holes on a line; the file has all
SAYS = {
    AFFECTED: "affected",
    NOT_STATED: "of a version that NVIDIA says nothing of, which counts as affected",
    CONDITION: "affected under a condition that somebody has to read",
    ACCEPTED: "accepted",
}


def lines(findings: Sequence[Finding], looked_at: int) -> Iterator[str]:
    """Yield a line for what has holes, the gravest first; looked_at is how many products were held against them."""
    if not findings:
        yield f"no known hole in {counted(looked_at, 'thing')} of NVIDIA's"

    def group(one: Finding) -> tuple[str, str, str, str, str]:
        return one.verdict, one.package, one.version, one.place, one.because if one.verdict != NOT_STATED else ""

    order = list(SAYS)
    for (verdict, package, version, place, because), each in groupby(
        sorted(findings, key=lambda one: (order.index(one.verdict), group(one))), group
    ):
        held = sorted(each, key=lambda one: (-one.score, one.cve))
        where = f" ({place})" if place else ""
        fixed = max((one.fixed for one in held), key=key)
        mended = f"fixed in {fixed}" if fixed else "fixed in no release of its branch"
        cves = first([f"{one.cve} ({one.score})" for one in held], MOST)
        end = because if verdict == ACCEPTED else f"{mended}: {held[0].remedy}{f' [{because}]' if because else ''}"
        yield for_people(f"{package} {version}{where} is {SAYS[verdict]}: {cves}; {end}")


def age(as_of: str, today: str) -> str | None:
    """Return a line on bulletins that are too old to tell of today's holes."""
    days = (date.fromisoformat(today) - date.fromisoformat(as_of)).days
    if days <= OLD_DAYS:
        return None
    return (
        f"the bulletins in this gpulab are of {as_of}, {days} days ago; newer holes are not in them: take a newer"
        " gpulab, or make them again (docs/advisories.md)"
    )
