# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the all_reduce over a node's GPUs, and over nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.measurements.judging import (
    SIMULATED,
    Rate,
    against_floor,
    correct,
    measured,
    rates_mean_something,
    what_kept,
)
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    Facts,
    Node,
    Result,
    check,
    fail,
    inapplicable,
    ok,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

BUS_BANDWIDTH = "https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md"
PROFILES = "catalog/profiles.yml"
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
ACROSS = Rate("nodes_all_reduce", "nodes_all_reduce_gbs", "GB/s", "bus bandwidth over the nodes", "check_network")
ALL_REDUCE = Rate("all_reduce", "all_reduce_gbs", "GB/s", "bus bandwidth", "contact_support")


@check("all-reduce", proves="the node's GPUs exchange data correctly and fast", source=PROFILES)
@measured
def all_reduce(node: Node) -> Iterator[Result]:
    """Judge bus bandwidth against the boards' floor, where their fabric has one."""
    record = node.facts["measurements.all_reduce"]
    kept = what_kept(node, record, "the all_reduce")
    if kept:
        yield kept
    elif record.optional("wrong"):
        yield correct(record)
    elif not rates_mean_something(node.facts):
        yield SIMULATED
    else:
        floors = node.profile(node.facts["measurements.gpus"][0]).get("floors", {})
        yield against_floor(ALL_REDUCE, record["all_reduce_gbs"], floors.get(ALL_REDUCE.key))


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
    return what_kept(node, record, what, "check_network")


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
        return correct(record)
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
    result = against_floor(ACROSS, rate, floor)
    if gpus == of or floor is None:
        return result
    return replace(result, reason=f"{gpus} of {of} GPUs of {name} took part, so the floor is reduced to that share")
