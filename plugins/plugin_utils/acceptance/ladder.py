# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes to measure together next, and what the measurements say of each node and of the ways between them.

The ladder goes up from the nodes of one domain (a rack, a switch) to one node of each domain, and to all. A group that
fails is halved. A node that fails alone with a healthy one is measured with another healthy one. Where both halves
pass, groups mixed of both decide whether the fault is between them.

No I/O happens here. What comes next follows from the results so far alone, so a run that was cut off goes on by them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations, islice
from math import ceil, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

    Steps = Generator["Wanted", "Result", None]
    Tries = Generator["Wanted", "Result", bool]

PASSED, FAILED, UNTESTED = "passed", "failed", "not tested"
SIBLINGS = 4  # nodes that tell what such nodes can do, where no floor does
MOST_PAIRS = 12  # that are measured for that
MOST_GROUPS = 150  # of one ladder
MOST_SIDES = 8  # with which a node that failed is tried
MOST_SILENT = 0.3  # share of the nodes: more that give no result are the fault of the run
FEW = 3  # nodes, of which halves of two and one prove nothing


@dataclass(frozen=True)
class Wanted:
    """A group to measure: the step of the ladder, and the nodes in their order."""

    step: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """What was measured: bus bandwidth in GB/s, None where there is no number, and then why.

    lowest and highest are the slowest and the fastest of the runs that rate is the median of.
    """

    rate: float | None
    lowest: float | None = None
    highest: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Verdict:
    """What is said of a node: passed, failed or not tested, and why."""

    verdict: str
    why: str = ""


@dataclass(frozen=True)
class Boundary:
    """A finding between two sides, each of which passes alone."""

    one: tuple[str, ...]
    other: tuple[str, ...]
    why: str


@dataclass
class Verdicts:
    """The end of a ladder. failure: why the run itself failed, so that nothing is said of the nodes."""

    nodes: dict[str, Verdict] = field(default_factory=dict)
    boundaries: list[Boundary] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    floor: float | None = None
    failure: str = ""


class Over(Exception):  # noqa: N818 - the end of the ladder before its top
    """Why no further group is measured."""


def domains(labels: Mapping[str, str | None]) -> list[tuple[str, ...]]:
    """Return the nodes by their labels; those without one in groups of the root of their number, in their order."""
    labelled: dict[str, list[str]] = {}
    rest = [name for name, label in labels.items() if not label]
    for name, label in labels.items():
        if label:
            labelled.setdefault(label, []).append(name)
    size = ceil(sqrt(len(rest))) if rest else 1
    return [
        *map(tuple, labelled.values()),
        *(tuple(rest[begin : begin + size]) for begin in range(0, len(rest), size)),
    ]


def calibrating(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the pairs that tell what such nodes can do: all of few nodes, else those of threes spread over all.

    Of three nodes two are always on one side of a bad trunk, so not all pairs can be slow by it.
    """
    if len(names) * (len(names) - 1) // 2 <= MOST_PAIRS:
        return list(combinations(names, 2))
    threes = [names[begin : begin + 3] for begin in range(0, len(names) - 2, 3)]
    step = ceil(len(threes) * 3 / MOST_PAIRS)
    return [pair for three in threes[::step] for pair in combinations(three, 2)]


class Ladder:
    """A ladder over nodes, each with the label of its domain or None.

    floor is the least bus bandwidth in GB/s that a group has to reach. Where it is None, it is share of the best pair.
    """

    def __init__(self, labels: Mapping[str, str | None], floor: float | None, share: float) -> None:
        """Begin at the bottom."""
        self._labels, self._floor, self._share = dict(labels), floor, share
        self._groups = domains(labels)
        self._results: list[tuple[tuple[str, ...], Result]] = []
        self._passed: dict[frozenset[str], bool] = {}  # of this step upwards: a node may die between two
        self._latest: dict[frozenset[str], bool] = {}  # of all steps
        self._ever: set[str] = set()
        self.verdicts = Verdicts(floor=floor)

    def climb(self) -> Steps:
        """Yield each group to measure, and take its result; then the verdicts are there."""
        try:
            if self._floor is None:
                yield from self._calibrate()
            if len(self._labels) <= FEW:
                yield from self._few()
            else:
                yield from self._many()
            self._judge_silence()
        except Over as over:
            self.verdicts.remarks.append(str(over))
            if self.verdicts.boundaries:
                for name in self._loud():
                    self.verdicts.nodes[name] = Verdict(UNTESTED, f"it failed with two others, but {over}")
            self._leave_out(self._labels, str(over))
        for name in self._labels:
            verdict = Verdict(PASSED) if name in self._ever else Verdict(UNTESTED, "it was in no group that passed")
            self.verdicts.nodes.setdefault(name, verdict)
        if self.verdicts.failure:
            self.verdicts.nodes = dict.fromkeys(self._labels, Verdict(UNTESTED, self.verdicts.failure))
            self.verdicts.boundaries = []

    def give_up(self, steps: Steps, why: str) -> None:
        """End the ladder before its top: nodes of which nothing is known yet are not tested."""
        with suppress(StopIteration):
            steps.throw(Over(why))

    def _many(self) -> Steps:
        """Measure each domain, one node of each, and all that are well."""
        passing = {}
        for group in self._groups:
            if len(group) > 1:
                passing[group] = yield from self._passes("domain", group)
        if not self._fresh() and not (yield from self._find_pair("pairs", list(self._labels))):
            self._blame_nobody()
            return
        for group, passes in passing.items():
            if not passes:
                yield from self._search("domain", group)
        for group in self._groups:
            if len(group) == 1 and not (yield from self._half_passes("domain", group)):
                yield from self._confirm("domain", group[0])
        yield from self._look_among_failed()
        yield from self._across()
        yield from self._all()
        if self.verdicts.boundaries:  # what failed may only have been on the other side
            for name in self._loud():
                yield from self._try_other_sides(name)

    def _across(self) -> Steps:
        """Measure one node of each domain; a fault there may be that of the domain's way to the others."""
        groups = [well for group in self._groups if (well := tuple(filter(self._is_well, group)))]
        front = tuple(group[0] for group in groups)
        self._passed.clear()
        if self.verdicts.boundaries or len(front) < 2 or (yield from self._passes("across", front)):  # noqa: PLR2004
            return
        if len(front) > 2:  # noqa: PLR2004 - two have just failed
            yield from self._find_pair("across", list(front))
        reached = self._fresh()
        suspects = (yield from self._halve("across", front)) if reached else list(front)
        of_front = {group[0]: group for group in groups}
        self.verdicts.boundaries = [
            Boundary(_whole(bound.one, of_front), _whole(bound.other, of_front), bound.why)
            for bound in self.verdicts.boundaries
        ]
        reached = [name for name in self._fresh() if name in of_front and name not in suspects]
        for name in suspects:
            others = [of_front[one] for one in reached or front if one != name]
            yield from self._judge_front(of_front[name], others)

    def _judge_front(self, group: tuple[str, ...], others: list[tuple[str, ...]]) -> Steps:
        """Judge a domain whose first node does not reach others: another node of it that does blames the first one."""
        first, *more = group
        rest = tuple(name for other in others for name in other if self._is_well(name))
        for one in (*rest[:1], *rest[-1:]):
            if (yield from self._passes("confirmation", (first, one))):
                return  # what it failed with is at fault itself
        if rest and (not more or not (yield from self._passes("confirmation", (first, more[0])))):
            yield from self._confirm("across", first, [*rest])
        elif rest and (yield from self._passes("confirmation", (more[0], rest[-1]))):
            self._fail(first, f"it reaches {more[0]}, but not the nodes outside, which {more[0]} reaches")
        elif not any({*group} <= {*bound.other} for bound in self.verdicts.boundaries):
            self._bound(group, rest, "each side passes alone, and two pairs with a node of both sides fail")

    def _all(self) -> Steps:
        """Measure all that are well together."""
        well = tuple(filter(self._is_well, self._labels))
        if self.verdicts.boundaries:
            self.verdicts.remarks.append("all nodes together were not measured, as there is a finding between them")
            return
        if len(well) < 2 or self._passed.get(frozenset(well)):  # noqa: PLR2004 - a group
            return
        self._passed.clear()
        if not (yield from self._passes("all", well)):
            if (yield from self._find_pair("all", list(well))):
                yield from self._search("all", well)
            else:
                self._blame_nobody()

    def _few(self) -> Steps:
        """Measure all pairs of two or three nodes; one node has none to be measured with."""
        names = tuple(self._labels)
        if len(names) == 1:
            self._leave_out(names, "there is no other node to measure it with")
            return
        pairs = list(combinations(names, 2))
        passing = {}
        for pair in pairs:
            passing[pair] = yield from self._passes("pairs", pair)
        bad = [pair for pair, passes in passing.items() if not passes]
        if not bad:
            yield from self._three(names)
        elif len(bad) == len(pairs):
            self._blame_nobody()
        elif len(bad) == 1:
            yield from self._repeat(bad[0], bad[0][:1], bad[0][1:], "each passes with another node")
        else:
            (name,) = {*bad[0]} & {*bad[1]}
            self._fail(name, self._words(*bad))

    def _three(self, names: tuple[str, ...]) -> Steps:
        if not (yield from self._passes("all", names)):
            yield from self._repeat(names, names[:1], names[1:], "all pairs pass")

    def _calibrate(self) -> Steps:
        """Learn from pairs what such nodes can do, and set the floor by the best."""
        rates = []
        for pair in calibrating(list(self._labels)):
            rate = (yield from self._measure("siblings", pair)).rate
            rates += [] if rate is None else [rate]
        if not rates:
            self.verdicts.failure = "no pair of nodes gave a result"
            raise Over(self.verdicts.failure)
        self._floor = self.verdicts.floor = float(f"{self._share * max(rates):.4g}")

    def _find_pair(self, step: str, names: list[str]) -> Tries:
        """Look for a pair that passes, and tell whether there is one: others are measured with its nodes."""
        for pair in islice(_spread_pairs(names), MOST_PAIRS):
            if (yield from self._passes(step, pair)):
                return True
        return False

    def _search(self, step: str, group: tuple[str, ...]) -> Steps:
        """Find the nodes that a group fails by, and measure each once more."""
        for name in (yield from self._halve(step, group)):
            yield from self._confirm(step, name)

    def _halve(self, step: str, group: tuple[str, ...]) -> Generator[Wanted, Result, list[str]]:
        """Return the nodes by which a group failed; a fault between its halves is noted."""
        middle = ceil(len(group) / 2)
        halves = (group[:middle], group[middle:])
        passing = []
        for half in halves:
            passes = yield from self._half_passes(step, half)
            passing.append(passes)
        if all(passing):
            yield from self._between(*halves)
        suspects = []
        for half, passes in zip(halves, passing):
            if not passes:
                suspects += [half[0]] if len(half) == 1 else (yield from self._halve(step, half))
        return suspects

    def _half_passes(self, step: str, half: tuple[str, ...]) -> Tries:
        """Measure a half; a single node with one that is well."""
        if len(half) == 1:
            half = (self._partners(half[0])[0], half[0])
        return (yield from self._passes(step, half))

    def _confirm(self, step: str, name: str, partners: list[str] | None = None) -> Steps:
        """Measure a suspect with another healthy node; where it passes there, with the first one again."""
        partners = partners or self._partners(name)
        first = next((one for one in partners if self._passed.get(frozenset((one, name))) is False), partners[0])
        if (yield from self._passes(step, (first, name))):
            self.verdicts.remarks.append(f"{name} was in a group that failed, and passed with {first}")
            return
        second = next((one for one in partners if one != first), None)
        if second is None:
            self._leave_out([name], f"it fails with {first}, and no other node is left that tells which of both it is")
        elif (yield from self._passes("confirmation", (second, name))):
            yield from self._repeat((first, name), (first,), (name,), "each passes with another node")
        else:
            self._fail(name, self._words((first, name), (second, name)))

    def _repeat(self, group: tuple[str, ...], one: tuple[str, ...], other: tuple[str, ...], though: str) -> Steps:
        """Measure a group again that failed, though its parts pass: what fails twice is between them."""
        if (yield from self._passes("confirmation", group, again=True)):
            self.verdicts.remarks.append(f"{_named(group)} failed once together, and passed when measured again")
        else:
            self._bound(one, other, f"they fail twice together, though {though}")

    def _between(self, one: tuple[str, ...], other: tuple[str, ...]) -> Steps:
        """Decide by two mixed groups what is wrong with a group both halves of which pass."""
        whole = (*one, *other)
        if len(whole) == 2:  # noqa: PLR2004 - a pair has no halves to mix
            yield from self._repeat(whole, one, other, "each passes with another node")
            return
        failed = 0
        for mixed in _mixtures(one, other):
            failed += not (yield from self._passes("mixed", mixed))
        if failed:
            self._bound(one, other, f"each side passes, all together fail, as do {failed} of 2 groups mixed of both")
        else:
            yield from self._repeat(whole, one, other, "each side passes, as do groups mixed of both")

    def _look_among_failed(self) -> Steps:
        """Measure nodes that failed with others than before: where they pass, the fault is between them and the first.

        Where there are three, or a finding between nodes, each is tried with one node of each side that passed alone.
        """
        failed = self._loud()
        if len(failed) > 2 or (failed and self.verdicts.boundaries):  # noqa: PLR2004 - a fault of each
            for name in failed:
                yield from self._try_other_sides(name)
            failed = self._loud()
        passing: tuple[str, str] | None = None
        for pair in islice(_spread_pairs(failed), MOST_PAIRS):
            if (yield from self._passes("mixed", pair)):
                passing = pair
                break
        if not passing:
            return
        together = {*passing}
        for name in failed:
            if name not in together and (yield from self._passes("mixed", (passing[0], name))):
                together.add(name)
        well = tuple(name for name in self._labels if self._is_well(name))
        for name in together:
            del self.verdicts.nodes[name]
        self._bound(
            well, tuple(sorted(together)), "the second pass with each other, and each fails with two of the first"
        )

    def _try_other_sides(self, name: str) -> Steps:
        """Measure a node that failed with others, one of each side, and take its failure back where it passes."""
        against = [one for one in self._labels if self._latest.get(frozenset((one, name))) is False]
        for side in self._sides()[:MOST_SIDES]:
            if not side & {*against, name} and (yield from self._passes("mixed", (min(side), name))):
                del self.verdicts.nodes[name]
                self._bound((*against,), (name,), f"they fail together, and {name} passes with {min(side)}")
                return

    def _sides(self) -> list[set[str]]:
        """Return the nodes that are well, together where groups that passed join them."""
        sides: list[set[str]] = []
        for group in (group for group, passed in self._latest.items() if passed):
            joined = {*filter(self._is_well, group)}.union(*(side for side in sides if side & group))
            sides = [side for side in sides if not side & group] + [joined]
        return [side for side in sides if side]

    def _loud(self) -> list[str]:
        """Return the nodes that failed, without those that never gave a result."""
        failed = [name for name, found in self.verdicts.nodes.items() if found.verdict == FAILED]
        return [name for name in failed if not self._is_silent(name)]

    def _partners(self, name: str) -> list[str]:
        """Return nodes to measure this one with: well, those of its domain first. There is at least one."""
        mine = next(group for group in self._groups if name in group)
        return sorted((one for one in self._fresh() if one != name), key=lambda one: one not in mine)

    def _fresh(self) -> list[str]:
        """Return the nodes that passed in a group since this step upwards, and of which nothing bad is known."""
        passed = {name for group, passed in self._passed.items() if passed for name in group}
        return [name for name in self._labels if name in passed and self._is_well(name)]

    def _is_well(self, name: str) -> bool:
        return name in self._ever and name not in self.verdicts.nodes

    def _is_silent(self, name: str) -> bool:
        return all(result.rate is None for group, result in self._results if name in group)

    def _passes(self, step: str, group: tuple[str, ...], *, again: bool = False) -> Tries:
        """Measure a group, unless it was since this step upwards, and tell whether it reaches the floor."""
        key = frozenset(group)
        if again or key not in self._passed:
            rate = (yield from self._measure(step, group)).rate
            self._passed[key] = self._latest[key] = rate is not None and rate >= (self._floor or 0)
            if self._passed[key]:
                self._ever |= key
        return self._passed[key]

    def _measure(self, step: str, group: tuple[str, ...]) -> Generator[Wanted, Result, Result]:
        if len(self._results) >= MOST_GROUPS:
            message = f"{MOST_GROUPS} groups were measured, and no more are"
            raise Over(message)
        result = yield Wanted(step, group)
        self._results.append((group, result))
        return result

    def _words(self, *groups: tuple[str, ...]) -> str:
        last = {frozenset(group): result for group, result in self._results}
        return "; ".join(f"{_named(group)}: {self._said(last[frozenset(group)])}" for group in groups)

    def _said(self, result: Result) -> str:
        return f"{result.rate:g} GB/s, floor {self._floor:g}" if result.rate is not None else result.why or "no result"

    def _fail(self, name: str, why: str) -> None:
        self.verdicts.nodes[name] = Verdict(FAILED, why)

    def _bound(self, one: tuple[str, ...], other: tuple[str, ...], why: str) -> None:
        self.verdicts.boundaries.append(Boundary(one, other, why))

    def _leave_out(self, names: Iterable[str], why: str) -> None:
        for name in names:
            self.verdicts.nodes.setdefault(name, Verdict(UNTESTED, why))

    def _blame_nobody(self) -> None:
        """Say of no node that it failed, as none is known to be well."""
        if all(self._is_silent(name) for name in self._labels):
            self.verdicts.failure = "no group of nodes gave a result"
        self._leave_out(self._labels, "no two nodes pass together, so it cannot be told which of them is at fault")

    def _judge_silence(self) -> None:
        """Take many nodes that give no result for a fault of the run."""
        failed = [name for name, verdict in self.verdicts.nodes.items() if verdict.verdict == FAILED]
        silent = [name for name in failed if self._is_silent(name)]
        if len(silent) > MOST_SILENT * len(self._labels):
            self.verdicts.failure = f"{len(silent)} of {len(self._labels)} nodes gave no result: {_named(silent)}"


def _whole(names: Iterable[str], domain: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(each for name in names for each in domain[name])


def _mixtures(one: tuple[str, ...], other: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield two groups, each with nodes of both sides."""
    yield (*one[: ceil(len(one) / 2)], *other[: ceil(len(other) / 2)])
    yield (*(one[ceil(len(one) / 2) :] or one), *(other[ceil(len(other) / 2) :] or other))


def _spread_pairs(names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs, first those of neighbours, then of nodes further apart, so that no node holds up the search."""
    for apart in range(1, len(names)):
        for begin in range(len(names) - apart):
            yield names[begin], names[begin + apart]


def _named(names: Iterable[str]) -> str:
    return ", ".join(names)
