"""Jobs of Slurm that people leave behind: those that wait are cancelled; a controller that is down delays nothing."""

import os
import time

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.accounts import slurm_jobs
from ansible_collections.gpulab.node.plugins.module_utils.accounts.slurm_jobs import SlurmJobs

PRINTED = "squeue: warning: slow\n17 ben RUNNING\n18 ben PENDING\n18 ben PENDING\n19 cy COMPLETING\n"


@pytest.fixture
def client(monkeypatch, tmp_path):
    """Put a script in the place of squeue or scancel, and return where scripts write what they were asked."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm_jobs, "_SECONDS", 1.0)

    def put(name, script):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n{script}\n')
        (tmp_path / name).chmod(0o755)
        return tmp_path / "asked"

    return put


@pytest.mark.parametrize(
    ("script", "jobs"),
    [
        (f"printf '{PRINTED}'", {"ben": SlurmJobs(2, ("17",)), "cy": SlurmJobs(0, ("19",))}),
        ("true", {}),
        ("echo 'Unable to contact slurm controller' >&2; exit 1", None),
        ("exec sleep 60", None),
    ],
)
def test_jobs_are_those_that_wait_and_others_and_none_are_known_where_nobody_answers(client, script, jobs):
    asked, began = client("squeue", script.replace("\n", "\\n")), time.monotonic()
    assert slurm_jobs.look(["cy", "ben"]) == jobs
    assert asked.read_text() == "--noheader --user=ben,cy --format=%A %u %T\n"
    assert time.monotonic() - began < 30


def test_without_a_client_or_without_anybody_nobody_is_asked(client, monkeypatch, tmp_path):
    client("squeue", "exit 1")
    assert slurm_jobs.look([]) == {}
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert slurm_jobs.look(["ben"]) == {}


def test_only_what_waits_is_cancelled_and_a_controller_that_is_down_is_not_waited_for(client):
    asked, began = client("scancel", "exec sleep 60"), time.monotonic()
    slurm_jobs.cancel("ben")
    assert asked.read_text() == "--state=PENDING --user=ben\n"
    assert time.monotonic() - began < 30
