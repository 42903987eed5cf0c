"""An acceptance that was cut off goes on where it stopped."""

from __future__ import annotations

import os

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.acceptance import state
from ansible_collections.gpulab.node.plugins.plugin_utils.acceptance.ladder import FAILED, UNTESTED
from ansible_collections.gpulab.node.plugins.plugin_utils.core.this_run import this_run

from unit.acceptance.clusters import FLOOR, Cluster, by_verdict, named


def begun(names, **changes):
    """Return an acceptance that has just begun."""
    nodes = {name: state.Node(None, "H200", "s", ["1"], "b", {"driver": "1"}) for name in names}
    floor = state.Floor(FLOOR, "set", "median")
    given = {"run": "one", "holder": this_run(os.getppid()), "began": "now", "reason": "new", "share": 0.5}
    return state.Acceptance(**{**given, "floor": floor, "nodes": nodes, **changes})


def measured(wanted, result, seconds=10.0):
    return state.Measured(
        wanted.step, list(wanted.nodes), result.rate, result.lowest, result.highest, result.why, "gloo", "now", seconds
    )


def climb(path, cluster, most=0.0, stop_after=None):
    """Measure on until the end, or so many groups; the record is read and written each time. Return the verdicts."""
    while stop_after is None or stop_after > 0:
        with state.changing(path) as acceptance:
            wanted, verdicts = state.standing(acceptance, most)
            if wanted is None:
                return verdicts
            acceptance.results.append(measured(wanted, cluster.result(wanted)))
        stop_after = stop_after and stop_after - 1
    return None


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_run_that_is_cut_off_anywhere_measures_no_group_twice(tmp_path, cut):
    whole, parts = Cluster(9, bad=["n04"]), Cluster(9, bad=["n04"])
    path = tmp_path / "one" / state.FILE
    state.write(path, begun(whole.names))
    climb(path, whole)
    state.write(path, begun(whole.names))
    climb(path, parts, stop_after=cut)
    found = climb(path, parts)
    assert by_verdict(found, FAILED) == {"n04"}
    assert parts.asked == whole.asked


def test_results_that_the_ladder_did_not_ask_for_are_measured_again():
    cluster, acceptance = Cluster(4), begun(named(4))
    wanted, _verdicts = state.standing(acceptance, 0)
    acceptance.results = [measured(wanted, cluster.result(wanted)), measured(wanted, cluster.result(wanted))]
    state.standing(acceptance, 0)
    assert len(acceptance.results) == 1


def test_what_was_not_measured_in_time_is_not_tested(tmp_path):
    path = tmp_path / "one" / state.FILE
    state.write(path, begun(named(9)))
    found = climb(path, Cluster(9), most=10.0)
    assert by_verdict(found, UNTESTED) == {*named(9)}
    assert "the time for all measurements is over" in found.nodes["n08"].why


def test_nodes_that_failed_before_are_not_measured():
    acceptance = begun(named(4))
    acceptance.nodes["n00"].failed = "GPUs 7, the others 8"
    acceptance.nodes["n01"].untested = "unreachable"
    assert [*acceptance.candidates] == ["n02", "n03"]


def test_the_newest_run_of_just_these_nodes_goes_on(tmp_path):
    assert state.unfinished(tmp_path, {*named(4)}) is None
    for run, names, ended in (("1", named(4), ""), ("2", named(4), ""), ("3", named(5), ""), ("4", named(4), "then")):
        state.write(tmp_path / run / state.FILE, begun(names, run=run, ended=ended))
    assert state.unfinished(tmp_path, {*named(4)}).run == "2"


def test_a_run_at_work_is_not_disturbed(tmp_path):
    state.write(tmp_path / "1" / state.FILE, begun(named(4), holder=this_run(os.getpid())))
    with pytest.raises(Refusal) as caught:
        state.unfinished(tmp_path, {*named(4)})
    assert caught.value.code == "F146"
