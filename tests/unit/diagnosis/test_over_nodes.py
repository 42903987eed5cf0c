"""The ranks of one job over several nodes: who is missing, who stands elsewhere, and what a healthy job says."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose, hang, over_nodes

from unit.checks import nodes

from . import cases

COLLECTIVE = ["all_reduce (torch/distributed/distributed_c10d.py:2501)"]


def document(first, size=4, world=8, change=None, **of_rank):
    """Return the diagnosis of a node that has the ranks from first on; of_rank changes the rank that change names."""
    facts = nodes.healthy("h100x8")
    found = cases.at_work(facts)
    kept = []
    for record in found["processes"]:
        told = record["environment"]
        if "LOCAL_RANK" not in told:
            kept.append(record)
        elif int(told["LOCAL_RANK"]) < size:
            rank = first + int(told["LOCAL_RANK"])
            told.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(size))
            record["stack"] = list(COLLECTIVE)
            if rank == change:
                record.update(copy.deepcopy(of_rank))
            kept.append(record)
    return diagnose.diagnosis(cases.case(facts, {**found, "processes": kept}), "node", "2026-11-27T00:00:00Z")


def found(**documents):
    return {one.id: one for one in over_nodes.findings(documents)}


def test_ranks_that_stand_alike_are_no_finding():
    both = {"node07": document(0), "node08": document(4)}
    assert found(**both) == {}
    assert over_nodes.lines(both) == ["over nodes: all 8 ranks of the job at node1:29500 stand alike"]


def test_a_job_on_one_node_says_nothing():
    assert over_nodes.lines({"node07": document(0, world=4), "node08": document(0, world=4)}) == []


def test_a_node_without_its_ranks_is_named():
    missing = found(node07=document(0), node08=document(4, size=2))["hang-missing-rank"]
    assert "rank 6-7 of the job at node1:29500, which has 8, is not on node07, node08" in missing.cause
    assert missing.cost == 1


ODD = {
    "stopped": ({"state": "T"}, "is stopped"),
    "dead": ({"state": "Z"}, "has died"),
    "loads data": ({"stack": ["_try_get_data (torch/utils/data/dataloader.py:1243)"]}, "waits for a batch"),
    "saves": ({"stack": ["save (checkpoint.py:7)"]}, "is in save (checkpoint.py:7)"),
    "a dead mount": ({"state": "D", "stack": [], "waits": "rpc_wait_bit_killable"}, "in the kernel (rpc_wait"),
}


@pytest.mark.parametrize(("change", "says"), ODD.values(), ids=ODD)
def test_the_rank_that_stands_elsewhere_is_named_with_its_node(change, says):
    odd = found(node07=document(0), node08=document(4, change=6, **change))["hang-odd-rank"]
    assert "rank 6 on node08" in odd.cause
    assert says in odd.cause
    assert "On node08: py-spy dump --pid 1003" in odd.remedy


def test_without_a_majority_nobody_is_blamed():
    other = document(4)
    stopped = [replace(rank, stands="is stopped") for rank in other.ranks]
    assert found(node07=document(0), node08=replace(other, ranks=stopped)) == {}


def test_a_rank_without_a_stack_is_not_guessed_at():
    facts = nodes.healthy("h100x8")
    record = cases.case(facts, cases.at_work(facts)).processes[1]
    assert hang.stands(replace(record, stack=[], state="R")) == "runs, or waits for its GPU"


@pytest.mark.parametrize(("numbers", "text"), [([3], "3"), ([0, 1, 2, 7], "0-2, 7"), ([1, 3], "1, 3")])
def test_spans(numbers, text):
    assert over_nodes.spans(numbers) == text
