"""In which order nodes are changed, and when no change may begin."""

from __future__ import annotations

from datetime import datetime

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.rollout.order import Candidate, Order, count, frozen, order

GONE = {"code": "H001", "cause": "n8 is unreachable", "remedy": "Check it."}
NODES = [Candidate(f"n{number}", "h100", ("tuning",)) for number in range(1, 9)]


def decided(nodes, requested=(), proven=(), batch="25%", out_at_once="50%"):
    return order(nodes, list(requested), set(proven), batch=batch, out_at_once=out_at_once)


def code(call, *arguments, **more):
    with pytest.raises(Refusal) as refused:
        call(*arguments, **more)
    return refused.value.code


def test_a_canary_comes_first_and_alone_and_the_others_in_batches():
    names = tuple(node.name for node in NODES)
    assert decided(NODES) == Order(names, (1, 2), ("n1",))


def test_the_requested_canary_comes_first():
    found = decided(NODES, ["n5", "n3"])
    assert (found.names[:3], found.canaries, found.sizes) == (("n5", "n3", "n1"), ("n5", "n3"), (1, 1, 2))


def test_each_kind_has_a_canary_of_its_own():
    other = Candidate("n9", "a100", ("tuning",))
    found = decided([*NODES, other])
    assert (found.names[:2], found.canaries) == (("n1", "n9"), ("n1", "n9"))
    assert decided([*NODES, other], ["n9"]).canaries == ("n9", "n1")


def test_a_kind_that_is_proven_needs_no_canary():
    assert decided(NODES, proven={"h100"}).canaries == ()


def test_a_node_that_an_earlier_run_left_fenced_comes_before_all_and_alone():
    fenced = Candidate("n9", "h100", (), fenced=True)
    found = decided([*NODES, fenced])
    assert (found.names[:2], found.sizes, found.canaries) == (("n9", "n1"), (1, 1, 2), ("n1",))


def test_a_node_without_a_change_is_left_alone():
    assert decided([NODES[0], Candidate("n9", "h100")]).names == ("n1",)
    assert decided([Candidate("n9", "h100")]) == Order((), (), ())


def test_nodes_that_are_out_already_count():
    """As in the GPU Operator's limit of unavailable nodes."""
    gone = Candidate("n9", refusal=GONE)
    assert decided([*NODES, gone], batch="4", out_at_once="3").sizes == (1, 2)
    assert "n9" not in decided([*NODES, gone]).names
    assert code(decided, [*NODES, gone], out_at_once="1") == "F003"


def test_a_fenced_node_is_brought_back_however_many_are_out():
    fenced, gone = Candidate("n8", "h100", (), fenced=True), Candidate("n9", refusal=GONE)
    assert decided([fenced, gone], out_at_once="1").names == ("n8",)


def test_a_canary_that_the_run_does_not_have_is_refused():
    assert code(decided, NODES, ["n77"]) == "F004"


@pytest.mark.parametrize(("value", "number"), [("3", 3), ("25%", 2), ("1%", 1), ("100%", 8)])
def test_a_number_or_a_share_of_nodes(value, number):
    assert count("rollout_batch", value, 8) == number


@pytest.mark.parametrize("value", ["0", "0%", "101%", "-1", "many", "", "1.5"])
def test_what_is_no_number_of_nodes_is_refused(value):
    assert code(count, "rollout_batch", value, 8) == "F004"


HOLIDAYS = {"from": "2026-12-20", "to": "2027-01-06", "reason": "holidays"}
NIGHT = {"from": "22:00", "to": "06:00", "days": ["fri"]}


@pytest.mark.parametrize(
    ("freeze", "moment", "until"),
    [
        (HOLIDAYS, "2026-12-19 23:59", ""),
        (HOLIDAYS, "2026-12-20 00:00", "holidays, until 2027-01-07 00:00"),
        (HOLIDAYS, "2027-01-06 23:59", "holidays, until 2027-01-07 00:00"),
        (HOLIDAYS, "2027-01-07 00:00", ""),
        (
            {"from": "2026-12-20 18:00", "to": "2026-12-20 19:00"},
            "2026-12-20 18:30",
            "a freeze, until 2026-12-20 19:00",
        ),
        ({"from": "08:00", "to": "20:00"}, "2026-11-26 19:59", "a freeze, until 2026-11-26 20:00"),
        ({"from": "08:00", "to": "20:00"}, "2026-11-26 20:00", ""),
        (NIGHT, "2026-11-27 23:00", "a freeze, until 2026-11-28 06:00"),
        (NIGHT, "2026-11-28 05:59", "a freeze, until 2026-11-28 06:00"),
        (NIGHT, "2026-11-28 23:00", ""),
        (NIGHT, "2026-11-27 05:00", ""),
    ],
)
def test_no_change_begins_in_a_freeze(freeze, moment, until):
    assert frozen([freeze], datetime.fromisoformat(moment)) == until


@pytest.mark.parametrize(
    "freeze", [{}, {"from": "480", "to": "1200"}, {"from": "25:00", "to": "26:00"}, {"from": "08:00"}]
)
def test_a_freeze_that_is_none_is_refused_and_not_passed_over(freeze):
    assert code(frozen, [freeze], datetime.fromisoformat("2026-11-26 12:00")) == "F004"
