"""Who is told of what, how often, and what comes first: the record, then the message."""

import json
import os
import pwd

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.slurm import attempts
from ansible_collections.gpulab.node.plugins.module_utils.watch import controller, reports
from ansible_collections.gpulab.node.plugins.module_utils.watch.judge import Finding
from ansible_collections.gpulab.node.plugins.module_utils.watch.reports import Report

from .test_judge import line
from .test_retries import Slurm


def finding(job=7, **values):
    usual = {
        "key": f"{job}.0.1", "job": job, "array": job, "uid": 2000, "seen": "crash", "kind": "program", "cause": "why",
        "nodes": ["one"], "evidence": [], "time": 1e9, "batch": True,
    }  # fmt: skip
    return Finding(**{**usual, **values})


def due(new, before=()):
    return {uid: [one.job for one in found] for uid, found in controller.due(new, before).items()}


def test_a_cause_is_told_once_for_all_jobs_of_an_array():
    array = [finding(job, array=10) for job in (10, 11, 12)]
    assert due(array) == {2000: [10]}
    assert due(array, [finding(9, array=10)]) == {}
    assert due([finding(12, array=10, cause="another")], array) == {2000: [12]}


def test_a_job_of_another_day_that_has_the_same_number_is_told():
    """Slurm begins at 1 again when it has lost its state."""
    assert due([finding(time=1e9 + 80000)], [finding()]) == {}
    assert due([finding(time=1e9 + 90000)], [finding()]) == {2000: [7]}


def test_who_saw_it_at_the_terminal_is_told_of_what_the_terminal_does_not_say():
    assert due([finding(batch=False)]) == {}
    assert due([finding(batch=False, kind="node")]) == {2000: [7]}


def test_a_message_names_few_jobs_and_holds_no_control_characters():
    text = controller.message([finding(job, cause="a\x1b]0;b\nc") for job in range(9)], "head", {})
    assert text.startswith("head: 9 jobs of yours failed.\n")
    assert text.count("job ") == controller.SHOWN
    assert "and 4 more" in text
    assert "\x1b" not in text
    assert "b\nc" not in text


@pytest.fixture
def look(monkeypatch, tmp_path):
    """Return a function that lets the controller look at a job of ours that failed; it returns who was told."""
    answers = {"squeue": line(UserID=str(os.getuid()), JobID="7", ArrayJobID="7", NodeList="one"), "scontrol": ""}
    told = []
    monkeypatch.setattr(controller, "STATE", tmp_path / "watch" / "state.json")
    monkeypatch.setattr(controller, "METRICS", tmp_path / "gpulab-watch.prom")
    monkeypatch.setattr(controller, "Job", lambda argv, seconds: Job(["printf", "%s", answers[argv[0]]], seconds))
    monkeypatch.setattr(controller.syslog, "syslog", lambda *_said: None)
    monkeypatch.setattr(controller.telling, "tell", lambda uid, _subject, text: told.append((uid, text)))
    monkeypatch.setattr(controller.reports, "kept", dict)
    controller.records.write(controller.STATE, {"since": 0, "running": {}, "done": {}, "found": [], "counts": {}})

    def looked():
        told.clear()
        controller.main(["10", "30", "3"])
        return list(told)

    looked.answers = answers
    return looked


def test_the_owner_is_told_once(look, tmp_path):
    ((uid, text),) = look()
    assert uid == os.getuid()
    assert "job 7 on one" in text
    assert look() == []
    assert 'gpulab_watch_jobs_total{seen="crash",cause="unknown"} 1' in (tmp_path / "gpulab-watch.prom").read_text()


def test_a_judge_that_is_killed_before_its_message_tells_nobody_twice(look, monkeypatch):
    def killed(*_finding):
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(controller, "log", killed)
        with pytest.raises(KeyboardInterrupt):
            look()
    assert json.loads(controller.STATE.read_text())["found"][0]["job"] == 7
    assert look() == []


def test_what_cannot_be_written_down_is_not_told(look, monkeypatch):
    monkeypatch.setattr(controller, "STATE", controller.STATE.parent / "state.json" / "full")
    with pytest.raises(Refusal):
        look()


def test_a_slurm_that_does_not_answer_changes_nothing(look, monkeypatch):
    before = controller.STATE.read_text()
    monkeypatch.setattr(controller, "Job", lambda _argv, seconds: Job(["false"], seconds))
    with pytest.raises(SystemExit, match="does not answer"):
        look()
    assert controller.STATE.read_text() == before


def test_a_damaged_memory_is_set_aside(look):
    controller.STATE.write_text("{")
    assert look() == []  # what ended before the watch began is no news
    assert controller.STATE.with_name("state.json.damaged").exists()


SCONTROL = """NodeName=one State=DOWN Gres=gpu:1 Partitions=gpu
NodeName=two State=IDLE Gres=gpu:1 Partitions=gpu
"""


@pytest.fixture
def slurm(look, monkeypatch):
    """Return a stand-in for a Slurm whose job 7 failed as node one was lost; its owner lets it start again twice."""
    made = Slurm(NumNodes="1")
    look.answers["scontrol"] = SCONTROL

    def listed():
        values = {name: made.columns[name] for name in ("State", "RestartCnt", "StartTime") if name in made.columns}
        user = {"UserID": str(os.getuid()), "JobID": "7", "ArrayJobID": "7", "NodeList": "one"}
        look.answers["squeue"] = line(**{"RestartCnt": "0", **user, **values})

    def looked():
        listed()
        return look()

    monkeypatch.setattr(controller, "ask", made.ask)
    monkeypatch.setattr(controller.time, "time", lambda: made.now)
    made.now = attempts.seconds("2026-11-29T06:21:11") + 60
    made.look = looked
    return made


def retried():
    return [(one["name"], one["outcome"]) for one in json.loads(controller.STATE.read_text())["retries"]]


def test_a_job_is_put_back_told_to_its_owner_and_not_touched_again(slurm):
    ((uid, text),) = slurm.look()
    assert uid == os.getuid()
    assert "it was put back into the queue (1 of 2) and keeps away from one.\ngpulab has ended nothing.\n" in text
    assert slurm.calls == ["requeue 7", "update jobid=7 ExcNodeList=one"]
    assert slurm.look() == []
    assert len(slurm.calls) == 2


def test_a_job_whose_owner_did_not_ask_is_left(slurm):
    slurm.comment = "(null)"
    ((_uid, text),) = slurm.look()
    assert text.endswith("gpulab has ended nothing and started nothing.\n")
    assert (slurm.calls, retried()) == ([], [])


class Killed(BaseException):
    """The controller is killed."""


@pytest.mark.parametrize("last", ["", "requeue 7", "update jobid=7 ExcNodeList=one"])
def test_a_judge_that_is_killed_puts_a_job_back_once(slurm, monkeypatch, last):
    """Before its first command, and after each of them; what came of it is told by the next look."""

    def cut(argv):
        answer = slurm.ask(argv) if argv[0] == "squeue" or last else None
        if argv[0] == "scontrol" and (not last or slurm.calls[-1] == last):
            raise Killed
        return answer

    with monkeypatch.context() as context:
        context.setattr(controller, "ask", cut)
        with pytest.raises(Killed):
            slurm.look()
    assert retried() == [("7", "")]  # it was written down first
    slurm.now += 60
    ((_uid, text),) = slurm.look()
    assert "it was put back into the queue (1 of 2) and keeps away from one." in text
    assert slurm.calls.count("requeue 7") == 1
    assert slurm.look() == []


def test_what_is_found_undone_too_late_is_not_done(slurm, monkeypatch):
    with monkeypatch.context() as context:
        context.setattr(controller.retries, "carry_out", lambda _retry, _ask: "")
        slurm.look()
    slurm.now += 250
    ((_uid, text),) = slurm.look()
    assert "nobody knows whether it was" in text
    assert slurm.calls == []


def test_a_state_of_an_earlier_gpulab_has_no_retries(slurm):
    assert "retries" not in json.loads(controller.STATE.read_text())
    assert slurm.look()


OOM = (
    "2026-11-29T06:30:01+0000 one kernel: oom-kill:constraint={constraint},nodemask=(null),cpuset=step_0,"
    "mems_allowed=0,{memcg}task_memcg=/system.slice/slurmstepd.scope/job_7/step_0/user/task_0,task=job_8/,task=x,pid=99,uid=2000"
)
XID = "2026-11-29T06:30:01+0000 one kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


def test_the_kernel_log_is_read():
    own = OOM.format(constraint="CONSTRAINT_MEMCG", memcg="oom_memcg=/system.slice/slurmstepd.scope/job_7,")
    whole = OOM.format(constraint="CONSTRAINT_NONE", memcg="global_oom,")
    now = 1795933860.0
    troubles, killed = reports.from_log(f"{XID}\n{own}\n{whole}\n", now)
    assert [(one.time, one.severity) for one in troubles] == [(1795933801.0, "fail")]
    assert "XID 79" in troubles[0].meaning
    assert [(one.job, one.whole) for one in killed] == [(7, False), (7, True)]
    assert reports.from_log(f"{XID}\n{own}\n", now + reports.WINDOW) == ([], [])


@pytest.fixture
def unmunge(monkeypatch, tmp_path):
    """Return a function that lets a stand-in for unmunge give a user and a text for whatever comes."""

    def gives(uid, text, status=0):
        program = tmp_path / "unmunge"
        program.write_text(f"#!/bin/sh\necho 'UID:  {uid}' >&2\ncat {tmp_path}/text\nexit {status}\n")
        program.chmod(0o755)
        (tmp_path / "text").write_text(text)

    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return gives


REPORT = {"node": "one", "sent": 1.0, "readable": True, "troubles": [], "killed": [], "unfit": [], "received": 0.0}


def test_a_report_of_roots_is_taken(unmunge):
    unmunge("root (0)", json.dumps(REPORT))
    assert reports.opened(b"x") == Report(**REPORT)


@pytest.mark.parametrize(
    ("uid", "values", "status"),
    [
        (f"{pwd.getpwuid(1).pw_name} (1)", {}, 0),
        ("root (0)", {}, 17),
        ("x (10) (0)\nUID: wei (2000)", {"node": "../one"}, 0),
        ("root (0)", {"node": "../../etc/passwd"}, 0),
        ("root (0)", {"node": ""}, 0),
        ("root (0)", {"sent": "now"}, 0),
    ],
)
def test_other_reports_are_refused(unmunge, uid, values, status):
    unmunge(uid, json.dumps({**REPORT, **values}), status)
    with pytest.raises(ValueError, match=r"no credential|no name|is not"):
        reports.opened(b"x")
