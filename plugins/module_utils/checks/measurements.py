# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of what the active tests measured: GPUs that compute, as right and as fast as boards of their kind.

A rate is held against the board's floor, and against the other GPUs of the node. On a simulated GPU rates mean nothing:
there they are not judged, unless the simulator declares them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import wraps
from statistics import median
from typing import TYPE_CHECKING, Any, Callable

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    Facts,
    Node,
    Result,
    check,
    fail,
    inapplicable,
    info,
    ok,
    skipped,
    unknown,
    warn,
)
from ansible_collections.gpulab.node.plugins.module_utils.checks.thermal import (
    HW_POWER_BRAKE,
    HW_SLOWDOWN,
    HW_THERMAL,
    SW_THERMAL,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Find = Callable[[Node], Iterator[Result]]

DRIVER_API = "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html"
EVENT_REASONS = "https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html"
BUS_BANDWIDTH = "https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md"
PROFILES = "catalog/profiles.yml"
PEER_GUIDE = "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__PEER__ACCESS.html"
# The ways between two GPUs, and what stands in the last one.
HOST, NVLINK, PCIE = "the path through the host", "NVLink", "PCI Express"
PEER_RATE = "peer_gbs"
PEER_PATH = "ACS or a translating IOMMU is between the GPUs"
SHOWN = 4
ENOUGH_BYTES = 1 << 30  # of reads in a row: less may come from a disk's own cache
MOUNTS = "https://man7.org/linux/man-pages/man5/nfs.5.html"
CONTAINERS = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/sample-workload.html"

# A GPU slower than this share of its siblings' median has a fault that they have not.
SIBLING_SHARE = 0.85
# Of pairs: two GPUs that one NVLink joins have half the rate of two that a pair of them joins, and no fault.
PAIR_SHARE = 0.45
# Of what all active InfiniBand and RoCE ports of a node carry together: bus bandwidth is comparable with the slowest
# link's (nccl-tests, doc/PERFORMANCE.md), the node's own share of the way; loose, for not every port need serve NCCL.
NETWORK_SHARE = 0.4
# How far a node came in a run that hangs, the least first; what else a node is said to be is that it gives no answer.
PHASES = {
    "nothing": "its processes do not start",
    "started": "PyTorch does not load, or its GPUs do not answer",
    "computes": "its processes cannot reach those of the other nodes",
    "joined": "its processes reach those of the other nodes, but data does not pass",
    "reduced": "one sum arrived, then the data stopped",
    "measured": "it finished measuring, but does not end",
}
# GB/s of one PCIe lane by generation, one way, and the share of it that pinned copies exceed on every healthy node:
# V100 nodes pass Azure's 9 GB/s of 15.75, A100 21 of 31.5, H100 48 of 63 (Azure/azurehpc-health-checks conf, 2026-05).
LANE_GBS = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
LINK_SHARE = 0.6


@dataclass(frozen=True)
class Rate:
    """A rate that a test measures: where it lies in the test's record, and how a finding speaks of it."""

    test: str
    key: str
    unit: str
    label: str
    remedy: str


COPIES = (
    Rate("copies", "to_device_gbs", "GB/s", "copies to the GPU", "check_seating"),
    Rate("copies", "to_host_gbs", "GB/s", "copies to the host", "check_seating"),
)
MEMORY = Rate("memory", "memory_gbs", "GB/s", "triad", "contact_support")
ACROSS = Rate("nodes_all_reduce", "nodes_all_reduce_gbs", "GB/s", "bus bandwidth over the nodes", "check_network")
ALL_REDUCE = Rate("all_reduce", "all_reduce_gbs", "GB/s", "bus bandwidth", "contact_support")

# Counters that a load may raise: what they count, and the remedy.
ERRORS = {
    "uncorrected": ("uncorrectable memory errors", "reset_gpu"),
    "remapped_rows": ("rows remapped after uncorrectable errors", "reset_gpu"),
}
# cuda.h: what a failed call says of a GPU on which nobody else works, and the remedy.
CUDA_FAILURES = {
    2: ("memory is held on a GPU that shows no process", "reset_gpu"),
    46: ("its compute mode forbids this, or another process uses it exclusively", "stop_app"),
    100: ("NVML lists the GPU, but CUDA sees none", "reinstall_driver"),
    101: ("NVML lists the GPU, but CUDA does not", "reboot"),
    214: ("the GPU had an uncorrectable memory error", "reset_gpu"),
    218: ("the driver cannot compile for this GPU", "upgrade_driver"),
    220: ("the GPU had an uncorrectable NVLink error", "reset_gpu"),
    222: ("the driver is too old for this GPU", "upgrade_driver"),
    802: ("the GPU waits for the Fabric Manager", "start_fabricmanager"),
    803: ("the driver's library and its module differ", "reboot"),
    804: ("a compatibility library of another CUDA version is used", "reinstall_driver"),
}
# A known-good kernel does none of this: assertion, illegal address, illegal instruction, misaligned address, failure.
CUDA_MISBEHAVIOUR = {700, 710, 715, 716, 719}
# What PyTorch, NCCL and Docker print, and the remedy.
PROGRAM_FAILURES = (
    ("No module named", "install_software"),
    ("sees no GPU", "upgrade_software"),
    ("no kernel image", "upgrade_software"),
    ("out of memory", "reset_gpu"),
    ("device-side assert", "contact_support"),
    ("not installed", "install_software"),
    ("No such image", "install_software"),
    ("No such file", "install_software"),
    ("could not select device driver", "configure"),
    ("nvidia-container-cli", "configure"),
    ("unresolvable CDI devices", "configure"),
)


def measured(find: Find) -> Find:
    """Let a check speak only where tests ran."""

    @wraps(find)
    def found(node: Node) -> Iterator[Result]:
        if node.facts.get("measurements.gpus"):
            yield from find(node)
        elif node.facts.get("measurements.gpus") is not None:
            yield node.without("NVML lists no GPU (see driver-responsive)")
        elif node.declared.get("level", "quick") == "quick":
            yield inapplicable("level quick does not load the GPUs; level standard does (verify_level)")
        else:
            yield unknown("no measurements were made")

    return found


@check("cuda-smoke", proves="every GPU computes correct results", source=DRIVER_API)
@measured
def cuda_smoke(node: Node) -> Iterator[Result]:
    """Count wrong results of a known kernel."""
    return _of_each(node, "smoke", lambda _gpu, record: [_correct(record)])


@check(
    "copy-rate", proves="copies between host and GPU are correct and as fast as the PCIe link allows", source=PROFILES
)
@measured
def copy_rate(node: Node) -> Iterator[Result]:
    """Hold both directions against the floor and the siblings."""

    def judge(gpu: Facts, record: Facts) -> Iterator[Result]:
        if record["intact"]:
            yield from (_rate(node, gpu, rate) for rate in COPIES)
        else:
            yield fail("data copied to the GPU and back has changed", "contact_support")

    return _of_each(node, "copies", judge)


@check("memory-bandwidth", proves="the GPU's memory is as fast as on boards of its kind", source=PROFILES)
@measured
def memory_bandwidth(node: Node) -> Iterator[Result]:
    """Judge the triad's results, then its rate."""
    return _of_each(
        node, "memory", lambda gpu, record: [_correct(record) if record["wrong"] else _rate(node, gpu, MEMORY)]
    )


@check(
    "matmul-rate", proves="PyTorch multiplies matrices on every GPU as fast as on boards of its kind", source=PROFILES
)
@measured
def matmul_rate(node: Node) -> Iterator[Result]:
    """Judge each precision that the board and this PyTorch have."""

    def judge(gpu: Facts, record: Facts) -> Iterator[Result]:
        if record["wrong"]:
            yield _correct(record)
            return
        for key in sorted(key for key in record.data if key.endswith("_tflops")):
            yield _rate(node, gpu, Rate("matmul", key, "TFLOPS", key.partition("_")[0], "check_cooling"))

    return _of_each(node, "matmul", judge)


@check("peer-copies", proves="copies between GPUs are correct and fast", source=PEER_GUIDE)
@measured
def peer_copies(node: Node) -> Iterator[Result]:
    """Judge the data of every pair of GPUs, and the rate of those that reach each other without the host's help."""
    record = node.facts["measurements.peer_copies"]
    if record["state"] != "done":
        yield _left_out(node, record)
        return
    taken = record.data.get("taken", {})
    for gpu in node.facts["measurements.gpus"]:
        if gpu.get("uuid") in taken:
            yield replace(skipped(taken[gpu["uuid"]]), gpu=gpu.identity())
    copies = [_Copy(pair, _way(node, pair)) for pair in record["pairs"]]
    yield from _grouped(copies, lambda copy: _kept_or_wrong(node, copy))
    if rates_mean_something(node.facts):
        yield from _grouped(copies, lambda copy: _slow(node, copy, copies))
    arrived = [copy for copy in copies if copy.arrived]
    if arrived:
        yield _all_that_arrived(arrived, len(copies))


@dataclass(frozen=True)
class _Copy:
    """A copy between two GPUs, and the way it took: (its kind, "" or how the GPUs lie to each other)."""

    record: Facts
    way: tuple[str, str]

    @property
    def arrived(self) -> bool:
        return self.record["state"] == "done" and not self.record["wrong_mib"]

    @property
    def rate(self) -> float | None:
        """GB/s of a copy that took no detour."""
        return self.record["gbs"] if self.arrived and self.way[0] != HOST else None


def _way(node: Node, pair: Facts) -> tuple[str, str]:
    if not pair.get("straight"):
        return HOST, ""
    ends = {pair["from"], pair["to"]}
    known = next((peers for peers in node.facts.get("nvml.peers", []) if set(peers.get("gpus", ())) == ends), None)
    if known and known.get("nvlink") == "ok":
        return NVLINK, ""
    return PCIE, str(known.get("ancestor")) if known else ""


def _kept_or_wrong(node: Node, copy: _Copy) -> Result | None:
    """Return what kept a copy from its end, or that other data arrived; the summary has the pairs put before it."""
    way, record = copy.way[0], copy.record
    if record["state"] == "late":
        return fail(
            f"a copy does not end within {record['seconds']:g} s",
            "reboot",
            reason=f"{PEER_PATH}, where copies can hang; a reboot restores the GPUs"
            if way == PCIE
            else "the driver does not answer, or a GPU hangs",
        )
    if record["state"] == "skipped":
        return unknown(record["reason"])
    if record["state"] != "done":
        return _kept(node, record, "a copy")
    if not record["wrong_mib"]:
        return None
    summary = f"{way} corrupts data"
    if way == PCIE:
        return fail(summary, "clear_peer_path", reason=PEER_PATH)
    return fail(summary, "contact_support", reason="neither ACS nor the IOMMU is on this path")


def _slow(node: Node, copy: _Copy, copies: list[_Copy]) -> Result | None:
    """Hold a pair against the board's floor, then against the pairs that are joined alike."""
    if copy.rate is None:
        return None
    floor = _floor_between(node, copy)
    remedy = "check_seating" if copy.way[0] == PCIE else "contact_support"
    if floor is not None and copy.rate < floor:
        summary = f"{copy.way[0]} carries less than {floor:g} GB/s"
        return fail(summary, remedy, observed=copy.rate, expected=floor, unit="GB/s")
    usual = median(other.rate for other in copies if other.way == copy.way and other.rate is not None)
    if copy.rate < PAIR_SHARE * usual:
        summary = f"{copy.way[0]} carries less than half of the {usual:g} GB/s that it carries between their siblings"
        return warn(summary, remedy, observed=copy.rate, expected=usual, unit="GB/s")
    return None


def _floor_between(node: Node, copy: _Copy) -> float | None:
    """Return the operator's floor, else the board's, which holds where NVSwitches join all GPUs alike."""
    own: dict[str, float | None] = (node.declared.get("profile") or {}).get("floors", {})
    if PEER_RATE in own or not node.facts.get("pci.nvswitches"):
        return own.get(PEER_RATE)
    board = next((gpu for gpu in node.facts["measurements.gpus"] if gpu.get("index") == copy.record["from"]), None)
    floors: dict[str, float | None] = node.profile(board).get("floors", {}) if board else {}
    return floors.get(PEER_RATE)


def _grouped(copies: list[_Copy], judge: Callable[[_Copy], Result | None]) -> Iterator[Result]:
    """Yield what judge says of copies, once for all pairs of which it says the same with their names."""
    found: dict[tuple[str, str, str | None], list[tuple[_Copy, Result]]] = {}
    for copy in copies:
        result = judge(copy)
        if result:
            found.setdefault((result.severity, result.summary, result.reason), []).append((copy, result))
    for group in found.values():
        names = [f"GPU {copy.record['from']} to GPU {copy.record['to']}" for copy, _result in group]
        shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more pairs" if len(names) > SHOWN else "")
        worst = min((result for _copy, result in group), key=lambda result: result.observed or 0)
        if worst.severity == "unknown":
            yield replace(worst, reason=f"{shown}: {worst.reason}")
        else:
            yield replace(worst, summary=f"{shown}: {worst.summary}")


def _all_that_arrived(arrived: list[_Copy], count: int) -> Result:
    straight = [copy.rate for copy in arrived if copy.rate is not None]
    rates = f", {min(straight):g} to {max(straight):g} GB/s between {len(straight)} pairs" if straight else ""
    detour = len(arrived) - len(straight)
    through = f", {detour} of them through the host" if detour else ""
    return ok(f"copies between {len(arrived)} of {count} pairs arrive as sent{through}{rates}", len(arrived))


@check("all-reduce", proves="the node's GPUs exchange data correctly and fast", source=PROFILES)
@measured
def all_reduce(node: Node) -> Iterator[Result]:
    """Judge bus bandwidth against the boards' floor, where their fabric has one."""
    record = node.facts["measurements.all_reduce"]
    kept = _kept(node, record, "the all_reduce")
    if kept:
        yield kept
    elif record.optional("wrong"):
        yield _correct(record)
    elif not rates_mean_something(node.facts):
        yield SIMULATED
    else:
        floors = node.profile(node.facts["measurements.gpus"][0]).get("floors", {})
        yield _against_floor(ALL_REDUCE, record["all_reduce_gbs"], floors.get(ALL_REDUCE.key))


@check("all-reduce-nodes", proves="the run's nodes exchange data correctly and fast", source=BUS_BANDWIDTH)
def all_reduce_nodes(node: Node) -> Iterator[Result]:
    """Name the node that did not come, or what kept this one; then judge result and bus bandwidth."""
    if not node.declared.get("across_nodes") or node.declared.get("level", "quick") == "quick":
        yield inapplicable("not requested (verify_across_nodes, at level standard)")
        return
    record = node.facts.get("measurements.nodes_all_reduce")
    if node.facts.get("measurements.gpus") is None:
        yield unknown("no measurements were made")
        return
    if record is None:
        yield fail(
            "this node gave no answer while the nodes ran one all_reduce",
            "check_network",
            reason="it died, or it hangs",
        )
        return
    yield _kept_from_the_others(node, record) or _across(node, record)


def _kept_from_the_others(node: Node, record: Facts) -> Result | None:
    """Return what kept the nodes from running together; None where they ran."""
    state = record["state"]
    if state == "unreachable":
        summary = f"{record['nodes'][0]} cannot be reached at {record['meeting_point']} from {record['interface']}"
        return fail(summary, "check_network", reason=record["reason"])
    if state == "missing":
        missing = record["missing"].data
        summary = f"no all_reduce over {len(record['nodes'])} nodes without {', '.join(sorted(missing))}"
        why = "; ".join(f"{name}: {reason}" for name, reason in sorted(missing.items()))
        if record["name"] != record["nodes"][0]:  # it came, and the first one names who did not
            return unknown(why)
        return fail(summary, "check_network", reason=why, observed=len(record["nodes"]) - len(missing))
    if state == "late":
        return fail(
            f"the all_reduce over {', '.join(record['nodes'])} did not end within {record['seconds']:g} s",
            "check_network",
            reason=_behind(record.get("stands")),
        )
    what = f"the all_reduce over {len(record['nodes'])} nodes" if state == "failed" else ""
    return _kept(node, record, what, "check_network")


def _behind(stands: Facts | None) -> str:
    """Name the nodes that came less far than the others; where all stand at one point it is what lies between them."""
    far = list(PHASES)
    reached = {
        name: far.index(phase) if phase in far else -1 for name, phase in (stands.data if stands else {}).items()
    }
    if not reached:
        return "the first node does not report how far the others came"
    least = min(reached.values())
    said = PHASES[far[least]] if least >= 0 else "it no longer answers"
    names = sorted(name for name, phase in reached.items() if phase == least)
    return (
        f"all nodes stopped at the same point; each says: {said}"
        if len(names) == len(reached)
        else f"{', '.join(names)}: {said}"
    )


def _across(node: Node, record: Facts) -> Result:
    if record["wrong"]:
        return _correct(record)
    rate, nodes = record["all_reduce_gbs"], f"{len(record['nodes'])} nodes, {record['processes']} processes"
    if record["backend"] != "nccl":
        reason = "measured with Gloo on the processors, because all GPUs are simulated; the rate is not judged"
        return ok(f"{nodes}: bus bandwidth {rate:g} GB/s", rate, unit="GB/s", reason=reason)
    own: dict[str, float | None] = (node.declared.get("profile") or {}).get("floors", {})
    ports = [port.get("rate_gbps") or 0 for port in node.facts.get("infiniband", []) if port.get("state") == "active"]
    floor = own.get(ACROSS.key, NETWORK_SHARE * sum(ports) / 8)
    # Each GPU has its own way to the ports: the node that brings the smallest share of its GPUs sets the pace of all.
    brought = [(name, gpus, of) for name, (gpus, of) in record["taking_part"].data.items()]
    name, gpus, of = min(brought, key=lambda one: one[1] / one[2], default=("", 1, 1))
    floor = round(floor * gpus / of, 1) or None if floor else None
    result = _against_floor(ACROSS, rate, floor)
    if gpus == of or floor is None:
        return result
    return replace(result, reason=f"{gpus} of {of} GPUs of {name} took part, so the floor is reduced to that share")


@check("container-gpu", proves="a container sees every GPU", source=CONTAINERS)
@measured
def container_gpu(node: Node) -> Iterator[Result]:
    """Compare what nvidia-smi lists in a container with what NVML lists outside."""
    record = node.facts["measurements.container"]
    kept = _kept(node, record, "docker run", otherwise="configure")
    if kept:
        yield kept
    elif record["seen"] != record["expected"]:
        seen = {"observed": record["seen"], "expected": record["expected"], "unit": "GPUs"}
        yield fail(f"a container sees {record['seen']} of {record['expected']} GPUs", "configure", **seen)
    else:
        yield ok(f"a container sees {record['seen']} GPUs", record["seen"])


@check("dataset-mounts", proves="the data directories answer, and as fast as declared", source=MOUNTS)
@measured
def dataset_mounts(node: Node) -> Iterator[Result]:
    """Compare each directory's latency and throughput with what is declared of it."""
    if not node.facts["measurements.mounts"]:
        yield inapplicable("no directory of data is named (storage_tiers, verify_mounts)")
    declared = {mount["path"]: mount for mount in node.declared.get("mounts") or ()}
    for record in node.facts["measurements.mounts"]:
        yield _mount(node, record, declared.get(record["path"], {}))


def _mount(node: Node, record: Facts, declared: dict[str, Any]) -> Result:
    path = record["path"]
    if record["state"] == "late":
        return fail(f"{path} does not answer within {record['seconds']:g} s", "check_storage")
    if record["state"] != "done":
        return fail(f"{path} cannot be read", "check_storage", reason=record["error.name"])
    if not record["files"]:
        return warn(f"{path} contains no files", "check_storage", reason="it may not be mounted")
    return _below_declared(record, declared) or _below_class(node, record, declared) or _mount_told(record)


def _below_declared(record: Facts, declared: dict[str, Any]) -> Result | None:
    """Return how a directory falls short of what its operator declares; None where it does not."""
    path, rate, latency = record["path"], record.get("read_mbs") or 0, record["latency_ms"]
    least, most = declared.get("least_mbs"), declared.get("most_ms")
    if least is not None and rate < least and not record.get("left_alone"):
        return fail(f"{path} reads {rate} MB/s", "check_storage", observed=rate, expected=least, unit="MB/s")
    if most is not None and latency > most:
        return fail(f"{path} takes {latency} ms to open", "check_storage", observed=latency, expected=most, unit="ms")
    return None


def _below_class(node: Node, record: Facts, declared: dict[str, Any]) -> Result | None:
    """Return how a directory of which nothing is declared falls short of its class; None where it does not."""
    usual, path, latency = node.catalog.get("data_path", {}), record["path"], record["latency_ms"]
    if declared.get("most_ms") is None and usual and latency > usual["bad_ms"]:
        text = f"{path} takes {latency} ms to open a small file; {usual['good_ms']} ms is good"
        return warn(text, "check_storage", observed=latency, expected=usual["bad_ms"], unit="ms")
    enough = record.get("direct") and record.get("bytes", 0) >= ENOUGH_BYTES
    figure = _figure(node, path, usual) if enough and declared.get("least_mbs") is None else None
    if figure is not None and record["read_mbs"] < usual["share"] * figure:
        text = f"{path} reads {record['read_mbs']} MB/s; disks of its class read {figure}"
        floor = round(usual["share"] * figure)
        return warn(text, "check_disk", observed=record["read_mbs"], expected=floor, unit="MB/s")
    return None


def _mount_told(record: Facts) -> Result:
    path, latency, alone = record["path"], record["latency_ms"], record.get("left_alone")
    if alone:
        return ok(f"{path}: {latency} ms", latency, unit="ms", reason=f"its reads are not measured: {alone}")
    rate, often = record.get("read_mbs") or 0, record.get("random_iops")
    more = f", {often} random reads a second, {record['random_ms']} ms each" if often else ""
    return ok(f"{path}: {rate} MB/s, {latency} ms{more}", rate, unit="MB/s")


def _figure(node: Node, path: str, usual: dict[str, Any]) -> int | None:
    """Return what disks of the class that a directory is on read; None where that class, or its disk, is not known."""
    holding = [one for one in node.facts["filesystems"] if f"{path}/".startswith(f"{one['mount'].rstrip('/')}/")]
    source = str(max(holding, key=lambda one: len(one["mount"]))["source"]) if holding else ""
    named = re.fullmatch(r"/dev/(nvme\d+n\d+|[a-z]+)(?:p?\d+)?", source)
    disk = next((one for one in node.facts["hardware.disks"] if named and one["name"] == named.group(1)), None)
    if disk is None:
        return None
    link, port = disk.get("link.max_speed_gts"), disk.get("port_link.max_speed_gts")
    speed = min(link or 0, port or link or 0)
    fitting = [
        one["read_mbs"]
        for one in usual.get("disks", ())
        if one["class"] == disk["class"] and speed >= one.get("link_gts", 0)
    ]
    return max(fitting, default=None)


@check(
    "data-loading",
    proves="PyTorch loads data as fast as a GPU trains, by the number of workers that pays",
    source="https://docs.pytorch.org/docs/stable/data.html",
)
@measured
def data_loading(node: Node) -> Iterator[Result]:
    """Tell what limits the loading of each directory's data: a node out of balance has no fault."""
    records = node.facts["measurements"].get("data_loading", [])
    if not records:
        yield inapplicable("no directory of data is named (storage_tiers, verify_mounts)")
    for record in records:
        yield _loading(node, record)


def _loading(node: Node, record: Facts) -> Result:
    path, state = record["path"], record["state"]
    if state == "skipped":
        return _left_out(node, record)
    if state != "done":
        late = state == "late"
        why = f"it did not end within {record['seconds']:g} s" if late else record["error.name"]
        if "No module named" in why:
            return skipped(f"{why} (see matmul-rate)")
        return warn(f"PyTorch's DataLoader fails on {path}", "check_storage", reason=why)
    loaded = f"{path}: {record['workers']} workers load {record['feeds']:g} samples/s"
    eats, limit = record.get("eats"), record.get("limit")
    if eats is None:
        return ok(loaded, record["feeds"], unit="samples/s", reason="no GPU was tried")
    text = f"{loaded}; a GPU trains a residual network with {eats:g}"
    if limit is None:
        return ok(text, record["feeds"], unit="samples/s")
    reason = f"the {limit} {'limits' if limit == 'storage' else 'limit'} it"
    return info(text, "feed_gpus", observed=record["feeds"], expected=eats, unit="samples/s", reason=reason)


@check(
    "burn-in", proves="the GPUs run under load for long without wrong results or reduced clocks", source=EVENT_REASONS
)
@measured
def burn_in(node: Node) -> Iterator[Result]:
    """Judge what was seen while all GPUs were loaded."""
    if node.facts["measurements.level"] != "burn-in":
        yield inapplicable("only level burn-in runs this test")
        return
    yield from _of_each(node, "burn_in", _burnt)


def _burnt(_gpu: Facts, record: Facts) -> Iterator[Result]:
    reasons = record["event_reasons"]
    seen = {"observed": hex(reasons), "expected": "no slowdown"}
    if record["wrong"]:
        yield _correct(record)
    elif reasons & HW_POWER_BRAKE:
        yield fail("under load, the power supply's brake signal reduces the clocks", "check_power", **seen)
    elif reasons & HW_THERMAL:
        yield fail("under load, the hardware reduces the clocks because of heat", "check_cooling", **seen)
    elif reasons & HW_SLOWDOWN:
        yield fail("under load, the hardware reduces the clocks", "check_power", **seen)
    elif reasons & SW_THERMAL:
        yield warn("under load, the driver reduces the clocks because of heat", "check_cooling", **seen)
    else:
        load = f"{record['load']} for {record['minutes']:g} min"
        extremes = f"{record.get('hottest_celsius')} °C, {record.get('slowest_sm_mhz')} MHz at the worst"
        yield ok(f"{load}, {extremes}", record["runs"])


@check(
    "load-errors",
    proves="no memory errors occurred under load, and no XID except those that programs cause",
    source=DRIVER_API,
)
@measured
def load_errors(node: Node) -> Iterator[Result]:
    """Compare each GPU's counters before the tests with those after them."""
    for gpu in node.facts["measurements.gpus"]:
        for result in _came_under_load(gpu):
            yield replace(result, gpu=gpu.identity())


def _came_under_load(gpu: Facts) -> Iterator[Result]:
    if gpu["tests.smoke.state"] == "skipped":  # nor was any other test made: what came is of somebody else's load
        yield skipped(gpu["tests.smoke.reason"])
        return
    before, after = gpu.get("errors.before"), gpu.get("errors.after")
    if before is None or after is None:
        yield unknown("the GPU did not answer before or after the tests")
        return
    came = {key: after.get(key, 0) - before.get(key, 0) for key in ERRORS}
    for key, (what, remedy) in ERRORS.items():
        if came[key] > 0:
            yield fail(f"{came[key]} {what} occurred under load", remedy, observed=came[key], expected=0)
    logged = _logged(before["kernel_log"].data, after["kernel_log"].data)
    if logged:
        names = ", ".join(f"XID {name}" if name.isdigit() else name for name in sorted(logged))
        summary = f"{sum(logged.values())} driver errors occurred in the kernel log under load"
        yield fail(summary, "contact_support", reason=names, observed=sum(logged.values()), expected=0)
    if max(came.values()) <= 0 and not logged:
        yield ok("no errors occurred", 0)


def _logged(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Return how often each error came."""
    came = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: count for name, count in came.items() if count > 0}


SIMULATED = skipped("the GPU is simulated, so its rates mean nothing")


def rates_mean_something(facts: Facts) -> bool:
    """Tell whether rates were measured that may be judged."""
    real = not facts.get("measurements.simulated") or facts.get("measurements.rates_declared")
    return bool(facts.get("measurements.gpus") and real)


def _of_each(node: Node, test: str, judge: Callable[[Facts, Facts], Iterable[Result]]) -> Iterator[Result]:
    """Yield what judge(gpu, record) says of each GPU on which the test came to its end, else what kept it."""
    for gpu in node.facts["measurements.gpus"]:
        record = gpu[f"tests.{test}"]
        kept = _kept(node, record, f"the test {test}")
        if kept and kept.remediation == "start_fabricmanager" and node.fabric_manager(gpu) == "rack":
            kept = replace(kept, remediation="check_rack")
        for result in [kept] if kept else judge(gpu, record):
            yield replace(result, gpu=gpu.identity())


def _left_out(node: Node, record: Facts) -> Result:
    """Answer a test that was left out: it is not for a machine that needs none, or where no PyTorch shall be."""
    environments = node.facts.get("environments", [])
    pytorch = any(
        one.get("expected") is None or (one.get("expected.framework") == "pytorch" and one.get("expected.cuda"))
        for one in environments
    )
    applies = pytorch if record.get("lacks_pytorch") else record.get("applies", True)
    return skipped(record["reason"]) if applies else inapplicable(record["reason"])


def _kept(node: Node, record: Facts, what: str, otherwise: str = "restart_app") -> Result | None:
    """Return what kept a test from its end; None where it came to it."""
    state = record["state"]
    if state == "done":
        return None
    if state == "skipped":
        return _left_out(node, record)
    if state == "late":
        return fail(
            f"{what} did not end within {record['seconds']:g} s",
            "reboot",
            reason="the driver does not answer, or the GPU hangs",
        )
    if state == "died":
        return fail(f"{what} died", "reinstall_driver", reason=record["reason"])
    return _failed(record["error"], what, otherwise)


def _failed(error: Facts, what: str, otherwise: str) -> Result:
    code, name = error.get("code"), error["name"]
    if error.get("call") is None:  # a program, not a call
        remedy = next((remedy for text, remedy in PROGRAM_FAILURES if text in name), otherwise)
        return fail(f"{what} failed", remedy, reason=name)
    if code is None:
        return fail(f"{what} failed: {error['call']}", "install_driver", reason=name)
    if code in CUDA_MISBEHAVIOUR:
        reason, remedy = "a correct kernel does not cause this", "contact_support"
    else:
        reason, remedy = CUDA_FAILURES.get(code, ("the driver gives no reason", "reboot"))
    return fail(f"{what} failed: {error['call']}: {name} ({code})", remedy, reason=reason, observed=code, expected=0)


def _correct(record: Facts) -> Result:
    """Return ok where no result is wrong; a GPU that computes wrong is not fit for any work."""
    wrong = record["wrong"]
    if wrong:
        return fail(f"{wrong} results are wrong", "contact_support", observed=wrong, expected=0)
    return ok("all results are correct", 0)


def _rate(node: Node, gpu: Facts, rate: Rate) -> Result:
    """Judge one rate of one GPU by its floor, then by its siblings."""
    if not rates_mean_something(node.facts):
        return SIMULATED
    path = f"tests.{rate.test}.{rate.key}"
    value = gpu[path]
    result = _against_floor(rate, value, _floor(node, gpu, rate.key))
    siblings = [other for other in node.facts["measurements.gpus"] if other.get("device") == gpu.get("device")]
    others = [other.get(path) for other in siblings if other.get("uuid") != gpu.get("uuid")]
    known = [other for other in others if other is not None]
    if result.severity == "fail" or not known or value >= SIBLING_SHARE * median(known):
        return result
    usual = median(known)
    summary = f"{rate.label} {value:g} {rate.unit}; its siblings reach {usual:g}"
    return warn(summary, rate.remedy, observed=value, expected=usual, unit=rate.unit)


def _against_floor(rate: Rate, value: float, floor: float | None) -> Result:
    summary = f"{rate.label} {value:g} {rate.unit}"
    if floor is None:
        return ok(summary, value, unit=rate.unit, reason="no floor is known for this board")
    if value < floor:
        return fail(
            f"{summary}, below the floor of {floor:g}", rate.remedy, observed=value, expected=floor, unit=rate.unit
        )
    return ok(summary, value, expected=floor, unit=rate.unit)


def _floor(node: Node, gpu: Facts, key: str) -> float | None:
    """Return the board's floor; that of a copy follows from the link that board and slot share."""
    floors: dict[str, float | None] = node.profile(gpu).get("floors", {})
    if key in floors or key not in {copy.key for copy in COPIES}:
        return floors.get(key)
    link = next((each for each in node.gpus if each.get("uuid") == gpu.get("uuid")), None)
    generation = link.get("pcie.max_generation") if link else None
    width = node.profile(gpu).get("pcie_width") or (link.get("pcie.width") if link else None)
    if generation not in LANE_GBS or not width:
        return None
    return round(LINK_SHARE * LANE_GBS[generation] * width, 1)
