"""The watch over what torchrun started without Slurm: whose ranks are whose, and who is told."""

from __future__ import annotations

import json
import os
import pwd

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job, Node
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import processes
from ansible_collections.gpulab.node.plugins.module_utils.watch import alone, looks
from ansible_collections.gpulab.node.plugins.module_utils.watch.looks import RankLook

from .test_hangs import HOUR, QUIET
from .test_judge import NOW

ME = os.getuid()
SLURMS = "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a node, and a function that starts a program there."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("btime 1000\n")
    monkeypatch.setattr(alone, "DIRECTORY", tmp_path / "run")
    monkeypatch.setattr(alone, "METRICS", tmp_path / "gpulab-hangs.prom")
    owners = {}
    for module in (alone, looks):
        monkeypatch.setattr(module, "owner", lambda _node, pid: owners.get(pid))

    def starts(pid, parent, *environ, uid=ME, command="python3", group="0::/user.slice\n"):
        place = tmp_path / "proc" / str(pid)
        (place / "fd").mkdir(parents=True)
        (place / "stat").write_text(f"{pid} ({command}) S {parent} " + " ".join(["0"] * 17) + f" {pid} 0\n")
        owners[pid] = uid
        (place / "environ").write_text("\0".join(environ))
        (place / "cgroup").write_text(group)
        (place / "io").write_text("rchar: 1\nwchar: 2\nwrite_bytes: 3\n")

    node = Node(tmp_path, lambda _argv: Job(["true"]))
    return node, starts


def place(rank, size=2):
    return f"RANK={rank}", f"LOCAL_RANK={rank}", f"LOCAL_WORLD_SIZE={size}", f"WORLD_SIZE={size}"


def ranks(node, uid=ME):
    return looks.of_torchrun(node, processes.table(node), uid)


def test_the_ranks_of_a_job_are_what_one_torchrun_has_started(machine):
    node, starts = machine
    starts(70, 1)
    starts(71, 70, *place(0))
    starts(72, 70, *place(1), command="pt_main_thread")
    starts(73, 71, *place(0))  # a worker that loads data
    starts(80, 1)
    starts(81, 80, *place(0, 1))  # it has no other
    starts(82, 80, "LOCAL_RANK=0")
    starts(83, 80, *place("0" * 9))
    starts(84, 80, *place(0), group=SLURMS)  # the watch of Slurm's controller has it
    assert ranks(node) == {(70, 0, 2): [71], (70, 1, 2): [72]}


def test_nobody_makes_ranks_of_the_job_of_others(machine):
    node, starts = machine
    starts(70, 1)
    starts(71, 70, *place(0))
    starts(72, 70, *place(1), uid=ME + 1)  # as by sudo
    starts(90, 1, uid=ME + 1)
    starts(91, 90, *place(0), uid=ME)
    assert ranks(node) == {(70, 0, 2): [71]}
    assert ranks(node, ME + 1) == {}


def test_of_many_processes_of_one_user_few_are_looked_at(machine):
    node, starts = machine
    starts(2, 1)
    for number in range(looks.MOST_PROCESSES + 50):
        starts(10 + number, 2, *place(number, 2000))
    assert len(ranks(node)) == looks.MOST_RANKS


def test_only_who_has_an_account_is_looked_at(machine):
    """Containers of people without root have numbers of users that are nobody's."""
    node, starts = machine
    starts(70, 1, uid=ME)
    starts(71, 1, uid=4_000_000)
    starts(72, 1, uid=1, command="bash")
    assert alone.users(node, processes.table(node)) == [ME]


def test_a_user_who_holds_up_his_reader_keeps_nobody_else_from_being_watched(machine, monkeypatch):
    node, starts = machine
    for uid, pid in ((ME, 70), (1, 80)):
        starts(pid, 1, uid=uid)
        for rank in (0, 1):
            starts(pid + 1 + rank, pid, *place(rank), uid=uid)

    def find(known, table, uid):
        while uid == 1:
            pass
        return looks.of_torchrun(known, table, uid)

    monkeypatch.setattr(alone, "FIND", find)
    before = {"1": {"81.81": looks.Memory(looks=7)}}
    kept, jobs, found = alone.seen(node, before, NOW, seconds=2)
    assert kept["1"] == before["1"]  # none of them is gone
    assert [(job.job, job.uid) for job in jobs] == [(70, ME)]
    assert jobs[0].start == 1000 + 70 / processes.TICKS
    assert sorted((one.job, one.rank, one.size) for one in found) == [(70, 0, 2), (70, 1, 2)]


@pytest.fixture
def look(machine, monkeypatch):  # noqa: ARG001 - where it writes
    """Return a function that looks once at two ranks, of which the second one is stopped; it returns who was told."""
    stands = [RankLook(70, rank, 2, 71 + rank, "ST"[rank], "", 60, QUIET, 0.0) for rank in (0, 1)]
    job = alone._job(70, ME, NOW - HOUR)  # noqa: SLF001
    told, logged = [], []
    monkeypatch.setattr(alone, "seen", lambda *_: ({}, [job], stands))
    monkeypatch.setattr(alone.telling, "tell", lambda uid, subject, text: told.append((uid, subject, text)))
    monkeypatch.setattr(alone.controller.syslog, "syslog", lambda _level, text: logged.append(text))
    monkeypatch.setattr(alone.time, "time", lambda: NOW)
    alone.METRICS.write_text("")

    def looked():
        told.clear()
        (alone.DIRECTORY / "looks.json").unlink(missing_ok=True)
        alone.main(["10", "30"])
        return list(told)

    looked.logged = logged
    return looked


def test_the_owner_of_a_job_that_hangs_is_told_once_and_nobody_else(look):
    ((uid, subject, text),) = look()
    assert (uid, subject) == (ME, "a job that hangs")
    assert f"job 70 on {os.uname().nodename.partition('.')[0]}: rank 1 on " in text
    assert "kill 70" in text
    assert "scancel" not in text
    assert look.logged == [f"hang, unknown, {pwd.getpwuid(ME).pw_name}: {text.splitlines()[1]}"]
    assert "gpulab_hangs_jobs 1\n" in alone.METRICS.read_text()
    assert look() == []


def test_it_is_written_down_before_it_is_told(look, monkeypatch):
    def killed(*_told):
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(alone.controller, "log", killed)
        with pytest.raises(KeyboardInterrupt):
            look()
    assert look() == []


def test_two_looks_are_some_time_apart(look, monkeypatch):
    look()
    monkeypatch.setattr(alone, "seen", lambda *_: pytest.fail("it looks again"))
    os.utime(alone.DIRECTORY / "looks.json", (NOW, NOW))
    alone.main(["10", "30"])


def test_what_it_remembers_is_read_again(machine, monkeypatch):
    node, starts = machine
    starts(70, 1)
    for rank in (0, 1):
        starts(71 + rank, 70, *place(rank))
    monkeypatch.setattr(alone, "Node", lambda: node)
    monkeypatch.setattr(alone.telling, "tell", lambda *_: pytest.fail("nothing hangs"))
    for now in (NOW, NOW + 60):
        monkeypatch.setattr(alone.time, "time", lambda now=now: now)
        alone.main(["10", "30"])
    kept = json.loads((alone.DIRECTORY / "looks.json").read_text())
    assert kept[str(ME)]["71.71"]["looks"] == 2
    (alone.DIRECTORY / "looks.json").write_text("{")
    os.utime(alone.DIRECTORY / "looks.json", (0, 0))
    alone.main(["10", "30"])
    assert json.loads((alone.DIRECTORY / "looks.json").read_text())[str(ME)]["71.71"]["looks"] == 1
