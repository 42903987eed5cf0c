"""One all_reduce over several nodes: who takes part, how each takes part, what comes of it.

The interpreter is a shell script here, in PyTorch's place; the scenario across_nodes runs PyTorch over a network.
"""

# ruff: noqa: D102, D105
import json
import sys
import time
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.active import nodes_all_reduce_program, roll_call
from ansible_collections.gpulab.node.plugins.module_utils.active.nodes_all_reduce import Part, measure
from ansible_collections.gpulab.node.plugins.plugin_utils.peers import across_nodes

DONE = {"phase": "measured", "processes": 4, "algorithm_gbs": 2.0, "all_reduce_gbs": 3.0, "wrong": 0}


@pytest.fixture
def take_part(tmp_path, monkeypatch):
    """Return a function that runs the first node's part, the others there or missing, by a script as interpreter."""
    python = tmp_path / "bin/python"
    python.parent.mkdir()

    def run(script, missing=None, **changes):
        def attend(call):
            return {"missing": {call.name: call.cannot, "second": "started"} if call.cannot else missing or {}}

        monkeypatch.setattr(roll_call, "attend", attend)
        python.write_text(f'#!/bin/sh\nif [ "$1" = -c ]; then exit 0; fi\n{script}\n', encoding="utf-8")
        python.chmod(0o755)
        part = {
            "nodes": ("first", "second"),
            "name": "first",
            "address": "192.0.2.1",
            "port": 23457,
            "run": "one",
            "backend": "gloo",
            "interface": "eth0",
            "taking_part": {"first": [1, 8], "second": [8, 8]},
            "own_address": "192.0.2.1",
            "python": str(python),
            "program_seconds": 10.0,
            "start_line": str(tmp_path / "torchrun.sh"),
        }
        return measure(Part(**{**part, **changes}))

    return run


def said(*lines):
    """Return a script that prints these records."""
    return "\n".join(f"echo '{json.dumps(line)}'" for line in lines)


def test_processes_of_a_node_are_one_record(take_part):
    record = take_part(said({"phase": "started"}, DONE, {**DONE, "all_reduce_gbs": 2.5, "wrong": 7}))
    assert (record["state"], record["all_reduce_gbs"], record["wrong"]) == ("done", 2.5, 7)
    assert (record["nodes"], record["meeting_point"]) == (["first", "second"], "192.0.2.1 port 23457")
    assert record["taking_part"] == {"first": [1, 8], "second": [8, 8]}


def test_torchrun_is_started_alike_with_and_without_the_role_nccl(take_part, tmp_path):
    own = take_part(f'echo "$*" >"{tmp_path}/own"; {said(DONE)}', gpus=("GPU-1", "GPU-2"))
    assert own["state"] == "done"
    line = 'echo "$NODES $PROCESSES $RENDEZVOUS $JOB $*" >"$(dirname "$0")/line"; exec python "$@"'
    (tmp_path / "torchrun.sh").write_text(line, encoding="utf-8")
    assert take_part(said(DONE), gpus=("GPU-1", "GPU-2"))["state"] == "done"
    options = (tmp_path / "own").read_text().split()
    assert options[:2] == ["-m", "torch.distributed.run"]
    assert {"--nnodes=2", "--nproc-per-node=2", "--rdzv-endpoint=192.0.2.1:23457", "--rdzv-id=one"} <= set(options)
    by_line = (tmp_path / "line").read_text().split()
    assert by_line[:4] == ["2", "2", "192.0.2.1:23457", "one"]
    assert by_line[4:6] == options[7:9] == ["--local-addr=192.0.2.1", "--rdzv-conf=is_host=1"]
    assert by_line[-2:] == options[-2:] == ["gloo", "10"]


def test_processes_see_their_gpus_and_take_the_interface(take_part, tmp_path):
    script = f'env >"{tmp_path}/environment"; {said(DONE)}'
    assert take_part(script, gpus=("GPU-1", "GPU-2"))["state"] == "done"
    environment = (tmp_path / "environment").read_text().splitlines()
    wanted = {"CUDA_VISIBLE_DEVICES=GPU-1,GPU-2", "NCCL_SOCKET_IFNAME==eth0", "GLOO_SOCKET_IFNAME=eth0"}
    assert wanted <= set(environment)


def test_nobody_starts_without_the_others(take_part, tmp_path):
    record = take_part(f"touch {tmp_path}/started", missing={"second": "did not come"})
    assert (record["state"], record["missing"]) == ("missing", {"second": "did not come"})
    assert not (tmp_path / "started").exists()


def test_run_that_hangs_ends_at_its_deadline_and_says_how_far_it_came(take_part):
    begin = time.monotonic()
    record = take_part(f"{said({'phase': 'started'}, {'phase': 'joined'})}; sleep 60", program_seconds=1.0)
    assert time.monotonic() - begin < 10
    assert (record["state"], record["stands"]) == ("late", {"first": "joined", "second": "started"})
    assert take_part("sleep 60", program_seconds=0.5)["stands"]["first"] == "nothing"


def test_torchrun_that_is_late_may_end_what_it_started(take_part, tmp_path):
    # its processes lead sessions of their own, which a signal to its group does not reach
    record = take_part(f"trap 'touch {tmp_path}/told; exit 1' TERM; sleep 60 & wait", program_seconds=1.0)
    assert record["state"] == "late"
    assert (tmp_path / "told").exists()


def test_failure_is_told_in_the_process_own_words(take_part):
    failure = {"failure": "DistBackendError: NCCL error: unhandled system error"}
    record = take_part(f"{said(failure)}; echo 'a long banner' >&2; exit 1")
    assert (record["state"], record["error"]["name"]) == ("failed", failure["failure"])
    assert take_part("echo ChildFailedError >&2; exit 1")["error"]["name"] == "ChildFailedError"
    assert take_part(":")["state"] == "failed"


def test_interpreter_without_pytorch_comes_and_says_so(monkeypatch):
    calls = []
    monkeypatch.setattr(roll_call, "attend", lambda call: calls.append(call) or {"missing": {"first": call.cannot}})
    for python in (sys.executable, "/no/python"):
        part = Part(("first", "second"), "first", "192.0.2.1", 1, "one", "gloo", "eth0", "192.0.2.1", python)
        assert measure(part)["state"] == "failed"
    assert "No module named" in calls[0].cannot
    assert calls[1].cannot == "/no/python: No such file or directory"


class Numbers(list):
    """As much of a tensor as the program takes."""

    __hash__ = None

    def __mod__(self, number):
        return Numbers(value % number for value in self)

    def __mul__(self, number):
        return Numbers(value * number for value in self)

    def __ne__(self, other):
        return Numbers(one != another for one, another in zip(self, other))

    def sum(self):
        return SimpleNamespace(item=lambda: sum(list(self)))

    def zero_(self):
        self[:] = [0] * len(self)


@pytest.mark.parametrize(("spoil", "wrong"), [(None, 0), (5, 1)])
def test_each_element_of_the_sum_is_compared(spoil, wrong, capfd):
    def add(data):
        data[:] = [value * 6 for value in data]  # three processes, 1 + 2 + 3; this is the first
        if spoil is not None and any(data):
            data[spoil] += 1

    distributed = SimpleNamespace(
        get_rank=lambda: 0, get_world_size=lambda: 3, all_reduce=add, barrier=lambda: time.sleep(0)
    )
    torch = SimpleNamespace(distributed=distributed, int32="int32", arange=lambda count, **_kind: Numbers(range(count)))
    found = nodes_all_reduce_program.measure(torch, "cpu", 4096)
    assert (found["wrong"], found["processes"], found["bytes"]) == (wrong, 3, 4096)
    assert found["all_reduce_gbs"] == pytest.approx(found["algorithm_gbs"] * 4 / 3, abs=0.002)
    assert json.loads(capfd.readouterr().out) == {"phase": "reduced"}


def known(number=1, *, gpus=1, simulated=None, **changes):
    """Return what is known of a host with this many GPUs that passed their tests."""
    records = [
        {"uuid": f"GPU-{number}{index}", "tests": {"smoke": {"state": "done", "wrong": 0}}} for index in range(gpus)
    ]
    listed = [{"uuid": record["uuid"], "processes": [], "mig": {"enabled": False}} for record in records]
    return {
        "gpulab": {
            "simulated": simulated,
            "nvml": {"gpus": listed},
            "users_of_gpus": {"state": "idle", "who": []},
            "network": [
                {"name": "eth0", "default_route": True, "ipv4": f"192.0.2.{number}"},
                {"name": "ib0", "default_route": False, "ipv4": f"198.51.100.{number}"},
            ],
        },
        "gpulab_measurements": {"python": "/opt/venvs/a/bin/python", "simulated": simulated, "gpus": records},
        **changes,
    }


def test_nodes_meet_at_the_first_ones_address_of_nccls_interface():
    hosts = {"one": known(1), "two": known(2, gpus=2)}
    for facts in hosts.values():
        facts["gpulab"]["nccl"] = [{"name": "NCCL_SOCKET_IFNAME", "value": "=ib0", "file": "/etc/nccl.conf"}]
    meeting = across_nodes.arrange(hosts)
    assert (meeting.backend, meeting.nodes, meeting.reasons) == ("nccl", ("one", "two"), {})
    assert meeting.parts["two"] == {
        "address": "198.51.100.1",
        "interface": "ib0",
        "own_address": "198.51.100.2",
        "python": "/opt/venvs/a/bin/python",
        "gpus": ["GPU-20", "GPU-21"],
        "taking_part": {"one": [1, 1], "two": [2, 2]},
    }


def test_every_node_hears_how_many_gpus_of_each_take_part():
    hosts = {"one": known(1, gpus=8), "two": known(2, gpus=8)}
    for gpu in hosts["two"]["gpulab_measurements"]["gpus"][1:]:
        gpu["tests"]["smoke"] = {"state": "skipped", "reason": "in use"}
    parts = across_nodes.arrange(hosts).parts
    assert [part["taking_part"] for part in parts.values()] == [{"one": [8, 8], "two": [1, 8]}] * 2


@pytest.mark.parametrize(
    ("own", "interface"), [("eth", "eth0"), ("=ib0", "ib0"), ("^docker0", "eth0"), ("ib0,eth0", "ib0")]
)
def test_the_users_own_setting_of_the_interface_counts(own, interface):
    hosts = {name: known(number) for number, name in enumerate(("one", "two"))}
    hosts["two"]["gpulab"]["nccl_own"] = {"NCCL_SOCKET_IFNAME": own}
    assert across_nodes.arrange(hosts).parts["two"]["interface"] == interface


@pytest.mark.parametrize(("gpus", "simulated"), [(0, None), (2, "simulated GPU")])
def test_without_a_real_gpu_it_is_gloo_on_processors(gpus, simulated):
    hosts = {name: known(n, gpus=gpus, simulated=simulated) for n, name in enumerate(("one", "two"))}
    meeting = across_nodes.arrange(hosts)
    assert meeting.backend == "gloo"
    assert {part["gpus"] == [] for part in meeting.parts.values()} == {True}


@pytest.mark.parametrize(("simulated", "takes_part"), [("simulated GPU", True), (None, False)])
def test_gloo_takes_any_pytorch_of_gpulabs_and_nccl_one_with_cuda(simulated, takes_part):
    own = {"name": "train", "python": "/opt/venvs/train/bin/python", "expected": {"framework": "pytorch", "cuda": None}}
    hosts = {name: known(n, simulated=simulated) for n, name in enumerate(("one", "two", "three"))}
    for facts in hosts.values():
        facts["gpulab_environments"] = [{"name": "altered", "python": "/x", "expected": None}, own]
    hosts["two"]["gpulab_measurements"]["python"] = None
    meeting = across_nodes.arrange(hosts)
    assert ("two" in meeting.parts) is takes_part
    assert takes_part is (meeting.parts.get("two", {}).get("python") == own["python"])
    assert meeting.reasons == ({} if takes_part else {"two": across_nodes.NO_PYTORCH})
    assert meeting.parts["one"]["python"] == "/opt/venvs/a/bin/python"


def test_gpu_that_somebody_took_after_its_tests_takes_no_part():
    hosts = {"one": known(1, gpus=2), "two": known(2, gpus=2)}
    facts = hosts["two"]["gpulab"]
    facts["nvml"]["gpus"][0]["processes"] = [{"pid": 7}]
    ann = {"pid": 7, "user": "ann", "command": "python", "kind": "process", "service": False}
    facts["users_of_gpus"] = {"state": "busy", "who": [ann]}
    parts = across_nodes.arrange(hosts).parts
    assert parts["two"]["gpus"] == ["GPU-21"]
    assert parts["two"]["taking_part"] == {"one": [2, 2], "two": [1, 2]}


def test_who_does_not_take_part_hears_why():
    busy, wrong = known(3), known(4)
    busy["gpulab_measurements"]["gpus"][0]["tests"]["smoke"] = {"state": "skipped", "reason": "in use"}
    wrong["gpulab_measurements"]["gpus"][0]["tests"]["smoke"]["wrong"] = 1
    without_python, without_address, odd = known(5), known(6), known(8)
    odd["gpulab"]["network"][0]["ipv4"] = "192.0.2.8 --evil"
    without_python["gpulab_measurements"]["python"] = None
    without_address["gpulab"]["network"][0]["ipv4"] = None
    hosts = {
        "busy": busy,
        "wrong": wrong,
        "away": {},
        "cpu": known(7, gpus=0),
        "python": without_python,
        "address": without_address,
        "odd": odd,
        "one": known(1),
        "two": known(2),
    }
    meeting = across_nodes.arrange(hosts)
    assert meeting.nodes == ("one", "two")
    assert meeting.parts["two"]["address"] == "192.0.2.1"
    assert meeting.reasons == {
        "busy": across_nodes.IN_USE,
        "wrong": across_nodes.IN_USE,
        "away": "it was not tested in this run",
        "cpu": across_nodes.NO_GPU,
        "python": across_nodes.NO_PYTORCH,
        "address": "its interface eth0 has no IPv4 address",
        "odd": "its interface eth0 has no IPv4 address",
    }


def test_one_node_does_not_meet_itself():
    meeting = across_nodes.arrange({"one": known(1), "away": {}})
    assert (meeting.nodes, meeting.reasons["one"]) == ((), across_nodes.ALONE)
