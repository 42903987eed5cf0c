# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the history keeps of a proof, and what it makes of several: docs/history.schema.json says more of each value.

None is what is not known, or what nobody looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import GpuId, ResultRecord

Rates = dict[str, float]


class ReportedGpu(TypedDict):
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


class Dated(TypedDict):
    """When a report was made, and by which gpulab."""

    created: str
    gpulab: str


class Proven(TypedDict):
    """What the history reads of a host of a report."""

    state: str
    detail: str | None
    verdict: str
    level: str | None
    seconds: float | None
    roles: dict[str, float] | None
    simulated: str | None
    boot: str | None
    kernel: str | None
    driver: str | None
    rates: Rates
    gpus: list[ReportedGpu]
    results: list[ResultRecord]


class KeptFinding(TypedDict):
    """A finding of warn and above, as the history keeps it."""

    id: str
    severity: str
    summary: str
    gpu: GpuId | None


class FoundOn(KeptFinding):
    """A finding of a host."""

    host: str


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
