"""Dumps of PyTorch's flight recorder, and NCCL's log: what they say of a hang, and what a hostile file cannot do.

PyTorch 2.13 wrote the files in flight_recorder/, with three ranks of Gloo, which all have called three operations: in
``missing`` rank 2 does not call the fourth, in ``op`` it calls broadcast, in ``healthy`` all have ended. NCCL's dumps
differ as FlightRecorderDetail.hpp and ProcessGroupNCCL.cpp say; ``nccl`` makes them so.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import time
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, Child
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import recorder
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import Dump, Group, Stands
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose, over_nodes, recorded

from unit.checks import nodes

from . import cases
from .test_real import READY, gathered

HERE = Path(__file__).with_name("flight_recorder")


def written(kind, **place):
    """Return the dumps of a recording as the node's reader gives them."""
    return list(recorder.dumps(Node(), recorder.Place(f"{HERE}/{kind}_rank_", **place)))


def dump(kind, rank):
    return recorder.loaded((HERE / f"{kind}_rank_{rank}").read_bytes())


def nccl(dumped):
    """Return a dump of Gloo as NCCL's group writes it: its names, its members by group, and what is complete."""
    found = copy.deepcopy(dumped)
    found["pg_config"] = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}}
    for entry in found["entries"]:
        entry["profiling_name"] = entry["profiling_name"].replace("gloo:", "nccl:")
        entry["state"] = "completed" if entry["retired"] else "started"
        entry["retired"] = True  # as a watchdog leaves what has timed out
    return found


def of(groups, rank, files=recorder.OLD_DEFAULT, when="2026-11-27T04:00:00Z"):
    return Dump(files, rank, when, None, groups)


def as_nccl(kind, change=lambda _rank, _dump: None):
    """Return the dumps of NCCL's ranks; change alters one."""
    found = []
    for rank in range(3):
        dumped = nccl(dump(kind, rank))
        change(rank, dumped)
        found.append(of(recorder.collectives(dumped), rank))
    return found


def only(dumps, **hosts):
    (one,) = recorded.findings(dumps, **hosts)
    return one


@pytest.mark.parametrize("dumps", [lambda: written("missing"), lambda: as_nccl("missing")], ids=["gloo", "nccl"])
def test_the_rank_that_does_not_come_is_named_with_its_last_operation(dumps):
    one = only(dumps())
    assert one.cause == "rank 2 did not come to all_reduce, operation 4 of default_pg, in which ranks 0-1 wait"
    assert "what rank 2 does after operation 3" in one.remedy
    assert one.cost == 1
    assert any(
        "rank 0: all_reduce of Float (4, 8) at /tmp/fr/job.py:15, since 2026-11-27T" in seen for seen in one.evidence
    )


@pytest.mark.parametrize("dumps", [lambda: written("op"), lambda: as_nccl("op")], ids=["gloo", "nccl"])
def test_a_rank_in_another_operation_is_named(dumps):
    one = only(dumps())
    assert one.cause == (
        "the ranks call different operations as number 4 of default_pg: rank 2 in broadcast, ranks 0-1 in all_reduce"
    )
    assert "broadcast is called at /tmp/fr/job.py:14; all_reduce is called at /tmp/fr/job.py:15" in one.remedy


@pytest.mark.parametrize("dumps", [lambda: written("healthy"), lambda: as_nccl("healthy")], ids=["gloo", "nccl"])
def test_a_job_that_has_ended_all_is_no_finding(dumps):
    assert list(recorded.findings(dumps())) == []


def other(size=None, kind=None, operation=None, operation_of=range(3)):
    def change(rank, dumped):
        for entry in dumped["entries"]:
            if operation and rank in operation_of:
                entry["profiling_name"] = f"nccl:{operation}"
            if rank == 1 and size:
                entry["input_sizes"] = size
            if rank == 1 and kind:
                entry["input_dtypes"] = [kind]

    return change


def test_sizes_that_differ_are_named():
    one = only(as_nccl_waiting(other(size=[[4, 7]])))
    assert "rank 1 gives Float (4, 7), ranks 0, 2 give Float (4, 8)" in one.cause
    assert "drop_last=True" in one.remedy


def test_types_that_differ_are_named():
    assert "rank 1 gives Half (4, 8)" in only(as_nccl_waiting(other(kind="Half"))).cause


@pytest.mark.parametrize("change", [other(size=[[8, 4]]), other(size=[[4, 7]], operation="all_to_all")])
def test_sizes_that_may_differ_are_no_cause(change):
    """An all_reduce counts elements, not dimensions; each rank gives its own share to all_to_all."""
    assert only(as_nccl_waiting(change)).cause.startswith("all ranks wait in")


def as_nccl_waiting(change=lambda _rank, _dump: None):
    """Return the dumps of three ranks that all wait in the fourth operation."""
    first = dump("missing", 0)
    found = []
    for rank in range(3):
        dumped = nccl(first)
        change(rank, dumped)
        found.append(of(recorder.collectives(dumped), rank))
    return found


def test_ranks_without_a_dump_are_named_and_not_blamed():
    one = only(as_nccl("missing")[:2])
    assert one.cause == "ranks 0-1 wait in all_reduce, operation 4 of default_pg; rank 2 left no dump that was read"
    assert one.cost < 1


def test_a_rank_that_waits_in_another_group_is_not_the_first_cause():
    """Rank 2 does not come to the default group, since it waits in tp_1, to which rank 3 does not come."""
    dumps = as_nccl("missing")
    early = Stands(7, "all_gather", [[4]], ["Float"], None, "2026-11-27T03:00:00Z")
    dumps[2].groups.append(Group("tp_1", [2, 3], 7, early))
    dumps.append(of([Group("tp_1", [2, 3], 6, None)], 3))
    first, second = sorted(recorded.findings(dumps), key=lambda one: -one.cost)
    assert first.cause.startswith("rank 3 did not come to all_gather, operation 7 of tp_1, in which rank 2 waits")
    assert second.cause.endswith("ranks 0-1 wait; rank 2 waits in all_gather, operation 7 of tp_1")
    assert second.cost < first.cost


def test_a_dump_of_an_earlier_hang_is_left_out():
    dumps = as_nccl("missing")
    dumps[2] = replace(dumps[2], written="2026-11-20T04:00:00Z")
    assert "rank 2 left no dump" in only(dumps).cause


def test_the_newest_dump_of_a_rank_holds():
    """Two nodes see the same directory of the network; one of them saw it earlier."""
    dumps = as_nccl("missing")
    old = replace(dumps[2], written="2026-11-27T03:59:00Z", groups=[])
    assert only([*dumps, old]).remedy == only([old, *dumps]).remedy == only(dumps).remedy


def test_operations_between_two_ranks_are_left_out():
    dumped = nccl(dump("missing", 0))
    dumped["entries"].append({**dumped["entries"][-1], "is_p2p": True, "collective_seq_id": 99})
    assert recorder.collectives(dumped)[0].last == 4


def test_json_is_read_as_the_pickle_is(tmp_path):
    found = dump("missing", 0)
    (tmp_path / "trace_0").write_text(json.dumps(found))
    (read,) = recorder.dumps(Node(), recorder.Place(f"{tmp_path}/trace_"))
    assert read.groups == recorder.collectives(found)


HOSTILE = {
    "a program": b"cos\nsystem\n(S'touch %s'\ntR.",
    "a class of the library": pickle.dumps(Path("/")),
    "an extension": b"\x80\x02\x82\x01.",
    "no pickle": b"nothing of the kind",
    "another pickle": pickle.dumps({"entries": [1]}),
    "a half": (HERE / "missing_rank_0").read_bytes()[:700],
    "nothing": b"",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_is_no_dump_runs_nothing_and_is_named(data, tmp_path):
    mark = tmp_path / "ran"
    (tmp_path / "trace_0").write_bytes(data.replace(b"%s", bytes(mark)))
    (read,) = recorder.dumps(Node(), recorder.Place(f"{tmp_path}/trace_"))
    assert read.problem
    assert read.groups == []
    assert not mark.exists()


def test_what_would_take_all_memory_takes_little(tmp_path):
    (tmp_path / "trace_0").write_bytes(b"\x80\x02Nr\xff\xff\xff\x3f.")  # a memo with room for 2^30 entries: 16 GiB
    (tmp_path / "trace_1").write_bytes((HERE / "missing_rank_1").read_bytes())
    place = recorder.Place(f"{tmp_path}/trace_")
    child = Child(lambda emit: recorder.read(Node(), [place], [], emit), 30)
    assert child.wait() == DONE, child.reason
    first, second = (one for message in child.messages for one in message["dumps"])
    assert "MemoryError" in first["problem"]
    assert second["groups"]


def test_a_large_file_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "MOST_BYTES", 100)
    (tmp_path / "trace_0").write_bytes((HERE / "missing_rank_0").read_bytes())
    (read,) = recorder.dumps(Node(), recorder.Place(f"{tmp_path}/trace_"))
    assert read.problem


@pytest.mark.parametrize("kind", ["link", "pipe", "directory", "another user's", "older than the job"])
def test_what_is_no_file_of_the_job_is_not_opened(kind, tmp_path):
    path, place = tmp_path / "trace_0", recorder.Place(f"{tmp_path}/trace_", "", os.getuid())
    if kind == "link":
        path.symlink_to(HERE / "missing_rank_0")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.write_bytes((HERE / "missing_rank_0").read_bytes())
        place = place._replace(uid=12345) if kind == "another user's" else place._replace(since="2099-01-01T00:00:00Z")
    assert list(recorder.dumps(Node(), place)) == []


def test_a_file_of_the_job_is_opened(tmp_path):
    (tmp_path / "trace_0").write_bytes((HERE / "missing_rank_0").read_bytes())
    since = f"{datetime.now(timezone.utc):%Y-%m-%dT00:00:00Z}"
    assert len(list(recorder.dumps(Node(), recorder.Place(f"{tmp_path}/trace_", "", os.getuid(), since)))) == 1


def process(**environment):
    return cases.record(7, environment={"RANK": "0", **environment})


PLACES = {
    "by default": ({}, ["/home/anna/.cache/torch/comm_lib_trace_rank_", recorder.OLD_DEFAULT]),
    "cache": (
        {"XDG_CACHE_HOME": "/fast"},
        ["/fast/torch/comm_lib_trace_rank_", recorder.OLD_DEFAULT],
    ),
    "old name": ({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/a/r"}, ["/a/r"]),
    "both names": ({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/a/r", "TORCH_FR_DUMP_TEMP_FILE": "/b/r"}, ["/b/r"]),
    "in its own directory": ({"TORCH_FR_DUMP_TEMP_FILE": "trace_"}, []),
}


@pytest.mark.parametrize(("environment", "prefixes"), PLACES.values(), ids=PLACES)
def test_where_a_job_writes(environment, prefixes):
    found = recorder.places([(process(**environment), 1000)], None, None)
    assert [place.prefix for place in found] == prefixes
    assert all(place.uid == 1000 and place.since == "2026-11-26T08:00:00Z" and not place.root for place in found)


def test_a_job_in_a_container_writes_there():
    record = replace(process(TORCH_FR_DUMP_TEMP_FILE="/r"), container="0123456789ab")
    (place,) = recorder.places([(record, 1000)], None, None)
    assert place.root == "/proc/7/root"


def test_the_first_rank_that_began_says_since_when():
    late = replace(process(TORCH_FR_DUMP_TEMP_FILE="/r"), since="2026-11-26T09:00:00Z")
    found = recorder.places([(late, 1000), (process(TORCH_FR_DUMP_TEMP_FILE="/r"), 1000)], None, "/named/r")
    assert [(place.prefix, place.since) for place in found] == [("/named/r", None), ("/r", "2026-11-26T08:00:00Z")]


def test_a_program_that_is_no_rank_has_no_dumps():
    assert recorder.places([(cases.record(7), 1000)], None, None) == []
    assert [place.uid for place in recorder.places([], ("/home/anna", 1000), None)] == [1000, 1000]


LOG = """node07:812:840 [0] NCCL INFO Channel 00/02 : 0 1
node07:812:840 [0] ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory
node07:812:840 [0] NCCL INFO transport.cc:165 -> 2
"""


def test_warnings_of_nccl_are_read(tmp_path):
    record = cases.record(7, environment={recorder.LOG: f"{tmp_path}/nccl.%h.%p"})
    path = recorder.log_file(record, "node07")
    assert path == f"{tmp_path}/nccl.node07.7"
    Path(path).write_text(LOG)
    (line,) = recorder.warnings(Node(), path, os.getuid())
    assert line.endswith("failed with error Cannot allocate memory")
    assert recorder.warnings(Node(), path, 12345) == []
    assert recorder.log_file(cases.record(7), "node07") is None


@pytest.mark.parametrize(
    ("warning", "cause"),
    [
        (
            "NCCL WARN NET/Socket: it rains",
            "NCCL of python3 (PID 1001, user anna) warns: NCCL WARN NET/Socket: it rains",
        ),
        (
            "NCCL WARN NET/IB : Got completion from peer 10.216.210.236<54862> with status=12 opcode=0 len=0",
            "was not answered",
        ),
    ],
)
def test_what_nccl_warned_of_is_explained(warning, cause):
    facts = nodes.healthy("h100x8")
    found = cases.at_work(facts)
    found["nccl_logs"] = [{"pid": 1001, "path": "/data/nccl.log", "warnings": [warning]}]
    told = {one.id: one for one in diagnose.findings(cases.case(facts, found, "hang"))}
    assert cause in told["hang-nccl-warning"].cause


def test_ranks_over_two_nodes_are_compared_by_their_dumps():
    facts = nodes.healthy("h100x8")
    dumps = [asdict(one) for one in as_nccl("missing")]
    documents = {
        name: diagnose.diagnosis(
            cases.case(facts, cases.evidence(facts, dumps=part), "hang"), name, "2026-11-27T04:10:00Z"
        )
        for name, part in {"node07": dumps[:2], "node08": dumps[2:]}.items()
    }
    (alone,) = documents["node07"].findings
    assert "rank 2 left no dump" in alone.cause
    lines = "\n".join(over_nodes.lines(documents))
    assert "over nodes: 1 finding" in lines
    assert "rank 2 did not come to all_reduce, operation 4 of default_pg, in which ranks 0-1 wait" in lines
    assert "rank 2 does on node08 after operation 3" in lines


@pytest.mark.slow
def test_a_live_job_is_told_by_its_dumps(tmp_path):
    """One process stands for the ranks: what they wrote is found by its variables."""
    prefix = f"{tmp_path}/trace_"
    given = {**os.environ, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "3", "TORCH_FR_DUMP_TEMP_FILE": prefix}
    program = subprocess.Popen([sys.executable, "-c", READY], env=given, stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout.readline() == "ready\n"
        time.sleep(1.1)  # a dump is younger than its process
        for rank in range(3):
            Path(f"{prefix}{rank}").write_bytes((HERE / f"missing_rank_{rank}").read_bytes())
        read = gathered(pid=program.pid)
    finally:
        program.kill()
        program.wait()
    assert [one["rank"] for one in read["dumps"]] == [0, 1, 2]
    first, *_others = diagnose.findings(cases.case(nodes.healthy("h100x8"), read, "hang", pid=program.pid))
    assert first.id == "hang-collective"
    assert "rank 2 did not come" in first.cause
