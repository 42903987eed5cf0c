"""Why a job ended badly: readings as Slurm 24.11 and its nodes gave them, and what is said of them."""

import time
from dataclasses import replace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.slurm import attempts
from ansible_collections.gpulab.node.plugins.module_utils.slurm.attempts import Attempt
from ansible_collections.gpulab.node.plugins.module_utils.slurm.control import NodeState
from ansible_collections.gpulab.node.plugins.module_utils.watch import judge
from ansible_collections.gpulab.node.plugins.module_utils.watch.judge import WatchState
from ansible_collections.gpulab.node.plugins.module_utils.watch.reports import Killed, Report, Trouble

NOW = 1e9
END = NOW - 30
UP = {name: NodeState(name, name, ("IDLE",)) for name in ("one", "two")}
DOWN = {**UP, "two": NodeState("two", "two", ("DOWN", "NOT_RESPONDING"))}
LOST_GPU = Trouble(END - 5, "fail", "reboot", "XID 79: GPU has fallen off the bus")


def attempt(**values):
    """Return an attempt that ended with exit status 1, with what differs."""
    usual = {
        "job": 7, "array": 7, "state": "FAILED", "uid": 2000, "batch": True, "restarts": 0, "start": NOW - 9000,
        "end": END, "code": 1, "signal": 0, "worst": 0, "nodes": ["one", "two"],
    }  # fmt: skip
    return Attempt(**{**usual, **values})


def report(name, sent=NOW - 5, **values):
    """Return what a node without any trouble reports, with what differs."""
    usual = {"readable": True, "troubles": [], "killed": [], "unfit": [], "received": NOW - 5}
    return Report(**{"node": name, "sent": sent, **usual, **values})


def reports(**two):
    """Return the reports of both nodes, of which two says something else."""
    return {"one": report("one"), "two": report("two", **two)}


def judged(one, nodes=UP, said=None):
    """Return (class, cause, nodes) of an attempt."""
    found = judge.judged(one, nodes, reports() if said is None else said, NOW)
    return found.kind, found.cause, found.nodes


@pytest.mark.parametrize(
    ("values", "kind", "cause"),
    [
        ({}, "program", "exit status 1"),
        ({"code": 0, "signal": 11}, "program", "SIGSEGV"),
        ({"code": 137, "worst": 9}, "unknown", "SIGKILL"),
        ({"code": 134}, "program", "SIGABRT"),
        ({"code": 143, "worst": 15}, "unknown", "SIGTERM"),
        ({"code": 0, "signal": 2}, "user", "SIGINT"),
        ({"code": 0, "signal": 53}, "user", "output could not be opened"),
        ({"code": 127}, "user", "not there"),
        ({"code": 255}, "program", "exit status 255"),
        ({"state": "OUT_OF_MEMORY", "code": 0, "signal": 125}, "program", "more memory than it had asked for"),
    ],
)
def test_the_end_of_a_job_gives_class_and_cause(values, kind, cause):
    found = judged(attempt(**values))
    assert (found[0], found[2]) == (kind, ["one", "two"])
    assert cause in found[1]


@pytest.mark.parametrize(
    ("nodes", "said", "cause"),
    [
        (DOWN, {}, "no longer answers"),
        (UP, {"troubles": [LOST_GPU]}, "XID 79"),
        (UP, {"unfit": ["the driver lists 1 of 2 GPUs"]}, "1 of 2 GPUs"),
        (UP, {"killed": [Killed(END, 7, whole=True)]}, "no memory left"),
        # Its clock is five minutes behind, and so is what it says of the time.
        (UP, {"sent": NOW - 305, "troubles": [replace(LOST_GPU, time=END - 305)]}, "XID 79"),
    ],
)
def test_a_node_that_is_the_cause_is_named(nodes, said, cause):
    kind, told, concerned = judged(attempt(), nodes, reports(**said))
    assert (kind, concerned) == ("node", ["two"])
    assert cause in told


def test_each_node_that_has_trouble_is_named():
    said = {"one": report("one", unfit=["GPU 0: it answers lost"]), "two": report("two", troubles=[LOST_GPU])}
    assert judged(attempt(), said=said) == ("node", LOST_GPU.meaning, ["one", "two"])


@pytest.mark.parametrize(
    "said",
    [
        {"troubles": [replace(LOST_GPU, time=END - 1000)]},
        {"troubles": [replace(LOST_GPU, severity="info", remedy="restart_app", meaning="XID 13")]},
        {"killed": [Killed(END, 8, whole=False)]},
        {"killed": [Killed(END - 1000, 7, whole=False)]},
    ],
)
def test_what_happened_at_another_time_or_to_others_is_not_the_cause(said):
    assert judged(attempt(), said=reports(**said))[:2] == ("program", "it ended with exit status 1")


def test_a_silent_node_and_one_that_cannot_read_its_log_leave_the_cause_open():
    assert judged(attempt(), said={"one": report("one")})[0] == "unknown"
    assert judged(attempt(), said=reports(readable=False))[0] == "unknown"
    assert judged(attempt(state="OUT_OF_MEMORY"), said={})[0] == "program"  # as Slurm itself says


def look(state, *found, nodes=UP, said=None, now=NOW):
    return judge.look(state, list(found), nodes, reports() if said is None else said, now)


def test_it_waits_for_the_reports_of_the_nodes_but_not_for_ever():
    late, waiting = attempt(), {"one": report("one")}
    state, new = look(WatchState(0), late, said=waiting)
    assert new == []
    assert len(look(state, late)[1]) == 1
    assert len(look(state, late, said=waiting, now=END + judge.PATIENCE)[1]) == 1


def test_an_attempt_is_found_once_and_what_ended_before_the_watch_never():
    state, new = look(WatchState(0), attempt())
    assert len(new) == 1
    assert state.counts == {"crash program": 1}
    assert look(state, attempt())[1] == []
    assert look(WatchState(NOW - 10), attempt())[1] == []


def test_a_job_that_has_the_number_of_another_one_is_another_one():
    """Slurm begins at 1 again when it has lost its state, and a job that is requeued keeps its number."""
    state, _new = look(WatchState(0), attempt())
    (reused,) = look(state, attempt(start=NOW - 100))[1]
    (again,) = look(state, attempt(restarts=1, start=NOW - 100))[1]
    assert len({reused.key, again.key, attempt().key}) == 3


def test_a_job_that_slurm_requeued_is_told_if_a_node_is_lost():
    runs = attempt(state="RUNNING", end=NOW + 9000)
    state, _new = look(WatchState(0), runs)
    waits = replace(runs, state="PENDING", restarts=1, start=0.0, nodes=[])
    (found,) = look(state, waits, nodes=DOWN, said={})[1]
    assert (found.kind, found.nodes, found.key) == ("node", ["two"], runs.key)
    assert look(state, waits)[1] == []  # somebody has asked for it: scontrol requeue


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED", "RUNNING", "PENDING", "TIMEOUT", "COMPLETING"])
def test_other_ends_are_no_news(state):
    assert look(WatchState(0), attempt(state=state))[1] == []


def line(**values):
    """Return a line of squeue."""
    usual = {
        "JobID": "11", "ArrayJobID": "10", "State": "FAILED", "UserID": "2000", "BatchFlag": "1", "RestartCnt": "2",
        "StartTime": "2026-11-29T06:21:11", "EndTime": "2026-11-29T06:21:12", "exit_code": "137:0", "DerivedEC": "0:9",
        "NodeList": "gpu[01-03,7],head",
    }  # fmt: skip
    asked = attempts.SHOW[-1].partition("=")[2].split(",")
    return "".join({**usual, **values}[name].ljust(int(size)) for name, size in (one.split(":") for one in asked))


def test_squeue_is_read():
    (found,) = attempts.parse(line())
    began = time.mktime((2026, 11, 29, 6, 21, 11, 0, 0, -1))
    assert found == attempt(
        job=11, array=10, restarts=2, start=began, end=began + 1, code=137, worst=9,
        nodes=["gpu01", "gpu02", "gpu03", "gpu7", "head"],
    )  # fmt: skip
    (waits,) = attempts.parse(line(State="PENDING", StartTime="N/A", EndTime="N/A", NodeList="", ArrayJobID="N/A"))
    assert (waits.start, waits.nodes, waits.array) == (0.0, [], 11)
    (old,) = attempts.parse(line(exit_code="768", DerivedEC="9"))  # 22.05
    assert (old.code, old.signal, old.worst) == (3, 0, 9)
    assert attempts.parse("slurm_load_jobs error: Unable to contact slurm controller\n\n") == []


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ("one", ["one"]),
        ("r[1-2]n[08-09]", ["r1n08", "r1n09", "r2n08", "r2n09"]),
        ("a,b[3,5]x", ["a", "b3x", "b5x"]),
        ("(null)", ["(null)"]),
    ],
)
def test_a_list_of_nodes_is_names(listed, names):
    assert attempts.hosts(listed) == names
