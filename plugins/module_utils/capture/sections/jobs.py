# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node starts by itself, as its capture says it; secrets in commands and variables are hidden."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CronJob:
    """What cron or anacron starts.

    schedule is as crontab(5) writes it (five fields, or @daily), "N days" for anacron, hourly and so on for a script of
    such a directory, whose command is its path. environment has the variables of the file that stand before the line.
    runs is False where cron passes over the file, for its name or because nobody may execute it; package tells whether
    a package brought the file.
    """

    path: str
    user: str
    schedule: str
    command: str
    environment: dict[str, str]
    runs: bool
    package: bool


@dataclass(frozen=True)
class AtJob:
    """A job of at; time is UTC, ISO 8601."""

    path: str
    user: str
    time: str | None


@dataclass(frozen=True)
class Unit:
    """A file of a unit that no package has.

    kind is unit; drop-in, a file that changes a unit; mask, which forbids one; or link, another name of a unit or one
    that lies elsewhere, by target. manager is system or user; user is who made it, None for all; linger tells whether
    that user's units start without a login. enabled and active are systemd's words, as of the unit; without systemd's
    answer, and for users' units, enabled is by the links, and active None. instances are those of a template that are
    enabled; gpulab tells whether a run of gpulab writes the file.
    """

    path: str
    unit: str
    kind: str
    target: str | None
    manager: str
    user: str | None
    linger: bool
    enabled: str
    active: str | None
    instances: list[str]
    gpulab: bool


@dataclass(frozen=True)
class Timer:
    """A timer among the units; schedule are the lines of [Timer] that say when."""

    path: str
    unit: str
    user: str | None
    enabled: str
    active: str | None
    schedule: list[str]
    activates: str


@dataclass(frozen=True)
class Jobs:
    """What a node starts by itself; unit_states has enabled, disabled or masked of each unit file of the system."""

    cron: list[CronJob]
    at: list[AtJob]
    units: list[Unit]
    timers: list[Timer]
    unit_states: dict[str, str] | None
