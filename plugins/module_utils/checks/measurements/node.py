# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of what a node gives to programs: a container with its GPUs, and directories of data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks.measurements.judging import (
    left_out,
    measured,
    what_kept,
)
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
    warn,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import DeclaredMount

ENOUGH_BYTES = 1 << 30  # of reads in a row: less may come from a disk's own cache
MOUNTS = "https://man7.org/linux/man-pages/man5/nfs.5.html"
CONTAINERS = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/sample-workload.html"


@check("container-gpu", proves="a container sees every GPU", source=CONTAINERS)
@measured
def container_gpu(node: Node) -> Iterator[Result]:
    """Compare what nvidia-smi lists in a container with what NVML lists outside."""
    record = node.facts["measurements.container"]
    kept = what_kept(node, record, "docker run", otherwise="configure")
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


def _mount(node: Node, record: Facts, declared: DeclaredMount) -> Result:
    path = record["path"]
    if record["state"] == "late":
        return fail(f"{path} does not answer within {record['seconds']:g} s", "check_storage")
    if record["state"] != "done":
        return fail(f"{path} cannot be read", "check_storage", reason=record["error.name"])
    if not record["files"]:
        return warn(f"{path} contains no files", "check_storage", reason="it may not be mounted")
    return _below_declared(record, declared) or _below_class(node, record, declared) or _mount_told(record)


def _below_declared(record: Facts, declared: DeclaredMount) -> Result | None:
    """Return how a directory falls short of what its operator declares; None where it does not."""
    path, rate, latency = record["path"], record.get("read_mbs") or 0, record["latency_ms"]
    least, most = declared.get("least_mbs"), declared.get("most_ms")
    if least is not None and rate < least and not record.get("left_alone"):
        return fail(f"{path} reads {rate} MB/s", "check_storage", observed=rate, expected=least, unit="MB/s")
    if most is not None and latency > most:
        return fail(f"{path} takes {latency} ms to open", "check_storage", observed=latency, expected=most, unit="ms")
    return None


def _below_class(node: Node, record: Facts, declared: DeclaredMount) -> Result | None:
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
        return left_out(node, record)
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
