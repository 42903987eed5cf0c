"""What the roles brought is taken away again, after all other tests of this scenario; by playbooks/remove.yml."""

import re

import pytest
from scenario import Run, each, everywhere, playbook


def look(host):
    """Return what the node has, a line for each thing."""
    return set(host.check_output("list-node").splitlines())


def remove(*arguments):
    return playbook("playbooks/remove.yml", *arguments, look=look)


@pytest.fixture(scope="session")
def story():
    """Return the runs by name, in the order in which they happen."""
    runs = {"before": Run(0, "", each(look))}
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
    return lambda run: story[run].nodes[host.backend.host]


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
