"""Recordings of real GPUs are replayed: the proof finds nothing there but what the recording's notes allow.

That a recording is made and replayed as it should is shown on simulated GPUs, whose figures mean nothing.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.proof import judge
from ansible_collections.gpulab.node.plugins.plugin_utils.recording import recorded as recordings
from gpu import programs
from sim.build import build

from unit.checks import loaded

TESTS = Path(__file__).parents[2]
RECORDINGS = sorted((TESTS / "gpu/recordings").iterdir())  # JSON is YAML, too


OF_THE_PROOF = ("measurements", "cuda_compiled", "container_started")


def unexpected(recorded):
    """Return the findings of warn and above that the recording's notes do not explain."""
    measured = {"measurements": recorded["measurements"]} if "measurements" in recorded else {}
    level = recorded["measurements"]["level"] if measured else "quick"
    results, _not_for_this_machine = judge({**recorded["facts"], **measured}, None, {"level": level})
    grave = {result["id"] for result in results if result["severity"] in ("warn", "fail")}
    return grave - {check for check, why in recorded["notes"]["allow"].items() if why}


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recorded_gpu_has_no_finding(path):
    recorded = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert list(recordings.faults(recorded)) == []
    assert not recorded["facts"]["simulated"]
    assert not recorded.get("measurements", {}).get("simulated")
    assert unexpected(recorded) == set()
    assert list(programs.faults(recorded["programs"]) if "programs" in recorded else []) == []


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
    parts = {name: part for name, part in facts.items() if name not in OF_THE_PROOF}
    recorded = recordings.build({"facts": parts, "measurements": facts["measurements"]}, "2026-11-21")
    assert unexpected(recorded) == set()
    recorded["facts"]["nvml"]["gpus"][0]["persistence"] = False
    assert unexpected(recorded) == {"persistence"}
    recorded["notes"]["allow"] = {"persistence": ""}
    assert unexpected(recorded) == {"persistence"}
    recorded["notes"]["allow"] = {"persistence": "nvidia-persistenced is not wanted on this desk"}
    assert unexpected(recorded) == set()
