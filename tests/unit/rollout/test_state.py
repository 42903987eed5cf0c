"""Whose turn it is, and what of a rollout outlives the controller's process."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.core.this_run import this_run
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.rollout import report, state

WHY = state.Refused("V001", "the proof failed: gpu-count", "Reseat the card.")


@pytest.fixture
def document():
    names = ["n1", "n2", "n3"]
    hosts = {name: state.Host("h100", ["tuning"], place=place) for place, name in enumerate(names)}
    return state.Rollout("R1", this_run(os.getppid()), canaries=["n1"], hosts=hosts)


def written(tmp_path, document):
    path = tmp_path / document.run / state.FILE
    state.write(path, document)
    return path


def enter(path, name, ended):
    with state.changing(path, name) as (_rollout, entry):
        state.enter(entry, ended)


def test_the_canary_goes_first_and_the_others_once_it_is_proven(document):
    assert state.obstacle(document, "n1", {}) is None
    document.proven = ["h100"]
    assert state.obstacle(document, "n2", {}) is None


@pytest.mark.parametrize("ended", [state.FAILED, state.REFUSED])
def test_after_a_node_that_failed_no_other_begins(document, ended):
    document.proven = ["h100"]
    found = state.obstacle(document, "n3", {"n2": replace(document.hosts["n2"], state=ended, refusal=WHY)})
    assert found.code == "F005"
    assert "n2: the proof failed: gpu-count" in found.cause
    assert found.remedy.startswith("Reseat the card.")


@pytest.mark.parametrize("lost", state.ON_THE_WAY)
def test_after_a_node_that_was_lost_on_the_way_no_other_begins(document, lost):
    """NVSentinel#1808: what had failed counted as in progress for ever, and others went on."""
    document.proven = ["h100"]
    assert state.obstacle(document, "n2", {"n1": replace(document.hosts["n1"], state=lost)}).code == "F012"


def test_a_canary_that_is_still_in_use_is_no_proof(document):
    """NVSentinel#121: a drain that was given up went on to the change."""
    assert state.obstacle(document, "n2", {}).code == "F011"


def test_what_stopped_the_rollout_stops_every_later_node(document):
    document.proven, document.stopped = ["h100"], WHY
    assert state.obstacle(document, "n3", {}) == WHY


def test_a_node_that_comes_again_needs_no_other_proof(document):
    document.hosts["n2"].again = True
    assert state.obstacle(document, "n2", {}) is None


@pytest.mark.parametrize("ended", [*state.ON_THE_WAY, state.FAILED, state.REFUSED])
def test_a_node_stops_those_of_other_batches_until_it_is_back_or_a_run_begins(tmp_path, document, ended):
    path = written(tmp_path, document)
    enter(path, "n1", ended)
    assert {name: entry.state for name, entry in state.unsettled(path, ["n2", "n3"]).items()} == {"n1": ended}
    assert state.unsettled(path, ["n1", "n2"]) == {}
    enter(path, "n1", state.DONE)
    for back in (state.BUSY, state.CONSOLE):
        enter(path, "n2", back)
        assert state.unsettled(path, ["n3"]) == {}
    enter(path, "n1", ended)
    state.write(path, state.read(path))
    assert state.unsettled(path, ["n3"]) == {}


def test_a_step_of_a_node_reads_and_writes_no_other_node(tmp_path, document):
    path = written(tmp_path, document)
    (path.parent / "hosts/n2.json").write_text("{")
    before = path.read_bytes()
    enter(path, "n1", state.DRAINING)
    assert state.unsettled(path, ["n1"]) == {}
    assert path.read_bytes() == before


def test_a_record_is_read_as_it_was_written_whatever_its_hosts_are_called(tmp_path, document):
    document.hosts = dict.fromkeys(("a.b", "../up", "n 1", ".hidden", "größe"), document.hosts["n1"])
    read = state.read(written(tmp_path, document))
    assert read.hosts == document.hosts
    assert replace(read, hosts={}) == replace(document, hosts={})


def test_a_rollout_goes_on_until_no_node_is_left(tmp_path, document):
    path = written(tmp_path, document)
    assert state.unfinished(tmp_path) == document
    for name in document.hosts:
        enter(path, name, state.DONE)
    assert state.unfinished(tmp_path) is None
    assert state.unfinished(tmp_path / "none") is None


def test_a_rollout_at_work_is_refused_and_that_of_a_dead_process_goes_on(tmp_path, document):
    alive = this_run(os.getpid())
    written(tmp_path, replace(document, holder=alive))
    with pytest.raises(Refusal) as refused:
        state.unfinished(tmp_path)
    assert refused.value.code == "F002"
    dead = replace(document, holder={**alive, "started": alive["started"] - 1})
    written(tmp_path, dead)
    assert state.unfinished(tmp_path) == dead


@pytest.mark.parametrize("file", ["rollout.json", "hosts/n2.json"])
def test_a_damaged_record_is_refused(tmp_path, document, file):
    (written(tmp_path, document).parent / file).write_text("{")
    with pytest.raises(Refusal) as refused:
        state.unfinished(tmp_path)
    assert refused.value.code == "H220"


def test_a_rollout_that_an_earlier_gpulab_began_goes_on(tmp_path, document):
    """It kept the nodes in the file of the rollout, and did not say at first whether a change had begun."""
    hosts = {name: asdict(replace(entry, state=state.CHANGING)) for name, entry in document.hosts.items()}
    for entry in hosts.values():
        del entry["begun"], entry["place"]
    earlier = {**asdict(document), "schema": 1, "order": ["n1", "n2", "n3"], "hosts": hosts}
    path = tmp_path / document.run / state.FILE
    path.parent.mkdir()
    path.write_text(json.dumps(earlier))
    read = state.unfinished(tmp_path)
    assert {name: entry.state for name, entry in read.hosts.items()} == dict.fromkeys(hosts, state.CHANGING)
    state.write(path, read)
    enter(path, "n2", state.DONE)
    assert [entry.state for entry in state.read(path).hosts.values()] == [state.CHANGING, state.DONE, state.CHANGING]


def test_what_fails_while_it_is_changed_leaves_the_record_as_it_was(tmp_path, document):
    path = written(tmp_path, document)

    def fail_half_way():
        with state.changing(path, "n1") as (changed, entry):
            changed.stopped, entry.state = WHY, state.FAILED
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert state.read(path) == document


def test_how_long_a_node_was_out_counts_from_the_first_fence(document):
    entry = document.hosts["n1"]
    assert state.out_seconds(entry) is None
    state.enter(entry, state.DRAINING)
    entry.out_since = "2026-11-26T21:00:00Z"
    state.enter(entry, state.FAILED)
    assert state.out_seconds(entry) is None
    entry.again = True
    state.enter(entry, state.DRAINING)
    assert entry.out_since == "2026-11-26T21:00:00Z"
    state.enter(entry, state.DONE)
    entry.back = "2026-11-26T21:10:00Z"
    assert state.out_seconds(entry) == 600


def test_the_last_time_is_that_of_the_newest_rollout(tmp_path, document):
    for run, back in (("R1", "2026-11-26T21:10:00Z"), ("R2", "2026-11-26T21:05:00Z")):
        entry = replace(document.hosts["n1"], state=state.DONE, out_since="2026-11-26T21:00:00Z", back=back)
        hosts = {"n1": entry, "n3": entry} if run == "R1" else {"n1": entry, "n3": document.hosts["n3"]}
        written(tmp_path, replace(document, run=run, hosts=hosts))
    assert state.last_seconds(tmp_path, ["n1", "n2", "n3"]) == {"n1": 300, "n3": 600}


def test_the_report_says_of_each_node_what_became_of_it(document):
    one, two, three = document.hosts.values()
    changed = replace(one, state=state.DONE, before={"driver": "535"}, after={"driver": "550"})
    document.hosts["n1"] = replace(changed, out_since="2026-11-26T21:00:00Z", back="2026-11-26T21:10:00Z")
    document.hosts["n2"] = replace(two, state=state.FAILED, refusal=WHY)
    document.stopped = state.refused(refuse("F005", host="n2", cause="x", remedy="y"))
    lines = report.after(document)
    assert "n1: changed and proven; driver 535 -> 550; out of service for 10 min" in lines[1]
    assert "n2: failed, stays fenced; the proof failed: gpu-count" in lines[2]
    assert lines[3].strip() == "n3: as before"
    assert lines[4].strip() == "stopped: the change stopped at n2: x."
    assert three.state == state.WAITING


def test_the_order_says_who_is_on_the_nodes_and_how_long_it_took(document):
    document.hosts["n4"] = state.Host("h100", [], state.CURRENT)
    lines = report.before(document, [1, 2], {"n2": "wei, who is logged in (vim)"}, {"n1": 300})
    assert [" ".join(line.split()) for line in lines] == [
        "rollout R1",
        "canary n1: tuning; idle; last time 5 min",
        "batch 2 n2: tuning; in use: wei, who is logged in (vim)",
        "batch 2 n3: tuning; idle",
        "left out n4: nothing to change",
    ]
