# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a month's page says, also in usage.json: docs/usage.schema.json.

Times are in seconds since 1970, hours are those of a GPU. held is what jobs of Slurm had, used what processes of people
had open, idle what was held and not used. null is what no source says; it is not zero. kwh is the energy of the boards
alone, cost its price.
"""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA = 1


@dataclass(frozen=True)
class Use:
    """What somebody used in the month; name is that of a group, a person or a node, empty where there is none."""

    name: str
    held: float | None
    used: float | None
    idle: float | None
    kwh: float | None
    cost: float | None


@dataclass(frozen=True)
class NodeUse(Use):
    """What was used on a node; kwh is that of all its GPUs, also those that nobody used.

    measured has the hours in which the node was watched, gpus the hours of its GPUs in them.
    estimated tells that its energy comes from looks at its power, as its GPUs count none.
    """

    measured: float | None
    gpus: float | None
    estimated: bool


@dataclass(frozen=True)
class Source:
    """Where the numbers come from; known tells whether it answered, text what it said, or why not."""

    name: str
    known: bool
    text: str


@dataclass(frozen=True)
class Usage:
    """A month. until is the end of what is known, before end where the month goes on; users is null without names."""

    schema: int
    month: str
    time_zone: str
    start: int
    end: int
    until: int
    price_kwh: float | None
    currency: str
    sources: list[Source]
    notes: list[str]
    total: Use
    nobody_kwh: float | None
    groups: list[Use]
    users: list[Use] | None
    nodes: list[NodeUse]
