"""What the roles brought is taken away again, after all other tests of this scenario; by playbooks/remove.yml."""

import os
import subprocess
from pathlib import Path

import pytest

PROJECT = os.environ["MOLECULE_PROJECT_DIRECTORY"]
LAB = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])


@pytest.fixture
def remove(host):
    """Return a function that runs the playbook on this node; it returns status and output."""
    inventories = [f"--inventory={LAB / name}" for name in ("inventory", "lab/inventory")]
    command = ["ansible-playbook", *inventories, "playbooks/remove.yml", f"--limit={host.backend.get_hostname()}"]

    def run(*arguments):
        done = subprocess.run([*command, *arguments], cwd=PROJECT, check=False, capture_output=True, text=True)
        return done.returncode, done.stdout

    return run


@pytest.fixture
def listing(host):
    return lambda: set(host.check_output("list-node").splitlines())


def test_the_driver_of_a_node_in_use_stays(host, remove, listing):
    before = listing()
    host.check_output("gpulab-simulate fault 'gpu.0.processes = 4242:1024'")
    status, output = remove()
    host.check_output("gpulab-simulate heal")
    assert (status, "GPULAB-D021" in output) == (2, True)
    assert listing() == before


def test_check_mode_names_what_would_go_and_leaves_it(remove, listing):
    before = listing()
    status, output = remove("--check", "--diff")
    assert status == 0, output
    assert "-nvidia-kernel-open-dkms 595.91.07-1" in output
    assert listing() == before


def test_the_node_is_as_it_was(host, remove, listing):
    status, output = remove()
    assert status == 0, output
    assert listing() ^ set(host.file("/var/lib/bare-node").content_string.splitlines()) == set()


def test_a_second_run_changes_nothing(remove):
    status, output = remove()
    assert (status, "changed=0" in output) == (0, True)
