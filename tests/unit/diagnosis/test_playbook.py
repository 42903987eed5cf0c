"""playbooks/diagnose.yml on this machine: what it shows, writes and refuses."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="becomes root")]

ROOT = Path(__file__).parents[3]
PASTED = yaml.safe_load(Path(__file__).with_name("pasted.yml").read_text(encoding="utf-8"))
SCHEMA = json.loads((ROOT / "docs/diagnosis.schema.json").read_text())


@pytest.fixture
def play(tmp_path):
    """Return what runs the playbook for this machine, and returns (exit status, output, diagnosis)."""

    def run(limit="node07", **variables):
        inventory, documents = tmp_path / "inventory.yml", tmp_path / "documents"
        this = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        hosts = {"gpu-nodes": {"children": {"workstations": {"hosts": dict.fromkeys(limit.split(","), this)}}}}
        inventory.write_text(yaml.safe_dump(hosts), encoding="utf-8")
        variables = {"diagnose_documents": str(documents), "diagnose_seconds": 0.5, **variables}
        variables = {"diagnose_page": str(tmp_path / "diagnosis.html"), **variables}
        argv = [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, "playbooks/diagnose.yml"]
        done = subprocess.run(
            [*argv, "-l", limit, "-e", json.dumps(variables)],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        path = documents / "node07.json"
        return done.returncode, done.stdout + done.stderr, json.loads(path.read_text()) if path.exists() else None

    return run


def test_a_pasted_error_is_explained_by_what_the_node_shows(play, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        status, output, found = play(error=f"RuntimeError: port: {port}, EADDRINUSE: Address already in use")
    assert status == 0, output
    jsonschema.validate(found, SCHEMA)
    assert found["findings"][0]["id"] == "network-port-taken"
    assert str(os.getpid()) in found["findings"][0]["cause"]
    assert f"kill {os.getpid()}" not in output
    assert "changed=0" in output
    assert f"page: {tmp_path}/diagnosis.html" in output
    assert found["findings"][0]["cause"] in (tmp_path / "diagnosis.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "case", [case for case in PASTED if "https://" in case["text"]], ids=lambda case: case["first"]
)
def test_a_page_that_an_error_mentions_is_no_server(play, case):
    """Whether this machine has internet or not, nothing is asked of the documentation's server."""
    status, output, found = play(error=case["text"])
    assert status == 0, output
    assert [one["id"] for one in found["findings"] if one["id"].startswith(("error-", "network-"))] == [
        f"error-{case['first']}"
    ]
    assert "/etc/hosts" not in output


def test_a_process_is_looked_into_by_the_short_names(play):
    program = subprocess.Popen(["sleep", "300"])
    try:
        program.send_signal(19)
        status, output, found = play(symptom="hang", pid=program.pid)
        assert program.poll() is None
    finally:
        program.kill()
        program.wait()
    assert status == 0, output
    assert found["asked"]["pid"] == program.pid
    assert [one["id"] for one in found["findings"]][:1] == ["hang-stopped"]
    assert f"kill -CONT {program.pid}" in output


def test_a_models_memory_is_estimated(play):
    status, output, found = play(symptom="memory", diagnose_parameters="7B")
    assert status == 0, output
    jsonschema.validate(found, SCHEMA)
    assert {one["use"]: one["gib"] for one in found["estimates"]}["training"] == 104.3
    assert "training: 104.3 GiB" in output


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({"pid": 4194303}, "GPULAB-G001"),
        ({"diagnose_parameters": "seven"}, "GPULAB-G002"),
        ({"diagnose_address": "nowhere"}, "GPULAB-G002"),
        ({"diagnose_documents": "/proc/none"}, "GPULAB-G003"),
    ],
)
def test_what_cannot_be_is_refused(variables, code, play):
    status, output, found = play(**variables)
    assert status == 2
    assert code in output
    assert found is None


def test_an_unknown_symptom_is_refused(play):
    status, output, _found = play(symptom="broken")
    assert status != 0
    assert "broken" in output


def test_the_ranks_of_a_job_over_two_nodes_are_compared(play):
    """Both nodes are this machine, so each has the same two of four ranks."""
    code = "import time; print('ready', flush=True); time.sleep(120)"
    told = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, **told, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    try:
        assert all(rank.stdout.readline() == b"ready\n" for rank in ranks)
        status, output, found = play(limit="node07,node08", symptom="hang", user="root")
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert status == 0, output
    jsonschema.validate(found, SCHEMA)
    assert {(one["rank"], one["world_size"]) for one in found["ranks"]} == {(0, 4), (1, 4)}
    assert output.count("over nodes: 1 finding") == 1
    assert "rank 2-3 of the job at 127.0.0.1:29511, which has 4, is not on node0" in output
