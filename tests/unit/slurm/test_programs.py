"""The programs that slurmd runs: what drains a node, and what must not."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.filter.program import program
from ansible_collections.gpulab.node.plugins.module_utils.core import owned_files
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.slurm_node import judge, programs

ROOT = Path(__file__).parents[3]
SETTINGS = {"gpus": 2, "most_drained": 25}
JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": str(os.getuid()), "SLURM_JOB_GPUS": "0"}
ECC = {"ecc": {"volatile": {"uncorrected": 3}}}
ROWS = {"failure": False, "pending": False, "uncorrected": 0}
LOST = {"error": "GPU_IS_LOST", "code": 15}


def test_the_settings_are_beside_the_program_as_the_role_lays_it_out(tmp_path):
    files = program(str(ROOT / "roles/slurm/files/prolog.py"), str(tmp_path))
    place = next(Path(path) for path in files if path.endswith("slurm_node/programs.py"))
    place.parent.mkdir(parents=True)
    place.write_text(files[str(place)])
    assert runpy.run_path(str(place))["SETTINGS"] == tmp_path / "node.json"


def nvml(*gpus, state="ok"):
    """Return the facts nvml of GPUs, each with what differs from a healthy one."""
    healthy = {
        "ecc": {"volatile": {"uncorrected": 0}},
        "remapped_rows": {"failure": False, "pending": False, "uncorrected": 0},
    }
    silent = ({"error", "unsupported"}.intersection(gpu) for gpu in gpus)
    read = [
        {"index": n, **(gpu if nothing else {"minor": n, **healthy, **gpu})}
        for n, (gpu, nothing) in enumerate(zip(gpus, silent))
    ]
    return {"state": state, "gpus": read, "peers": [], "error": None}


def shown(**reasons):
    """Return what scontrol shows of nodes: name and reason, empty where it takes jobs."""
    return "".join(
        f"NodeName={name} NodeHostName={name} State={'IDLE+DRAIN' if why else 'IDLE'} Version=24.11.5"
        + (f" Reason={why} [root@2026-11-26T10:00:00]\n" if why else "\n")
        for name, why in reasons.items()
    )


@pytest.fixture
def said(monkeypatch):
    lines = []
    monkeypatch.setattr(programs, "say", lines.append)
    monkeypatch.setattr(programs, "AGAIN_SECONDS", 0)
    return lines


@pytest.mark.parametrize(
    ("gpus", "minors", "found"),
    [
        (({}, {}), None, []),
        ((ECC, {}), [0], ["GPU 0: 3 uncorrected memory errors"]),
        ((ECC, {}), [1], []),
        ((ECC, {}), None, ["GPU 0: 3 uncorrected memory errors"]),
        (
            ({}, {"remapped_rows": {**ROWS, "failure": True}}),
            [1],
            ["GPU 1: a bad memory row"],
        ),
        (({}, LOST), [0], ["GPU 1: it answers GPU_IS_LOST"]),  # nobody knows which number it had
        (({}, {"temperature": {"error": "GPU_IS_LOST", "code": 15}}), [1], ["GPU 1: the GPU answers GPU_IS_LOST"]),
        (({},), [0], ["the driver lists 1 of 2 GPUs"]),
        (({"ecc": {"unsupported": "NOT_SUPPORTED"}}, {"ecc": {"error": "UNKNOWN", "code": 999}}), None, []),
    ],
)
def test_what_only_a_repair_mends_is_a_finding(gpus, minors, found):
    told = judge.findings(nvml(*gpus), 2, minors)
    assert len(told) == len(found)
    assert all(one.startswith(other) for one, other in zip(told, found))


def test_what_did_not_answer_in_time_is_no_finding(said):
    """cluster-toolkit#6230: a reader that hung drained healthy nodes."""
    late = nvml(state="unresponsive")
    assert judge.findings(late, 2) == []
    assert programs.prolog(JOB, SETTINGS, lambda _seconds: late) == 0
    assert "unresponsive" in said[0]


CERTAIN = [
    ("mismatch", {"code": 18, "text": "LIB_RM_VERSION_MISMATCH"}, "reboot"),
    ("not_loaded", {"code": 9, "text": "DRIVER_NOT_LOADED"}, "not loaded"),
    ("absent", {"code": 12, "text": "libnvidia-ml.so.1: cannot open shared object file"}, "cannot open"),
    ("error", {"code": 999, "text": "UNKNOWN"}, "UNKNOWN"),
    ("error", {"code": None, "text": "ended by signal 11, at GPU 0"}, "signal 11"),
    ("error", None, "error"),
    ("of a later release", None, "of a later release"),
]


@pytest.mark.parametrize(("state", "error", "told"), CERTAIN)
def test_a_driver_that_serves_no_job_drains_the_node(state, error, told, said):
    """Each new job would fail there, one after the other."""
    broken = {**nvml(state=state), "error": error}
    assert len(judge.findings(broken, 2)) == 1
    assert programs.prolog(JOB, SETTINGS, lambda _seconds: broken) == 1
    assert told in said[-1]
    slurm = Slurm(node1="", node2="")
    assert programs.health("node1", SETTINGS, lambda _seconds: broken, slurm) == 0
    assert told in slurm.drains[0]


def test_a_node_without_gpus_needs_no_driver():
    assert judge.findings(nvml(state="absent"), 0) == []
    assert judge.findings(nvml(state="no_devices"), 0) == []


def test_a_driver_that_lists_no_gpu_drains_the_node():
    assert judge.findings(nvml(state="no_devices"), 2) == ["the driver lists 0 of 2 GPUs"]


@pytest.mark.parametrize("state", ["mismatch", "not_loaded", "absent", "error"])
def test_a_driver_that_comes_back_at_once_drains_no_node(state, said):
    """It was just being loaded, or the reader was ended for want of memory: a second look decides."""
    for work in (
        lambda look: programs.prolog(JOB, SETTINGS, look),
        lambda look: programs.health("node1", SETTINGS, look, Slurm(node1="")),
    ):
        reads = iter([nvml(state=state), nvml({}, {})])
        assert work(lambda _seconds, reads=reads: next(reads)) == 0
    assert said == []


def test_a_reader_that_is_late_is_not_asked_twice(said):
    reads = iter([nvml(state="unresponsive")])
    assert programs.prolog(JOB, SETTINGS, lambda _seconds: next(reads)) == 0
    assert len(said) == 1


@pytest.mark.parametrize("state", ["unresponsive", "error"])
def test_what_a_gpu_said_before_the_reader_stopped_counts(state):
    cut_off = nvml(ECC, state=state)
    assert [told for told in judge.findings(cut_off, 2, [0]) if "GPU 0: 3 uncorrected" in told]
    assert not [told for told in judge.findings(cut_off, 2, [1]) if told.startswith("GPU 0")]
    assert not [told for told in judge.findings(nvml({}, state="unresponsive"), 2) if "lists" in told]


@pytest.mark.parametrize(
    "gpu",
    [{"error": name, "code": 1} for name in ("UNKNOWN", "NO_PERMISSION", "DRIVER_NOT_LOADED", "NOT_FOUND")]
    + [{"unsupported": "NOT_SUPPORTED"}],
)
def test_a_gpu_that_gives_no_handle_serves_no_job(gpu):
    (named, *_code) = gpu.values()
    assert judge.findings(nvml({}, gpu), 2, [0]) == [f"GPU 1: it answers {named}"]


@pytest.mark.parametrize("minor", [{"error": "UNKNOWN", "code": 999}, {"unsupported": "NOT_SUPPORTED"}, None])
def test_a_gpu_whose_number_cannot_be_read_counts_for_every_job(minor):
    assert judge.findings(nvml({**ECC, "minor": minor}, {}), 2, [1]) == ["GPU 0: 3 uncorrected memory errors"]


@pytest.mark.parametrize("listed", ["0,x", "gpu-1", "MIG-1/2"])
def test_a_job_whose_gpus_cannot_be_told_needs_all_of_them(listed, said):
    look = {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": listed}
    assert programs.prolog(look, SETTINGS, lambda _seconds: nvml({}, ECC)) == 1
    assert "GPU 1" in said[0]


@pytest.mark.parametrize(
    ("text", "numbers"), [("0", [0]), ("0,2-3", [0, 2, 3]), ("", []), ("gpu-1", []), ("1-", [1]), ("0,x", [])]
)
def test_the_gpus_of_a_job_are_read(text, numbers):
    assert judge.numbers(text) == numbers


def test_the_prolog_fails_for_a_job_on_a_bad_gpu_only(said):
    def look(_seconds):
        return nvml(ECC, {})

    assert programs.prolog(JOB, SETTINGS, look) == 1
    assert said == ["job 7: GPU 0: 3 uncorrected memory errors"]
    assert programs.prolog({**JOB, "SLURM_JOB_GPUS": "1"}, SETTINGS, look) == 0


def test_a_job_without_gpus_starts_without_a_look():
    assert programs.prolog({"SLURM_JOB_ID": "7"}, SETTINGS, None) == 0


def process(root, pid, device, environment):
    """Put a process with an open device file into a tree of /proc."""
    place = root / f"proc/{pid}"
    (place / "fd").mkdir(parents=True)
    (place / "fd/3").symlink_to(device)
    (place / "stat").write_text(f"{pid} (python) S 1 1 1 0\n")
    (place / "environ").write_text(environment)


def test_what_a_job_left_is_told_from_what_is_others(tmp_path):
    process(tmp_path, 11, "/dev/nvidia0", "A=b\0SLURM_JOB_ID=7\0")
    process(tmp_path, 12, "/dev/nvidia0", "SLURM_JOB_ID=77\0")  # another job's
    process(tmp_path, 13, "/dev/nvidia1", "SLURM_JOB_ID=7\0")  # on another GPU
    process(tmp_path, 14, "/dev/nvidia0", "")
    mine, others = programs.left_over(Node(tmp_path), "7", str(os.getuid()), [0])
    assert (sorted(mine), sorted(others)) == ([11], [12, 14])
    assert programs.left_over(Node(tmp_path), "7", "12345", [0])[0] == []  # whoever writes the number of another's job


def test_the_epilog_ends_what_is_the_jobs_and_says_what_is_not(monkeypatch, said):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as left:
        answers = iter([([left.pid], [1])])
        monkeypatch.setattr(programs, "left_over", lambda *_: next(answers, ([], [1])))
        assert programs.epilog(JOB, Node()) == 0
        assert left.wait(5) == -9
    assert "not its own: 1" in said[0]


def test_the_epilog_drains_where_a_process_cannot_be_ended(monkeypatch, said):
    monkeypatch.setattr(programs, "KILL_SECONDS", 0.1)
    monkeypatch.setattr(programs, "left_over", lambda *_: ([99_999_999], []))
    assert programs.epilog(JOB, Node()) == 1
    assert "cannot be ended" in said[-1]


@pytest.mark.parametrize("missing", JOB)
def test_the_epilog_ends_nothing_where_slurm_does_not_say_whose_it_is(missing, monkeypatch):
    monkeypatch.setattr(programs, "left_over", lambda *_: pytest.fail("it looked"))
    assert programs.epilog({name: value for name, value in JOB.items() if name != missing}, Node()) == 0


class Slurm:
    """A controller that shows nodes, and notes what it is asked."""

    def __init__(self, **reasons):
        """Take the reasons of the nodes."""
        self.text = shown(**reasons)
        self.asked = []

    def __call__(self, argv):
        """Answer."""
        self.asked.append(argv)
        return self.text if "show" in argv else ""

    @property
    def drains(self):
        """What it was asked to drain, and why."""
        return [argv[-1] for argv in self.asked if "state=drain" in argv]


def health(slurm, *gpus):
    return programs.health("node1", SETTINGS, lambda _seconds: nvml(*gpus), slurm)


def test_a_node_is_drained_with_the_finding(said):
    slurm = Slurm(node1="", node2="", node3="")
    assert health(slurm, ECC, {}) == 0
    assert slurm.drains == ["reason=gpulab health: GPU 0: 3 uncorrected memory errors"]
    assert said


def test_slurm_is_asked_nothing_where_all_is_well():
    slurm = Slurm(node1="")
    assert health(slurm, {}, {}) == 0
    assert slurm.asked == []


@pytest.mark.parametrize(("reason", "drains"), [("new fan", 0), ("gpulab 2026-1: driver", 0), ("Prolog error", 1)])
def test_a_drain_of_somebody_elses_stays_but_a_failed_prolog_gets_its_reason(reason, drains, said):
    slurm = Slurm(node1=reason, node2="")
    health(slurm, ECC, {})
    assert len(slurm.drains) == drains
    assert len(said) == drains


def test_one_wrong_check_does_not_drain_a_cluster(said):
    slurm = Slurm(node1="", node2="gpulab health: x", node3="", node4="")
    health(slurm, ECC, {})
    assert slurm.drains == []
    assert "1 others" in said[0]


@pytest.mark.parametrize(
    ("drained", "all_nodes", "may"), [(0, 1, True), (1, 8, True), (1, 7, False), (24, 100, True), (25, 100, False)]
)
def test_one_node_may_always_be_drained_and_further_ones_up_to_the_share(drained, all_nodes, may):
    assert judge.may_drain(["x"] * drained + [""] * (all_nodes - drained), 25) == may


def test_a_node_that_slurm_does_not_know_or_a_controller_that_is_gone_is_left_alone():
    for slurm in (Slurm(other=""), Slurm()):
        health(slurm, ECC, {})
        assert slurm.drains == []


def test_the_settings_are_read_as_the_role_writes_them(tmp_path):
    place = tmp_path / "node.json"
    place.write_text(owned_files.wanted_text(json.dumps(SETTINGS), "slurm"))
    assert programs.read_settings(place) == SETTINGS


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Return the file with the settings of the node."""
    place = tmp_path / "node.json"
    place.write_text(json.dumps(SETTINGS))
    monkeypatch.setattr(programs, "SETTINGS", place)
    return place


def ends(name):
    """Return the status with which a program ends."""
    with pytest.raises(SystemExit) as ended:
        programs.main(name)
    return ended.value.code


@pytest.mark.usefixtures("settings")
def test_a_program_that_breaks_does_not_drain_a_node(monkeypatch, said):
    monkeypatch.setattr(programs, "health", lambda *_: 1 / 0)
    assert ends("health") == 0
    assert "ZeroDivisionError" in said[0]


@pytest.mark.parametrize("text", [None, "", "{", "[]"])
def test_settings_that_are_damaged_or_gone_do_not_drain_a_node(settings, monkeypatch, said, text):
    monkeypatch.setattr(programs, "answers", lambda _seconds: nvml({}, {}))
    monkeypatch.setenv("SLURM_JOB_GPUS", "0")
    settings.unlink() if text is None else settings.write_text(text)
    assert ends("prolog") == 0
    assert len(said) == 1
