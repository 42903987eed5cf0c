"""What the roles brought is taken away again, after all other tests of this scenario; by playbooks/remove.yml."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import testinfra

PROJECT = os.environ["MOLECULE_PROJECT_DIRECTORY"]
LAB = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
INVENTORIES = [str(LAB / "inventory"), str(LAB / "lab/inventory")]


@dataclass(frozen=True)
class Run:
    """A run of the playbook: its status and output, and what each node has after it, by name."""

    status: int
    output: str
    nodes: dict[str, set[str]]


def nodes():
    found = testinfra.get_hosts(["ansible://gpu-nodes"], ansible_inventory=INVENTORIES[1], sudo=True)
    return {host.backend.get_hostname(): host for host in found}


def listings():
    return {name: set(host.check_output("list-node").splitlines()) for name, host in nodes().items()}


def remove(*arguments):
    command = ["ansible-playbook", *(f"--inventory={path}" for path in INVENTORIES), "playbooks/remove.yml", *arguments]
    done = subprocess.run(command, cwd=PROJECT, check=False, capture_output=True, text=True)
    return Run(done.returncode, done.stdout, listings())


def everywhere(command):
    for host in nodes().values():
        host.check_output(command)


@pytest.fixture(scope="session")
def story():
    """Return the runs by name, in the order in which they happen."""
    runs = {"before": Run(0, "", listings())}
    everywhere("gpulab-simulate fault 'gpu.0.processes = 4242:1024'")
    runs["busy"] = remove()
    everywhere("gpulab-simulate heal")
    runs["foreseen"] = remove("--check", "--diff")
    runs["removed"] = remove()
    runs["again"] = remove()
    return runs


@pytest.fixture
def seen(story, host):
    """Return a function from a run's name to what this node had after it."""
    return lambda run: story[run].nodes[host.backend.get_hostname()]


def test_the_driver_of_a_node_in_use_stays(story, seen):
    assert story["busy"].status == 2
    assert "GPULAB-D021" in story["busy"].output
    assert seen("busy") == seen("before")


def test_check_mode_names_what_would_go_and_leaves_it(story, seen):
    assert story["foreseen"].status == 0, story["foreseen"].output
    assert "-nvidia-kernel-open-dkms 595.91.07-1" in story["foreseen"].output
    assert seen("foreseen") == seen("before")


def test_the_node_is_as_it_was(host, story, seen):
    assert story["removed"].status == 0, story["removed"].output
    differing = seen("removed") ^ set(host.file("/var/lib/bare-node").content_string.splitlines())
    # On Debian 12 it came with dkms; python3-apt, which was there before, recommends it.
    assert {line for line in differing if not re.search(r"lsb.release", line)} == set()


def test_a_second_run_changes_nothing(story, seen):
    assert story["again"].output.count("changed=0") == len(story["again"].nodes)
    assert seen("again") == seen("removed")
