# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the active tests measure, as the module gpu_tests returns it; its documentation says more of each value.

A record has what its test came to, no more: of one that was skipped, a state and a reason.
"""

from __future__ import annotations

from typing import Any, TypedDict


class Error(TypedDict, total=False):
    """What a call, or a program where there is no call, ended with."""

    call: str
    code: int | None
    name: str


class Ended(TypedDict, total=False):
    """How a test ended: done, failed (error), late (seconds), died (reason) or skipped (reason).

    applies is False where the test is not for this node, lacks_pytorch is True where it is not if the node shall have
    no PyTorch. output is what a program printed, until its values are taken from it.
    """

    state: str
    reason: str
    seconds: float
    error: Error
    applies: bool
    lacks_pytorch: bool
    output: str


class Simulation(TypedDict):
    """The simulator's own line, and whether it declares rates."""

    line: str
    rates_declared: bool


class Tried(Ended, total=False):
    """A test of one GPU."""

    simulation: Simulation | None
    elements: int
    bytes: int
    wrong: int
    intact: bool
    to_device_gbs: float
    on_device_gbs: float
    to_host_gbs: float
    memory_gbs: float
    load: str
    runs: int
    minutes: float
    samples: int
    hottest_celsius: int | None
    least_margin: int | None
    slowest_sm_mhz: int | None
    highest_watts: int | None
    event_reasons: int


class Together(Ended, total=False):
    """An all_reduce over the GPUs of a node."""

    gpus: int
    by: str
    all_reduce_gbs: float
    wrong: int | None


PairCopy = TypedDict(
    "PairCopy",
    {
        "from": int,
        "to": int,
        "state": str,
        "reason": str,
        "seconds": float,
        "error": Error,
        "straight": bool,
        "gbs": float,
        "mib": int,
        "wrong_mib": int,
    },
    total=False,
)


class PeerCopies(Ended, total=False):
    """Copies between GPUs; taken says by UUID who has taken a GPU since its own tests."""

    pairs: list[PairCopy]
    taken: dict[str, str]


class InContainer(Ended, total=False):
    """How many GPUs a container sees."""

    image: str
    expected: int
    seen: int


class Reads(TypedDict):
    """Reads of files: by fio or reads, direct past the kernel's cache."""

    by: str
    direct: bool
    bytes: int
    read_mbs: float | None
    random_ms: float | None
    random_iops: int | None


class Opened(Ended, total=False):
    """What can be opened in a directory of data, how fast, and who kept its files from being read."""

    path: str
    files: int
    left_out: int
    latency_ms: float
    left_alone: str


class MeasuredMount(Opened, total=False):
    """A directory of data."""

    by: str
    direct: bool
    bytes: int
    read_mbs: float | None
    random_ms: float | None
    random_iops: int | None


class Loading(Ended, total=False):
    """How PyTorch loads the data of a directory: samples a second by source and number of workers."""

    path: str
    rates: dict[str, dict[str, float]]
    workers: int
    feeds: float
    eats: float | None
    limit: str | None


class Across(Ended, total=False):
    """One node's part of an all_reduce over nodes."""

    backend: str
    name: str
    nodes: list[str]
    meeting_point: str
    interface: str
    taking_part: dict[str, list[int]]
    missing: dict[str, str]
    stands: dict[str, str]
    phase: str | None
    processes: int
    algorithm_gbs: float
    lowest_gbs: float
    highest_gbs: float
    all_reduce_gbs: float
    wrong: int


class OnRail(Ended, total=False):
    """A program of perftest over one port, with the other node of a pair."""

    device: str
    port: int
    test: str
    mtu: int
    write_gbps: float
    latency_us: float


class WithPeer(TypedDict, total=False):
    """What came of a pair, as one of its nodes saw it."""

    peer: str
    state: str
    reason: str
    rails: list[OnRail]


class Over(Ended, total=False):
    """One node's part of RDMA between pairs of nodes."""

    name: str
    nodes: list[str]
    meeting_point: str
    pairs: list[WithPeer]


class Met(TypedDict, total=False):
    """Who of the nodes is missing, and why; or why the first node was not met."""

    missing: dict[str, str]
    unreachable: str


class Errors(TypedDict):
    """Counters of errors of a GPU, and how often each came in the kernel log."""

    uncorrected: int | None
    remapped_rows: int | None
    kernel_log: dict[str, int]


class BeforeAndAfter(TypedDict):
    """The errors before the tests, and after them."""

    before: Errors | None
    after: Errors | None


class TestedGpu(TypedDict, total=False):
    """A GPU that NVML lists, and its tests by name."""

    index: int
    name: str | None
    uuid: str
    bus_id: str
    device: str | None
    tests: dict[str, Tried]
    errors: BeforeAndAfter
    simulation: Simulation | None


class Measurements(TypedDict):
    """All that was measured. simulated is the simulator's line, None on real GPUs."""

    schema: int
    level: str
    python: str | None
    simulated: str | None
    rates_declared: bool
    gpus: list[TestedGpu]
    peer_copies: PeerCopies
    all_reduce: Together
    container: InContainer
    mounts: list[MeasuredMount]
    data_loading: list[Loading]


NvmlGpu = dict[str, Any]  # as module_utils/nvml reads it, where each value may be what NVML answered in its place
