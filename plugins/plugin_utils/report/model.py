# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a report is made of, and what report.json holds: docs/report.schema.json says more of each value.

None is what is not known, or what nobody looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import GpuId, ResultRecord
from ansible_collections.gpulab.node.plugins.plugin_utils.host_types import Shown

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan


Rates = dict[str, float]


class Ending(TypedDict, total=False):
    """How a task ended that reads or judges a host."""

    unreachable: bool
    failed: bool
    msg: str


class Verified(Ending, total=False):
    """How the task verify ended, and what was declared where it has judged."""

    declared: dict[str, Any]


class Done(TypedDict):
    """What the run did on a host: the tasks that changed it, and how long it took there."""

    changed: list[str] | None
    seconds: float | None


class NotForThisMachine(TypedDict):
    """A check that is not for a host, or one of its GPUs, and why."""

    id: str
    reason: str | None
    gpu: GpuId | None


class Gathered(TypedDict):
    """A host of the run: its facts and plan, the results of its checks (none where it was not judged)."""

    groups: list[str]
    facts: dict[str, Any] | None
    plan: Plan | None
    results: list[ResultRecord]
    not_for_this_machine: list[NotForThisMachine]
    verify: Verified
    reading: Ending
    run: Done


class Gpu(TypedDict):
    """A GPU of a host; of one that does not answer, only what the PCI bus shows."""

    index: int | None
    model: str | None
    device: str | None
    uuid: str | None
    serial: str | None
    bus_id: str | None
    vbios: str | None
    memory_mib: int | None
    pcie: str | None
    power_limit_watts: int | None
    temperature_celsius: int | None
    ecc: bool | None
    last_xid: int | None
    xids: dict[str, int] | None
    ecc_corrected: int | None
    ecc_uncorrected: int | None
    remapped_rows: int | None
    replays: int | None
    rates: Rates | None


class Host(Shown, Done):
    """A host of a report."""

    name: str
    state: str
    detail: str | None
    verdict: str
    counts: dict[str, int]
    groups: list[str]
    level: str | None
    simulated: str | None
    system: str | None
    kernel: str | None
    driver: str | None
    cuda: list[str]
    environments: list[str]
    rates: Rates
    gpus: list[Gpu]
    results: list[ResultRecord]
    not_for_this_machine: list[NotForThisMachine]


class Described(TypedDict):
    """What a check proves, and where it comes from."""

    proves: str
    source: str


class Found(TypedDict):
    """A finding of warn and above, as the history keeps it."""

    id: str
    severity: str
    summary: str
    gpu: GpuId | None


class FoundOn(Found):
    """A finding of a host."""

    host: str


class Finding(ResultRecord):
    """A finding, with all GPUs that have it."""

    gpus: list[GpuId]


class Changes(TypedDict):
    """What is new and gone since earlier proofs of the same hosts."""

    earlier: str
    new: list[FoundOn]
    gone: list[FoundOn]
    hosts_added: list[str]
    hosts_removed: list[str]


class Worse(TypedDict):
    """What gets worse from proof to proof of a GPU, or of a host."""

    gpu: GpuId | None
    summary: str
    remediation: str


class Trend(Worse):
    """The rule that found it."""

    rule: str


class TrendOf(Trend):
    """The host that it is of."""

    host: str


class Report(TypedDict):
    """A report."""

    schema: int
    created: str
    gpulab: str
    seconds: float | None
    verdict: str
    counts: dict[str, int]
    checks: dict[str, Described]
    remedies: dict[str, str]
    changes: Changes | None
    trends: list[TrendOf]
    hosts: list[Host]
