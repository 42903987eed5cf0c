# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what Slurm and Prometheus say of a month to who used how much. No I/O happens here."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.usage.measured import NOBODY, NodeMeasured
from ansible_collections.gpulab.node.plugins.plugin_utils.usage.model import SCHEMA, NodeUse, Source, Usage, Use

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.usage.month import Month
    from ansible_collections.gpulab.node.plugins.plugin_utils.usage.slurm import Job

    Key = tuple[str, str, str]


@dataclass(frozen=True)
class Lab:
    """What the inventory says: its nodes, the groups of people, and how the page is to be."""

    nodes: Sequence[str] = ()
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    names: bool = False
    price_kwh: float | None = None
    currency: str = ""


@dataclass
class _Cell:
    """What one user had on one node on the account of one group."""

    held: float = 0.0
    used: float = 0.0
    idle: float = 0.0
    kwh: float = 0.0


class Ledger:
    """Books what was held and measured by (user, group, node), and the kWh of nobody by node."""

    def __init__(self, month: Month, lab: Lab, jobs: Sequence[Job], nodes: Mapping[str, NodeMeasured]) -> None:
        """Book it all."""
        self.cells: dict[Key, _Cell] = defaultdict(_Cell)
        self.nobody: dict[str, float] = {}
        self._lab = lab
        names = _by_short_name([*lab.nodes, *nodes])
        for job in jobs:
            for name in job.nodes:
                node = names.get(_short(name), name)
                self.cells[job.user, job.account, node].held += job.hours(month) / len(job.nodes)
        self._held: dict[str, list[tuple[str, str, float]]] = defaultdict(list)  # (node, group, hours) by user
        self._held_there: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))  # by node and user
        for (user, group, node), cell in self.cells.items():
            self._held[user].append((node, group, cell.held))
            self._held_there[node][user] += cell.held
        for name, measured in nodes.items():
            self._use(name, measured)
            self.nobody[name] = self._idle(name, measured)

    def _use(self, node: str, measured: NodeMeasured) -> None:
        energy = {user: kwh for user, kwh in (measured.kwh or {}).items() if user != NOBODY}
        for user in {*measured.used, *energy}:
            for group, share in self._shares(user, node).items():
                cell = self.cells[user, group, node]
                cell.used += measured.used.get(user, 0.0) * share
                cell.kwh += energy.get(user, 0.0) * share

    def _idle(self, node: str, measured: NodeMeasured) -> float:
        """Book what was held and not used, and its energy; return what is left of that, in kWh.

        There is never more of it than GPUs stood idle there.
        """
        energy = (measured.kwh or {}).get(NOBODY, 0.0)
        idle_hours = max(0.0, measured.gpu_hours - measured.busy_hours)
        held = self._held_there[node].items()
        unused = {user: max(0.0, hours - measured.used.get(user, 0.0)) for user, hours in held}
        whole = max(sum(unused.values()), idle_hours)
        for user, hours in unused.items():
            for group, share in self._shares(user, node).items() if hours else ():
                cell = self.cells[user, group, node]
                cell.idle = hours * share * idle_hours / whole
                cell.kwh += energy * hours * share / whole
        return energy * (1 - sum(unused.values()) / whole) if whole else energy

    def _shares(self, user: str, node: str) -> dict[str, float]:
        """Return on whose account a user worked on a node: as jobs held GPUs there, or anywhere, or the first group."""
        records = self._held.get(user, [])
        held: dict[str, float] = defaultdict(float)
        for _node, group, hours in [record for record in records if record[0] == node and record[2]] or records:
            held[group] += hours
        whole = sum(held.values())
        if whole:
            return {group: hours / whole for group, hours in held.items()}
        return {next(iter(self._lab.groups.get(user, ())), ""): 1.0}


def _short(name: str) -> str:
    return name.partition(".")[0].lower()


def _by_short_name(names: Iterable[str]) -> dict[str, str]:
    """Return the hosts by the name that Slurm has for them; two that share it are told apart by their whole names."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        found[_short(name)] = name if found.get(_short(name), name) == name else _short(name)
    return found


@dataclass(frozen=True)
class _Known:
    """What sources say: held where a controller answered, silent where another one did not; nodes were measured."""

    held: bool
    silent: bool
    nodes: Mapping[str, NodeMeasured]

    def use(self, name: str, cells: Mapping[Key, _Cell], lab: Lab, places: Iterable[str], nobody: float = 0.0) -> Use:
        """Return the sums of cells on some nodes, None where no source says them; nobody is kWh that is in no cell."""
        measured = [self.nodes[place] for place in places if place in self.nodes]
        held = self.held and (not self.silent or any(cell.held for cell in cells.values()))
        energy = any(node.kwh is not None for node in measured)
        kwh = sum(cell.kwh for cell in cells.values()) + nobody
        return Use(
            name=name,
            held=_rounded(sum(cell.held for cell in cells.values())) if held else None,
            used=_rounded(sum(cell.used for cell in cells.values())) if measured else None,
            idle=_rounded(sum(cell.idle for cell in cells.values())) if held and measured else None,
            kwh=_rounded(kwh) if energy else None,
            cost=round(kwh * lab.price_kwh, 2) if energy and lab.price_kwh is not None else None,
        )


def usage(  # noqa: PLR0913, PLR0917 - all that a page is made of
    month: Month,
    lab: Lab,
    jobs: Sequence[Job] | None,
    measured: Mapping[str, NodeMeasured] | None,
    sources: Sequence[Source],
    notes: Sequence[str],
    *,
    silent: bool = False,
) -> Usage:
    """Return the month. jobs and measured are None where no source says them; silent: a controller did not answer."""
    nodes = measured or {}
    ledger = Ledger(month, lab, jobs or (), nodes)
    known = _Known(held=jobs is not None, silent=silent, nodes=nodes)
    energy = any(node.kwh is not None for node in nodes.values())
    names = sorted({*lab.nodes, *nodes, *(key[2] for key in ledger.cells)})
    cells = _parts(ledger, 2)
    uses = [_of_node(ledger, name, cells[name], known, lab) for name in names]
    unheld = [use.name for use in uses if use.held is None] if known.held else []
    return Usage(
        schema=SCHEMA,
        month=month.name,
        time_zone=month.zone,
        start=month.start,
        end=month.end,
        until=month.until,
        price_kwh=lab.price_kwh,
        currency=lab.currency,
        sources=list(sources),
        notes=[*notes, *_unheld(unheld), *(_gaps(month, names, nodes) if nodes else ())],
        total=known.use("", ledger.cells, lab, nodes),
        nobody_kwh=_rounded(sum(ledger.nobody.values())) if energy else None,
        groups=_by(ledger, 1, known, lab),
        users=_by(ledger, 0, known, lab) if lab.names else None,
        nodes=uses,
    )


def _parts(ledger: Ledger, part: int) -> dict[str, dict[Key, _Cell]]:
    """Return the cells by a part of the key."""
    cells: dict[str, dict[Key, _Cell]] = defaultdict(dict)
    for key, cell in ledger.cells.items():
        cells[key[part]][key] = cell
    return cells


def _by(ledger: Ledger, part: int, known: _Known, lab: Lab) -> list[Use]:
    """Return the uses by a part of the key, the largest first."""
    cells = _parts(ledger, part)
    uses = [known.use(name, several, lab, {key[2] for key in several}) for name, several in cells.items()]
    return sorted(uses, key=lambda use: (-max(use.held or 0.0, use.used or 0.0), use.name))


def _of_node(ledger: Ledger, name: str, cells: Mapping[Key, _Cell], known: _Known, lab: Lab) -> NodeUse:
    """Return what was used on a node, with the energy that nobody used there."""
    node = known.nodes.get(name)
    return NodeUse(
        **vars(known.use(name, cells, lab, [name], ledger.nobody.get(name, 0.0))),
        measured=_rounded(node.hours) if node else None,
        gpus=_rounded(node.gpu_hours) if node else None,
        estimated=node is not None and node.estimated,
    )


def _unheld(names: Sequence[str]) -> list[str]:
    """Say of which nodes no job is known while a controller is silent, whose nodes they may be."""
    if not names:
        return []
    return [f"held is not known, and is in no sum: {', '.join(names)}. A controller of Slurm did not answer."]


def _gaps(month: Month, names: Sequence[str], nodes: Mapping[str, NodeMeasured]) -> list[str]:
    """Say of which nodes nothing, or not everything, was measured: it is not known, and is not zero."""
    never = [name for name in names if name not in nodes]
    partly = [name for name in names if name in nodes and nodes[name].hours < month.hours - 2]
    found = []
    if never:
        found.append(f"not measured: {', '.join(never)}. What was used there is not known, and is in no sum.")
    if partly:
        hours = ", ".join(f"{name} ({nodes[name].hours:.0f})" for name in partly)
        found.append(f"not measured for all of {month.hours:.0f} hours: {hours}. They were down, or not watched.")
    return found


def _rounded(value: float) -> float:
    return round(value, 3)
