# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of a package manager, and what one transaction of it changes. No I/O happens here."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.changes import Changes, changes

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Wishes:
    """What is wanted: names to be present (or name=version), absent and given up; names and globs on and off hold."""

    present: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    hold: tuple[str, ...] = ()
    unhold: tuple[str, ...] = ()
    retire: tuple[str, ...] = ()

    def of_packages(self) -> list[str]:
        """Return the wishes that take a transaction; holds do not."""
        return [*self.present, *self.absent, *self.retire]


@dataclass(frozen=True)
class Plan:
    """One transaction: what is new, what changes its version (before, after), what goes (version before)."""

    install: dict[str, str] = field(default_factory=dict)
    change: dict[str, tuple[str, str]] = field(default_factory=dict)
    remove: dict[str, str] = field(default_factory=dict)


def split(wish: str) -> tuple[str, str]:
    """Return the name and the version pattern ("*" for any) of name or name=version."""
    name, _equals, version = wish.partition("=")
    return name, version or "*"


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Say whether any of these names and globs names a package."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def changes_of(plan: Plan, not_listed: Iterable[str]) -> Changes:
    """Return the packages by what happens to them; what the package lists do not have yet is installed, too."""
    return changes(
        install=[*(f"{name} {version}" for name, version in sorted(plan.install.items())), *not_listed],
        change=[f"{name} {old} -> {new}" for name, (old, new) in sorted(plan.change.items())],
        remove=[f"{name} {version}" for name, version in sorted(plan.remove.items())],
    )


def diff(plan: Plan, todo: Wishes, not_listed: tuple[str, ...] = ()) -> dict[str, str]:
    """Return what changes, for people: one package a line, before and after."""
    before = [(name, f"{name} {version}") for name, version in plan.remove.items()]
    before += [(name, f"{name} {old}") for name, (old, _new) in plan.change.items()]
    after = [(name, f"{name} {version}") for name, version in plan.install.items()]
    after += [(name, f"{name} {new}") for name, (_old, new) in plan.change.items()]
    after += [(wish, f"would install {wish} (not yet in the package lists)") for wish in not_listed]
    after += [(f"{name} hold", f"{name} on hold") for name in todo.hold]
    before += [(f"{name} hold", f"{name} on hold") for name in todo.unhold]
    return {
        "before_header": "packages",
        "after_header": "packages",
        "before": "".join(f"{line}\n" for _name, line in sorted(before)),
        "after": "".join(f"{line}\n" for _name, line in sorted(after)),
    }
