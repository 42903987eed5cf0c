"""Recordings of real GPUs are replayed: the proof finds nothing there but what the recording's notes allow.

That a recording is made and replayed as it should is shown on simulated GPUs, whose figures mean nothing.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.proof import judge
from gpu import programs, recording
from sim.build import build

from unit.checks import loaded

TESTS = Path(__file__).parents[2]
RECORDINGS = sorted((TESTS / "gpu/recordings").glob("*.json"))


def unexpected(recorded):
    """Return the findings of warn and above that the recording's notes do not explain."""
    facts = {**recorded["facts"], "measurements": recorded["measurements"]}
    results, _not_for_this_machine = judge(facts, None, {"level": recorded["measurements"]["level"]})
    grave = {result["id"] for result in results if result["severity"] in ("warn", "fail")}
    return grave - {check for check, why in recorded["notes"]["allow"].items() if why}


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recorded_gpu_has_no_finding(path):
    recorded = json.loads(path.read_text(encoding="utf-8"))
    assert recorded["schema"] == recording.SCHEMA
    assert not recorded["facts"]["simulated"]
    assert not recorded["measurements"]["simulated"]
    assert unexpected(recorded) == set()
    assert list(programs.faults(recorded["programs"])) == []


@pytest.fixture
def run(tmp_path):
    """Return a function that runs make test-gpu's program on simulated GPUs: (exit status, output, recording)."""
    libraries = build(tmp_path / "simulated")

    def start(model, settings="", **environment):
        file = tmp_path / "gpu.conf"
        file.write_text((TESTS / f"sim/models/{model}.conf").read_text() + settings + "\n", encoding="utf-8")
        for _attempt in range(5):  # GPUs in use are left alone, and this machine's labs use simulated ones now and then
            done = subprocess.run(
                [sys.executable, TESTS / "gpu/run.py", "--directory", tmp_path / "recordings"],
                env={**os.environ, "LD_LIBRARY_PATH": str(libraries), "GPULAB_SIMULATION": str(file), **environment},
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
            )
            (path,) = (tmp_path / "recordings").iterdir()
            recorded = json.loads(path.read_text())
            if recorded["measurements"]["gpus"][0]["tests"]["smoke"]["state"] != "skipped":
                break
        return done.returncode, done.stdout + done.stderr, path, recorded

    return start


def test_a_run_measures_judges_and_records(run):
    _status, output, path, recorded = run("t4", "gpu.0.uuid = GPU-12345678-9abc-def0-1234-56789abcdef0")
    assert path.name == "tesla-t4-550.163.01.json"
    assert "SIMULATED: simulated GPU" in output
    assert "memory, triad" in output
    assert "75% of the limit" in output  # the model's 240 of the data sheet's 320
    assert recorded["measurements"]["gpus"][0]["tests"]["memory"]["memory_gbs"] == 240
    assert recorded["facts"]["nvml"]["gpus"][0]["temperature"]["gpu"] == 25
    assert "12345678-9abc" not in path.read_text()
    assert recorded["facts"]["nvml"]["gpus"][0]["uuid"] == recorded["measurements"]["gpus"][0]["uuid"]


def test_without_pyyaml_the_run_says_how_to_have_it_judged(run, tmp_path):
    (tmp_path / "yaml.py").write_text("raise ImportError", encoding="utf-8")
    status, output, path, _recorded = run("t4", PYTHONPATH=str(tmp_path))
    assert (status, path.exists()) == (0, True)
    assert "has no PyYAML" in output
    assert "apt-get install python3-yaml" in output
    assert "proof:" not in output


def test_a_run_on_a_gpu_that_computes_wrong_fails(run):
    status, output, _path, recorded = run("t4", "gpu.0.cuda_wrong_results = 3")
    assert status == 1
    assert "fail cuda-smoke: 3 results are wrong -> contact_support" in output
    assert "cuda-smoke" in unexpected(recorded)


def test_healthy_recording_has_nothing_unexpected_and_a_note_needs_a_reason():
    facts = loaded.measured("h100x8")
    recorded = recording.build(facts, facts.pop("measurements"), {}, "2026-11-21")
    assert unexpected(recorded) == set()
    recorded["facts"]["nvml"]["gpus"][0]["persistence"] = False
    assert unexpected(recorded) == {"persistence"}
    recorded["notes"]["allow"] = {"persistence": ""}
    assert unexpected(recorded) == {"persistence"}
    recorded["notes"]["allow"] = {"persistence": "nvidia-persistenced is not wanted on this desk"}
    assert unexpected(recorded) == set()


def test_recording_names_nobody():
    facts = loaded.measured("rtx4090x2")
    facts["system"]["hostname"] = "alices-box"
    facts["kernels"][0]["nvidia_module_signer"] = "alices-box Secure Boot key"
    facts["users_of_gpus"]["sessions"] = [{"user": "alice", "since": None}]
    facts["filesystems"].append({**facts["filesystems"][0], "mount": "/srv/secret-project"})
    facts["nvml"]["gpus"][1]["serial"] = "1650522012345"
    event = {"kind": "xid", "xid": 31, "bus_id": None, "count": 1, "time": None, "text": "pid=1, name=thesis.py, Ch 1"}
    facts["kernel_log"]["events"] = [event]
    facts["network"] = [{"name": "eno1", "ipv4": "198.51.100.77"}]
    measurements = {**facts.pop("measurements"), "python": "/home/alicia/venv/bin/python"}
    text = json.dumps(recording.build(facts, measurements, {}, "2026-11-21"))
    for name in ("alice", "alicia", "198.51.100", "secret-project", "1650522012345", "thesis"):
        assert name not in text
