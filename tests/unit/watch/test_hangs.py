"""Which jobs hang: readings of their ranks as the nodes give them, minute by minute."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Job, Node
from ansible_collections.gpulab.node.plugins.module_utils.watch import hangs, judge, looks
from ansible_collections.gpulab.node.plugins.module_utils.watch.judge import WatchState
from ansible_collections.gpulab.node.plugins.module_utils.watch.looks import COLLECTIVE_WORDS, RankLook, Seen

from .test_judge import NOW, UP, attempt, report

HOUR = 3600
SILENCE, GRACE = 600, 1800
RUNS = attempt(state="RUNNING", end=NOW + 9000)
DISK = "waits in the kernel, as for a disk or a file system"
QUIET = dict.fromkeys((looks.STACKS, looks.NETWORK, looks.FILES), NOW - HOUR)
STILL = RankLook(7, 0, 2, 100, "S", "", 60, QUIET, 0.0)
SPINS = replace(STILL, looks=1, quiet={name: at for name, at in QUIET.items() if name != looks.STACKS})


def nodes(*ranks):
    """Return the reports of nodes with one rank each."""
    placed = [replace(one, rank=number) for number, one in enumerate(ranks)]
    return {name: report(name, ranks=[one] if one else []) for name, one in zip(("one", "two"), placed)}


def found(*ranks, of=RUNS, reports=None):
    """Return (what is seen, cause, nodes) of ranks on nodes; None where it is no hang."""
    told = hangs.find(of, reports or nodes(*ranks), NOW, SILENCE, GRACE)
    return told and told[:3]


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (replace(STILL, state="T"), ("hang", "rank 1 on two is stopped, and the others wait", ["two"])),
        (replace(STILL, state="D"), ("suspicion", f"rank 1 on two {DISK}", ["two"])),
        (SPINS, ("suspicion", "rank 1 on two computes and sends nothing, and the others wait", ["two"])),
        (STILL, ("suspicion", "no rank goes on, and none stands elsewhere than the others", ["one", "two"])),
    ],
)  # fmt: skip
def test_the_rank_that_the_others_wait_for_is_named(second, expected):
    assert found(STILL, second) == expected


def test_a_rank_that_is_gone_is_named():
    reports = {"one": report("one", ranks=[STILL]), "two": report("two", ranks=[])}
    assert found(reports=reports) == ("hang", "rank 1 of 2 is gone, and the others wait", ["one", "two"])


def test_the_rank_that_is_not_in_the_collective_operation_is_named():
    within, outside = replace(STILL, size=3, at=COLLECTIVE_WORDS), replace(STILL, size=3, rank=2, at="load (data.py:7)")
    reports = {"one": report("one", ranks=[within]), "two": report("two", ranks=[replace(within, rank=1), outside])}
    cause = "rank 2 on two is not in the collective operation that the others are in"
    assert found(reports=reports) == ("suspicion", cause, ["two"])


WAITS = replace(STILL, at=looks.STARTING_WORDS, quiet={looks.STACKS: NOW - HOUR})  # it asks the store meanwhile
COMES = replace(STILL, at="exec_module (<frozen importlib._bootstrap_external>:940)", looks=1, quiet={})
AWAY = "has not come to where the others wait"


@pytest.mark.parametrize("start", [NOW - HOUR, NOW - 900])  # within the grace, too
@pytest.mark.parametrize(
    ("second", "expected", "evidence"),
    [
        (COMES, (f"rank 1 on two {AWAY}", ["two"]), [f"rank 1 on two is in {COMES.at}"]),
        (
            replace(COMES, state="D"),
            (f"rank 1 on two {AWAY}", ["two"]),
            [f"rank 1 on two is in {COMES.at}, and {DISK}"],
        ),
        (replace(STILL, state="T"), (f"rank 1 on two {AWAY}", ["two"]), ["rank 1 on two is stopped"]),
        (replace(STILL, at=""), (f"rank 1 on two {AWAY}", ["two"]), ["rank 1 on two shows no stack of Python"]),
        (None, ("rank 1 of 2 is not there, and the others wait", ["two"]), []),
        (WAITS, ("all ranks wait for each other: they do not get connected", ["one", "two"]), []),
    ],
)
def test_a_slow_start_names_the_rank_that_the_others_wait_for(second, expected, evidence, start):
    ranks = (WAITS, replace(second, rank=1)) if second else (WAITS, None)
    reports = {name: report(name, ranks=[one] if one else []) for name, one in zip(("one", "two"), ranks)}
    seen, cause, nodes, told = hangs.find(replace(RUNS, start=start), reports, NOW, SILENCE, GRACE)
    assert (seen, (cause, nodes)) == ("slow start", expected)
    assert told[1:] == evidence
    assert f"{1 + (second == WAITS)} of 2 ranks wait in init_process_group" in told[0]


def test_ranks_that_have_not_waited_for_long_or_are_past_their_start_start_not_slowly():
    young = replace(RUNS, start=NOW - 900)
    fresh = replace(WAITS, quiet=dict.fromkeys(QUIET, NOW - 500))
    assert found(fresh, COMES, of=young) is None
    assert found(replace(WAITS, looks=2), COMES, of=young) is None
    assert (
        found(replace(WAITS, longest=400.0), replace(COMES, longest=1900.0), of=young) is None
    )  # it was as long before
    assert found(WAITS, replace(COMES, at=COLLECTIVE_WORDS), of=young) is None
    assert found(STILL, COMES, of=young) is None  # no stack says it
    assert found(reports={"one": report("one", ranks=[WAITS])}, of=young) is None  # the other node says nothing


def test_a_slow_start_is_told_once_whoever_comes_meanwhile():
    ranks = [replace(WAITS, size=4), *(replace(COMES, rank=number, size=4) for number in (1, 2, 3))]
    state, told = WatchState(0), []
    for minute in range(60):
        come = [replace(one, at=looks.STARTING_WORDS) if one.rank <= minute // 15 else one for one in ranks]
        now = NOW + 60 * minute
        placed = {"one": report("one", ranks=come[:2]), "two": report("two", ranks=come[2:])}
        reports = {name: replace(one, sent=now, received=now) for name, one in placed.items()}
        state, new = judge.look(state, [RUNS], UP, reports, now, SILENCE, GRACE)
        told += [(minute, one.seen, one.kind) for one in new]
    assert told == [(0, "slow start", "unknown")]
    assert state.counts == {"slow start unknown": 1}


def without(*names, **values):
    """Return a rank of which these things move."""
    return replace(STILL, quiet={name: at for name, at in QUIET.items() if name not in names}, **values)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (STILL, without(looks.STACKS, looks.FILES, looks=1)),  # it reads or writes, as a checkpoint
        (STILL, without(looks.STACKS, looks.NETWORK, looks=1)),
        (SPINS, SPINS),  # they train by NVLink
        (without(looks.NETWORK), without(looks.NETWORK)),  # it trains, and each look sees it in the same line
        (without(looks.FILES), without(looks.FILES)),
        (replace(STILL, looks=2), replace(STILL, looks=2)),
        (replace(STILL, quiet=dict.fromkeys(QUIET, NOW - 500)), STILL),
        (replace(STILL, longest=1900.0), STILL),  # it has stood for as long before, and gone on
    ],
)
def test_these_are_no_hangs(first, second):
    assert found(first, second) is None


def test_none_is_called_a_hang_at_its_start_or_while_a_node_is_silent_or_once_it_has_ended():
    assert found(STILL, STILL, of=replace(RUNS, start=NOW - GRACE + 1)) is None
    assert found(STILL, STILL, of=replace(RUNS, state="SUSPENDED")) is None
    late = {**nodes(STILL, STILL), "two": replace(nodes(STILL, STILL)["two"], received=NOW - 200)}
    assert found(reports=late) is None
    assert found(reports={"one": late["one"]}) is None
    assert found(reports={**late, "two": report("two", ranks=None)}) is None  # it could not look
    assert found(STILL, STILL, of=replace(RUNS, job=8)) is None


def test_a_clock_that_is_wrong_makes_no_silence():
    fresh = replace(STILL, quiet=dict.fromkeys(QUIET, NOW - HOUR))
    ahead = {name: replace(one, sent=one.received - HOUR) for name, one in nodes(fresh, fresh).items()}
    assert found(reports=ahead) is None


def test_a_hang_is_told_once_and_again_when_the_cause_is_another():
    state = WatchState(0)
    told = []
    for minute in range(60 * 30):
        now = NOW + 60 * minute
        second = replace(STILL, state="T") if minute < 60 * 27 else STILL
        reports = {name: replace(one, sent=now, received=now) for name, one in nodes(STILL, second).items()}
        state, new = judge.look(state, [RUNS], UP, reports, now, SILENCE, GRACE)
        told += [(minute, one.seen) for one in new]
    assert told == [(0, "hang"), (60 * 27, "suspicion")]


def history(*marks, state="S", ticks=(), apart=60):
    """Return what is said of a rank in the last of looks, of which each has these marks."""
    memory, said = {}, []
    for number, mark in enumerate(marks):
        used = ticks[number] if ticks else 0
        seen = Seen(7, 0, 2, 100, 5, state, "", used, mark)
        memory, said = looks.compare([seen], memory, NOW + apart * number)
    return said[0]


SAME = {"stacks": "kernel 1", "network": "5", "files": "6"}


def test_a_silence_begins_with_the_first_look_at_it_and_is_counted_in_looks():
    assert history(SAME).quiet == {}
    said = history(SAME, SAME, SAME)
    assert (said.looks, said.still_since, said.longest) == (3, NOW, 0.0)
    assert history(SAME, SAME, SAME, apart=10).looks == 1  # they are one look
    assert history(SAME, SAME, {**SAME, "stacks": "kernel 2"}).still_since is None
    assert history(SAME, SAME, {**SAME, "files": "7"}).still_since is None


def test_signs_of_life_on_the_network_are_no_work():
    assert history(SAME, SAME, {**SAME, "network": "59000"}).still_since == NOW
    assert history(SAME, SAME, {**SAME, "network": "61000"}).still_since is None
    assert history(SAME, SAME, {**SAME, "network": "4"}).still_since is None  # a connection is gone


def test_the_longest_silence_is_learnt_when_it_ends():
    assert history(*[SAME] * 20, {**SAME, "stacks": "kernel 2"}).longest == 19 * 60
    after = [{**SAME, "stacks": "kernel 2"}] * 5
    assert history(*[SAME] * 20, *after, SAME).longest == 19 * 60


def test_a_rank_that_is_busy_does_not_stand_still_where_only_the_kernel_is_asked():
    busy = [600 * number for number in range(5)]
    assert history(*[SAME] * 5, ticks=busy).looks == 1
    python = {**SAME, "stacks": "python 1"}  # it may spin while it waits
    assert history(*[python] * 5, ticks=busy).looks == 5


def test_another_process_of_the_same_number_is_another_one():
    _memory, before = looks.compare([Seen(7, 0, 2, 100, 5, "S", "", 0, SAME)], {}, NOW)
    memory, _said = looks.compare([Seen(7, 0, 2, 100, 5, "S", "", 0, SAME)], {}, NOW)
    _memory, after = looks.compare([Seen(7, 0, 2, 100, 9, "S", "", 0, SAME)], memory, NOW + 60)
    assert (before[0].quiet, after[0].quiet) == ({}, {})


PY_SPY = """#!/bin/sh
echo 'Process 1: python3 x.py'
echo 'Thread 1 (idle): "MainThread"'
echo '    all_reduce (torch/distributed/distributed_c10d.py:2806)'
echo '    step (train.py:40)'
"""


@pytest.fixture
def tree(tmp_path):
    """Return a /proc with one process of a job, which is this one, and a node that reads it."""
    real = Path(f"/proc/{os.getpid()}")

    def made(environ, step="0", command="python3"):
        place = tmp_path / "proc" / "77"
        (place / "fd").mkdir(parents=True, exist_ok=True)
        fields = real.joinpath("stat").read_text().rpartition(")")[2]
        (place / "stat").write_text(f"77 ({command}){fields}")
        (place / "cgroup").write_text(f"4:memory:/slurm/uid_0/job_7/step_{step}/task_0\n")
        (place / "environ").write_text("\0".join(environ))
        (place / "io").write_text("rchar: 1\nwchar: 2\nsyscr: 9\nwrite_bytes: 4096\n")
        return Node(tmp_path, lambda argv: Job(["true"]) if argv[0] == "ss" else Job(argv))

    return made


TORCHRUN = ("RANK=1", "WORLD_SIZE=4", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1")


@pytest.mark.parametrize(
    ("environ", "step", "expected"),
    [
        (TORCHRUN, "batch", [(1, 4)]),
        (("SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2"), "0", [(1, 2)]),
        (("SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2"), "batch", []),  # the script, not a rank
        (("SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1"), "0", []),
        (("RANK=9", "WORLD_SIZE=2"), "0", []),
        (("RANK=x", "WORLD_SIZE=99999999999999999999"), "0", []),
        (TORCHRUN, "extern", []),
    ],
)
def test_ranks_are_what_torchrun_or_srun_calls_so(tree, environ, step, expected):
    _memory, said = looks.Look(tree(environ, step)).result({}, NOW)
    assert [(one.rank, one.size) for one in said] == expected
    assert all((one.job, one.pid) == (7, 77) for one in said)


@pytest.mark.parametrize(
    ("group", "is_slurms"),
    [
        ("4:memory:/slurm_gpu-07/uid_2000/job_7/step_0/task_0", True),
        ("0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", True),
        ("0::/system.slice/gpu-07_slurmstepd.scope/job_7/step_0/user/task_0", True),
        ("0::/user.slice/user-2000.slice/user@2000.service/system.slice/slurmstepd.scope/job_7/step_0", False),
        ("0::/user.slice/slurm/job_7/step_0", False),
    ],
)
def test_nobody_makes_ranks_of_the_job_of_others(tree, tmp_path, group, is_slurms):
    node = tree(TORCHRUN)
    (tmp_path / "proc/77/cgroup").write_text(f"1:name=systemd:/\n{group}\n")
    assert bool(looks.Look(node).result({}, NOW)[1]) == is_slurms


def test_what_a_rank_reads_and_writes_moves_it(tree, tmp_path):
    node = tree(TORCHRUN)
    memory, _said = looks.Look(node).result({}, NOW)
    memory, (same,) = looks.Look(node).result(memory, NOW + 60)
    assert set(same.quiet) == {"stacks", "network", "files"}
    (tmp_path / "proc/77/io").write_text("rchar: 1\nwchar: 2\nsyscr: 9\nwrite_bytes: 8192\n")
    _memory, (moved,) = looks.Look(node).result(memory, NOW + 120)
    assert set(moved.quiet) == {"stacks", "network"}


def test_a_stack_of_python_says_whether_a_rank_is_in_a_collective_operation(tree, tmp_path, monkeypatch):
    (tmp_path / "py-spy").write_text(PY_SPY)
    (tmp_path / "setpriv").write_text('#!/bin/sh\nshift 4; exec "$@"\n')
    for name in ("py-spy", "setpriv"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    memory, (said,) = looks.Look(tree(TORCHRUN)).result({}, NOW)
    assert said.at == COLLECTIVE_WORDS
    assert (
        memory["77." + str(int(Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[19]))]
        .marks["stacks"]
        .startswith("python ")
    )


def test_a_stack_of_python_says_whether_a_rank_waits_for_the_others_to_come(tree, tmp_path, monkeypatch):
    waits = PY_SPY.replace("    all_reduce (", "    barrier (").replace("step (train", "init_process_group (torch/x")
    (tmp_path / "py-spy").write_text(waits)
    (tmp_path / "setpriv").write_text('#!/bin/sh\nshift 4; exec "$@"\n')
    for name in ("py-spy", "setpriv"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    _memory, (said,) = looks.Look(tree(TORCHRUN)).result({}, NOW)
    assert said.at == looks.STARTING_WORDS


def test_ranks_that_cannot_all_be_looked_at_in_time_are_not_gone(tree, tmp_path, monkeypatch):
    (tmp_path / "setpriv").write_text("#!/bin/sh\nsleep 2\n")
    (tmp_path / "setpriv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert looks.Look(tree(TORCHRUN), 0.5).result({}, NOW) is None


def test_the_sockets_of_a_process_are_counted():
    """The kernel's own, and the program ss."""
    program = """
import os, socket, sys
server = socket.create_server(("127.0.0.1", 0))
a = socket.create_connection(server.getsockname())
b = server.accept()[0]
print("ready", flush=True)
for line in sys.stdin:
    a.sendall(bytes(1000)); b.recv(1000); print("sent", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True, bufsize=1) as child:
        child.stdout.readline()
        node = Node()
        before = looks.exchanged(node, child.pid, looks.connections(node))
        assert looks.exchanged(node, child.pid, looks.connections(node)) == before
        child.stdin.write("\n")
        child.stdout.readline()
        assert looks.exchanged(node, child.pid, looks.connections(node)) >= before + 1000
        child.stdin.close()
