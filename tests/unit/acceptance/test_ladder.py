"""What the ladder says of clusters that are simulated, in which the fault is known."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.acceptance.ladder import (
    FAILED,
    MOST_GROUPS,
    MOST_PAIRS,
    PASSED,
    UNTESTED,
    calibrating,
    domains,
)

from unit.acceptance.clusters import FLOOR, HEALTHY, Cluster, by_verdict, dice, named

SIZES = (4, 5, 6, 7, 9, 12, 16, 25, 64)


def racks(count, size):
    """Return labels: so many nodes in racks of this size."""
    return {name: f"rack{number // size}" for number, name in enumerate(named(count))}


def sides(bound):
    return {frozenset(bound.one), frozenset(bound.other)}


@pytest.mark.parametrize("count", [2, 3, *SIZES])
@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_without_a_fault_passes_whole(count, seed):
    cluster = Cluster(count, noise=dice(seed))
    found = cluster.climb()
    assert by_verdict(found, PASSED) == {*cluster.names}
    assert (found.boundaries, found.failure, found.remarks) == ([], "", [])
    assert any(set(wanted.nodes) == {*cluster.names} for wanted in cluster.asked)


@pytest.mark.parametrize(
    ("count", "floor"), [(3, FLOOR), *((count, floor) for count in SIZES for floor in (FLOOR, None))]
)
def test_one_bad_node_is_named_wherever_it_is(count, floor):
    for bad in named(count):
        cluster = Cluster(count, bad=[bad])
        found = cluster.climb(floor)
        assert by_verdict(found, FAILED) == {bad}, (bad, found)
        assert by_verdict(found, PASSED) == {*cluster.names} - {bad}
        assert found.boundaries == []


def test_a_bad_node_is_measured_with_two_healthy_ones_before_it_is_named():
    cluster = Cluster(16, bad=["n06"])
    cluster.climb()
    with_it = {wanted.nodes for wanted in cluster.asked if "n06" in wanted.nodes and len(wanted.nodes) == 2}
    assert len({name for pair in with_it for name in pair} - {"n06"}) >= 2


@pytest.mark.parametrize("count", SIZES[2:])
@pytest.mark.parametrize("seed", range(20))
def test_two_bad_nodes_are_named(count, seed):
    bad = dice(seed).sample(named(count), 2)
    found = Cluster(count, bad=bad).climb()
    assert by_verdict(found, FAILED) == {*bad}, found
    assert found.boundaries == []


@pytest.mark.parametrize(("count", "size"), [(4, 2), (6, 3), (8, 4), (9, 3), (16, 4), (64, 8)])
def test_a_bad_way_out_of_a_rack_is_no_fault_of_a_node(count, size):
    names, labels = named(count), racks(count, size)
    for begin in range(0, count, size):
        rack = {*names[begin : begin + size]}
        found = Cluster(count, trunks=[(rack, {*names} - rack)], labels=labels).climb()
        assert by_verdict(found, FAILED) == set(), found
        (bound,) = found.boundaries
        assert frozenset(rack) in sides(bound), bound
        assert any("all nodes together" in remark for remark in found.remarks)


def test_a_bad_trunk_between_two_halves_of_the_racks_is_found_though_both_halves_pass():
    names = named(16)
    found = Cluster(16, trunks=[({*names[:8]}, {*names[8:]})], labels=racks(16, 4)).climb()
    (bound,) = found.boundaries
    assert sides(bound) == {frozenset(names[:8]), frozenset(names[8:])}
    assert by_verdict(found, PASSED) == {*names}


@pytest.mark.parametrize("count", [4, 8, 16, 32])
@pytest.mark.parametrize("floor", [FLOOR, None])
@pytest.mark.parametrize("seed", range(20))
def test_a_bad_trunk_across_groups_without_labels_blames_no_node(count, floor, seed):
    names = named(count)
    one = {*dice(seed).sample(names, count // 2)}
    found = Cluster(count, trunks=[(one, {*names} - one)]).climb(floor)
    assert by_verdict(found, FAILED) == set(), found
    assert found.boundaries


def test_two_nodes_that_only_fail_with_each_other_are_a_finding_between_both():
    found = Cluster(4, trunks=[({"n00"}, {"n01"})]).climb()
    assert [sides(bound) for bound in found.boundaries] == [{frozenset(["n00"]), frozenset(["n01"])}]
    assert by_verdict(found, FAILED) == set()


@pytest.mark.parametrize("heals", [1, 2, 3, 4])
def test_a_node_that_heals_is_not_named_and_what_was_seen_is_told(heals):
    found = Cluster(9, bad=["n00"], heals=heals).climb()
    assert "n00" in by_verdict(found, PASSED) or heals == 4
    assert found.remarks or heals == 4


@pytest.mark.parametrize(("count", "step"), [(9, "across"), (9, "all"), (16, "across"), (64, "all"), (4, "across")])
def test_a_node_that_dies_on_the_way_up_is_named(count, step):
    for dead in named(count):
        cluster = Cluster(count, silent=[dead], from_step=step)
        found = cluster.climb()
        assert by_verdict(found, FAILED) == {dead}, (dead, found)
        assert "did not come" in found.nodes[dead].why
        assert found.boundaries == []


def test_of_two_nodes_that_fail_it_cannot_be_told_which():
    found = Cluster(2, bad=["n00"]).climb()
    assert by_verdict(found, UNTESTED) == {"n00", "n01"}
    assert "cannot be told which" in found.nodes["n01"].why


def test_three_nodes_are_measured_by_all_pairs():
    cluster = Cluster(3, bad=["n02"])
    cluster.climb()
    assert {wanted.nodes for wanted in cluster.asked} == {("n00", "n01"), ("n00", "n02"), ("n01", "n02")}
    found = Cluster(3, bad=["n01", "n02"]).climb()
    assert "cannot be told which" in found.nodes["n00"].why


def test_one_node_alone_is_not_tested():
    assert by_verdict(Cluster(1).climb(), UNTESTED) == {"n00"}


@pytest.mark.parametrize("silent", [4, 8, 10])
def test_many_nodes_without_a_result_are_the_fault_of_the_run(silent):
    cluster = Cluster(10, silent=named(10)[:silent])
    found = cluster.climb()
    assert by_verdict(found, UNTESTED) == {*cluster.names}
    assert "gave" in found.failure


def test_no_result_where_siblings_are_the_measure_is_the_fault_of_the_run():
    found = Cluster(4, silent=named(4)).climb(None)
    assert found.failure == "no pair of nodes gave a result"
    assert by_verdict(found, UNTESTED) == {*named(4)}


@pytest.mark.parametrize(
    ("faults", "most"),
    [
        ({}, 10),
        ({"bad": ["n37"]}, 25),
        ({"bad": ["n03", "n60"]}, 35),
        ({"trunks": [({*named(8)}, {*named(64)[8:]})]}, 25),
    ],
)
def test_sixty_four_nodes_take_few_groups(faults, most):
    cluster = Cluster(64, labels=racks(64, 8), **faults)
    cluster.climb()
    assert len(cluster.asked) <= most
    assert len({len(wanted.nodes) for wanted in cluster.asked}) > 1


def test_a_cluster_that_is_bad_everywhere_ends():
    cluster = Cluster(64, bad=named(64)[::2])
    found = cluster.climb()
    assert len(cluster.asked) <= MOST_GROUPS
    assert {*found.nodes} == {*cluster.names}
    assert not by_verdict(found, FAILED) - {*named(64)[::2]}


def test_siblings_are_measured_by_pairs_and_the_best_of_them_sets_the_floor():
    cluster = Cluster(64, bad=["n00"])
    assert cluster.climb(None).floor == pytest.approx(HEALTHY / 2)
    assert len(calibrating(named(4))) == 6
    assert {name for pair in calibrating(named(5)) for name in pair} == {*named(5)}
    assert all(len(calibrating(named(count))) <= MOST_PAIRS for count in range(2, 200))


def test_nodes_without_labels_are_grouped_by_the_root_of_their_number():
    assert [len(group) for group in domains(dict.fromkeys(named(10)))] == [4, 4, 2]
    assert domains({"a": "r1", "b": "r2", "c": "r1", "d": None}) == [("a", "c"), ("b",), ("d",)]
