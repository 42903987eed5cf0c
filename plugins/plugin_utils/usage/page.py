# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A month's use as a page, and as lines for a terminal."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people_all
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import render

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.plugin_utils.usage.model import Usage

NO_GROUP = "(no group)"


def page(usage: Usage) -> str:
    """Return the page; what a node or a person is called may hold anything."""
    return render("usage/usage.html.j2", **_shown(usage))


def _shown(usage: Usage) -> dict[str, object]:
    def at(seconds: int) -> str:
        return f"{datetime.fromtimestamp(seconds, ZoneInfo(usage.time_zone)):%Y-%m-%d %H:%M %Z}"

    return {
        "usage": for_people_all(asdict(usage)),
        "span": (at(usage.start), at(usage.until)),
        "goes_on": usage.until < usage.end,
        "no_group": NO_GROUP,
        "number": number,
    }


def number(value: float | None, digits: int = 1) -> str:
    """Return a figure; a dash is what no source says."""
    return "-" if value is None else f"{value:,.{digits}f}"


def lines(usage: Usage) -> Iterator[str]:
    """Yield the month for a terminal: its sums, and what is not known."""
    total = usage.total
    figures = {"held": total.held, "used": total.used, "held idle": total.idle}
    hours = ", ".join(f"{number(value)} {name}" for name, value in figures.items())
    cost = f", {number(total.cost, 2)} {usage.currency}".rstrip() if total.cost is not None else ""
    yield f"{usage.month} ({usage.time_zone}): GPU hours {hours}; {number(total.kwh)} kWh{cost}"
    yield from (f"{source.name}: {source.text}" for source in usage.sources if not source.known)
    yield from usage.notes
