# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a report is made of, and what report.json is written from: docs/report.schema.json says more of each value.

None is what is not known, or what nobody looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    Declared,
    GpuId,
    NotForThisMachine,
    ResultRecord,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.history.model import Changes, Dated, Proven, Trend
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.host_types import Shown

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan


class TaskEnding(TypedDict, total=False):
    """How a task ended that reads or judges a host."""

    unreachable: bool
    failed: bool
    msg: str


class Verified(TaskEnding, total=False):
    """How the task verify ended, and what was declared where it has judged."""

    declared: Declared


class DoneOnHost(TypedDict):
    """What the run did on a host: the tasks that changed it, and the seconds that it, and each role, took there."""

    changed: list[str] | None
    seconds: float | None
    roles: dict[str, float] | None


class GatheredHost(TypedDict):
    """A host of the run: its facts and plan, the results of its checks (none where it was not judged)."""

    groups: list[str]
    facts: dict[str, Any] | None
    plan: Plan | None
    results: list[ResultRecord]
    not_for_this_machine: list[NotForThisMachine]
    verify: Verified
    reading: TaskEnding
    run: DoneOnHost


class ReportedHost(Proven, Shown):
    """A host of a report; changed are the tasks that changed it."""

    name: str
    counts: dict[str, int]
    groups: list[str]
    changed: list[str] | None
    system: str | None
    cuda: list[str]
    environments: list[str]
    not_for_this_machine: list[NotForThisMachine]


class Described(TypedDict):
    """What a check proves, and where it comes from."""

    proves: str
    source: str


class SharedFinding(ResultRecord):
    """A finding, with all GPUs that have it."""

    gpus: list[GpuId]


class TrendOf(Trend):
    """The host that it is of."""

    host: str


class Report(Dated):
    """A report."""

    schema: int
    seconds: float | None
    verdict: str
    counts: dict[str, int]
    checks: dict[str, Described]
    remedies: dict[str, str]
    changes: Changes | None
    trends: list[TrendOf]
    hosts: list[ReportedHost]
