# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MIG instances by name, and how they fit on a GPU. Pure.

An instance is named by its profile, as nvidia-smi names it: 3g.40gb, 1g.10gb+me. One that is not filled by one compute
instance carries its compute instances behind that: 3g.40gb(1c+2c), 3g.40gb() for none.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

# Of the facts nvml.gpus[].mig_profiles: name, id, slices, count (how many fit), placements (lists of start and size)
Profile = dict[str, Any]

_NAME = re.compile(r"([1-9]\d?)g\.[1-9]\d{0,3}gb(?:[+-][a-z]+(?:\.[a-z]+)?)*")
_COMPUTE = re.compile(r"([1-9]\d?)c")


class Instance(NamedTuple):
    """A GPU instance: its profile's id, where it lies, and the slices of each of its compute instances."""

    profile: int
    start: int
    size: int
    compute: tuple[int, ...]


def is_profile(name: Any) -> bool:
    """Tell whether something is written like a profile of GPU instances."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name))


def base(name: str) -> str:
    """Return the profile that another one extends or lessens: 1g.10gb of 1g.10gb+me, 1g.24gb of 1g.24gb-me."""
    return re.split(r"[+(-]", name, maxsplit=1)[0]


def in_order(names: Iterable[str]) -> list[str]:
    """Return names of instances in the one order in which layouts are compared and told: the largest first."""
    return sorted(names, key=lambda name: (-int(name.partition("g")[0]), name))


def named(profile: Profile, compute: Iterable[int]) -> str:
    """Return the name of an instance with these compute instances."""
    slices = sorted(compute)
    name = str(profile["name"])
    return name if slices == [profile["slices"]] else f"{name}({'+'.join(f'{count}c' for count in slices)})"


def why_not(names: Iterable[str], profiles: list[Profile]) -> str:
    """Return why a GPU with these profiles cannot have these instances together; "" where it can."""
    wanted = [name.partition("(")[0] for name in names]
    unknown = [name for name in wanted if name not in {profile["name"] for profile in profiles}]
    if unknown:
        return f"it has no profile {', '.join(sorted(set(unknown)))}"
    return "" if lay_out(wanted, profiles) is not None else "they do not fit together"


def told(profiles: list[Profile]) -> str:
    """List the profiles, each with how many fit."""
    return ", ".join(f"{profile['name']} ({profile['count']} fit)" for profile in profiles)


def lay_out(names: Iterable[str], profiles: list[Profile]) -> list[Instance] | None:
    """Find a place for each instance; None where they do not fit together.

    Each slice of the memory is in one instance at most, and so is each slice of the multiprocessors.
    """
    by_name = {profile["name"]: profile for profile in profiles}
    wanted = [(by_name[name.partition("(")[0]], name) for name in in_order(names)]
    counts = Counter(profile["name"] for profile, _name in wanted)
    slices = max((profile["slices"] for profile in profiles), default=0)
    if any(counts[name] > by_name[name]["count"] for name in counts):
        return None
    if sum(profile["slices"] for profile, _name in wanted) > slices:
        return None
    return _place(wanted, frozenset())


def _place(wanted: list[tuple[Profile, str]], taken: frozenset[int]) -> list[Instance] | None:
    if not wanted:
        return []
    (profile, name), *others = wanted
    for start, size in profile["placements"]:
        slices = frozenset(range(start, start + size))
        rest = None if slices & taken else _place(others, taken | slices)
        if rest is not None:
            return [Instance(profile["id"], start, size, _compute(profile, name)), *rest]
    return None


def _compute(profile: Profile, name: str) -> tuple[int, ...]:
    _profile, bracket, rest = name.partition("(")
    return tuple(int(count) for count in _COMPUTE.findall(rest)) if bracket else (profile["slices"],)
