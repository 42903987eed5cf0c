"""Clusters that are simulated: which nodes and which ways between them are slow, and since which measurement."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.acceptance.ladder import Ladder, Result

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.acceptance.ladder import Wanted

HEALTHY, SLOW, FLOOR = 4.3, 0.19, 2.0


def dice(seed):
    """Return numbers by chance, the same again by the seed."""
    return random.Random(seed)  # noqa: S311 - a simulation


def named(count):
    """Return so many names."""
    return [f"n{number:02}" for number in range(count)]


@dataclass
class Cluster:
    """A cluster whose groups give a rate. bad: nodes with a slow link; silent: nodes from which nothing comes.

    trunks: pairs of sets of nodes, the way between which is slow. from_step: what is bad is so from this step on.
    heals: what is bad is so only in the first measurements, this many.
    """

    count: int
    bad: Collection[str] = ()
    silent: Collection[str] = ()
    trunks: Sequence[tuple[set[str], set[str]]] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    from_step: str | None = None
    heals: int | None = None
    noise: random.Random | None = None
    asked: list[Wanted] = field(default_factory=list)

    @property
    def names(self):
        """Return the names of the nodes."""
        return named(self.count)

    def result(self, wanted):
        """Return what this group gives."""
        self.asked.append(wanted)
        group = set(wanted.nodes)
        well = self.noise.uniform(0.75, 1.0) * HEALTHY if self.noise else HEALTHY
        if self.from_step and self.from_step not in {asked.step for asked in self.asked}:
            return Result(well, 0.99 * well, 1.01 * well)
        if self.heals is not None and len(self.asked) > self.heals:
            return Result(well, 0.99 * well, 1.01 * well)
        if group & {*self.silent}:
            return Result(None, why="did not come")
        if group & {*self.bad} or any(group & one and group & other for one, other in self.trunks):
            return Result(SLOW, SLOW, SLOW)
        return Result(well, 0.99 * well, 1.01 * well)

    def climb(self, floor=FLOOR):
        """Return the verdicts of a whole ladder."""
        ladder = Ladder({name: self.labels.get(name) for name in self.names}, floor, 0.5)
        steps = ladder.climb()
        result = None
        try:
            while True:
                result = self.result(steps.send(result))
        except StopIteration:
            return ladder.verdicts


def by_verdict(verdicts, verdict):
    """Return the names of the nodes with this verdict."""
    return {name for name, found in verdicts.nodes.items() if found.verdict == verdict}
