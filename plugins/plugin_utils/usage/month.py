# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A month in a lab's time zone, as seconds since 1970. No I/O happens here, but for the zones of the system."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.values import refuse

HOUR = 3600


@dataclass(frozen=True)
class Month:
    """A month, "2026-11", from start to end, and until, the end of what there is to know of it: now, or end."""

    name: str
    zone: str
    start: int
    end: int
    until: int

    @property
    def hours(self) -> float:
        """Return the hours from its start to until: 745 in an October of Berlin, in which an hour is there twice."""
        return (self.until - self.start) / HOUR


def month(name: str | None, zone: str, now: datetime) -> Month:
    """Return a month; without a name the one of yesterday. Raises Refusal I030 for another form, or one to come."""
    where = _zone(zone)
    name = name or f"{(now.astimezone(where) - timedelta(days=1)):%Y-%m}"
    if not re.fullmatch(r"[12]\d\d\d-(0[1-9]|1[0-2])", name):
        raise refuse("I030", variable="usage_month", problem="a wrong form", form="a month, as 2026-11")
    year, number = int(name[:4]), int(name[5:])
    start = datetime(year, number, 1, tzinfo=where)
    end = datetime(year + number // 12, number % 12 + 1, 1, tzinfo=where)
    if start > now:
        raise refuse("I030", variable="usage_month", problem="a month that has not begun", form="a month, as 2026-11")
    until = min(end.astimezone(timezone.utc), now)
    return Month(name, zone, int(start.timestamp()), int(end.timestamp()), int(until.timestamp()))


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        raise refuse(
            "I030",
            variable="usage_time_zone",
            problem="a time zone that this machine does not know",
            form="a name of the IANA's data, as Europe/Berlin; Debian has them in the package tzdata",
        ) from error
