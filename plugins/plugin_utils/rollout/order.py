# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order nodes are changed, how many at a time, and when no change may begin. No I/O happens here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.rollout.state import Refused

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_COUNT = re.compile(r"(\d{1,6})(%?)")
_CLOCK = re.compile(r"\d\d:\d\d")


@dataclass(frozen=True)
class Candidate:
    """A node as it was just read. kind: what must be equal for one node to tell anything of another.

    due: the roles that would change it. fenced: this rollout's fence is on it. refusal: why it cannot be changed now.
    """

    name: str
    kind: str = ""
    due: tuple[str, ...] = ()
    fenced: bool = False
    refusal: Refused | None = None

    @property
    def waits(self) -> bool:
        """Tell whether there is something to do: a change, or a proof that lifts the fence."""
        return self.refusal is None and bool(self.due or self.fenced)


@dataclass(frozen=True)
class Order:
    """The nodes in their order, the sizes of the batches, and which of them are canaries: alone in their batch."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    canaries: tuple[str, ...]


def count(option: str, value: str, whole: int) -> int:
    """Return how many of whole nodes a value such as 3 or 25% means; at least one. Raises Refusal F004."""
    match = _COUNT.fullmatch(str(value).strip())
    if not match or not int(match[1]) or (match[2] and int(match[1]) > 100):  # noqa: PLR2004 - percent
        raise refuse(
            "F004", option=option, value=value, detail="it has to be a number of nodes, or a share such as 25%"
        )
    return max(1, whole * int(match[1]) // 100 if match[2] else int(match[1]))


def order(
    found: Sequence[Candidate], requested: Sequence[str], proven: Collection[str], *, batch: str, out_at_once: str
) -> Order:
    """Return the order: fenced nodes, a canary of each kind that is not yet proven, and the others in batches.

    requested names the canaries; without it the first node of each kind is one. Nodes that cannot be changed are taken
    for out of service, too. Raises Refusal F003 where too many are, F004.
    """
    unknown = [name for name in requested if name not in {one.name for one in found}]
    if unknown:
        raise refuse("F004", option="rollout_canary", value=", ".join(unknown), detail="this run has no such node")
    most = count("rollout_out_at_once", out_at_once, len(found))
    size = count("rollout_batch", batch, len(found))
    fenced = [node.name for node in found if node.waits and node.fenced]
    rest = [node for node in found if node.waits and not node.fenced]
    canaries = _canaries(rest, requested, proven)
    out = [node.name for node in found if node.refusal is not None]
    if rest and len(out) >= most:
        raise refuse("F003", out=len(out), all=len(found), most=most, who=", ".join(out))
    last = [node.name for node in rest if node.name not in canaries]
    alone = [1] * (len(fenced) + len(canaries))
    sizes = [*alone, min(size, most - len(out))] if last else alone
    return Order((*fenced, *canaries, *last), tuple(sizes), tuple(canaries))


def _canaries(waiting: Sequence[Candidate], requested: Sequence[str], proven: Collection[str]) -> list[str]:
    """Return the nodes that are requested, in that order, and the first of each kind that neither has nor is proven."""
    kinds = {node.name: node.kind for node in waiting}
    canaries = [name for name in dict.fromkeys(requested) if name in kinds]
    tried = {kinds[name] for name in canaries} | set(proven)
    for name, kind in kinds.items():
        if kind not in tried:
            tried.add(kind)
            canaries.append(name)
    return canaries


def frozen(freezes: Iterable[Mapping[str, Any]], now: datetime) -> str:
    """Say why and until when no change may begin now, in the controller's time; nothing where one may.

    A freeze has from and to, both a day (2026-12-20) or a day and time (2026-12-20 18:00), or both a time (08:00)
    that counts each day, or on those of days, on which it begins. Raises Refusal F004.
    """
    for freeze in freezes:
        start, end = (str(freeze.get(key) or "").strip() for key in ("from", "to"))
        if _CLOCK.fullmatch(start) and _CLOCK.fullmatch(end):
            until = _daily(start, end, freeze.get("days") or DAYS, now)
        else:
            until = _moment(end, last=True) if _moment(start, last=False) <= now < _moment(end, last=True) else None
        if until:
            return f"{freeze.get('reason') or 'a freeze'}, until {until:%Y-%m-%d %H:%M}"
    return ""


def _daily(start: str, end: str, days: Iterable[str], now: datetime) -> datetime | None:
    """Return when a daily freeze that is on now ends."""
    for day in (now.date() - timedelta(days=1), now.date()):
        begins, ends = _at(day, start), _at(day, end)
        ends += timedelta(days=1) if ends <= begins else timedelta()
        if DAYS[day.weekday()] in days and begins <= now < ends:
            return ends
    return None


def _at(day: date, clock: str) -> datetime:
    try:
        return datetime.combine(day, time.fromisoformat(clock))
    except ValueError as error:
        raise _wrong(clock) from error


def _moment(text: str, *, last: bool) -> datetime:
    """Return a point in time; a day alone is its begin, or its end."""
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return datetime.fromisoformat(text) + timedelta(days=1 if last else 0)
        return datetime.strptime(text, "%Y-%m-%d %H:%M")  # noqa: DTZ007 - the controller's own time
    except ValueError as error:
        raise _wrong(text) from error


def _wrong(text: str) -> Exception:
    detail = 'from and to have to be times such as "08:00", in quotes, or days such as 2026-12-20 or 2026-12-20 18:00'
    return refuse("F004", option="rollout_freeze", value=text or "empty", detail=detail)
