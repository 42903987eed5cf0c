"""What the roles brought is taken away again, after all other tests of this scenario; by playbooks/remove.yml."""

import re

import pytest
from scenario import Run, each, everywhere, playbook, reboot

CONVERGE, UNCOMPILABLE = "molecule/nvidia_repository/converge.yml", "595.97.01"
JOURNAL = "/var/lib/dpkg/updates/0001"  # as of a dpkg that was cut off


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
    everywhere(f"dpkg --status base-files > {JOURNAL}")
    runs["cut off"] = remove("--tags=nvidia_driver")
    everywhere(f"rm {JOURNAL}")
    runs["predicted"] = remove("--check", "--diff")
    runs["removed"] = remove()
    runs["again"] = remove()
    # A simulated driver that is loaded has its library until then.
    each(reboot)
    runs["bare"] = Run(0, "", each(look))
    runs["spoilt"] = playbook(CONVERGE, look=look, nvidia_driver_version=UNCOMPILABLE)
    runs["gone"] = remove()
    return runs


@pytest.fixture
def seen(story, host):
    """Return a function from a run's name to what this node had after it."""
    return lambda run: story[run].nodes[host.backend.host]


def test_the_driver_of_a_node_in_use_stays(story, seen):
    assert story["busy"].status == 2
    assert "GPULAB-D021" in story["busy"].output
    assert seen("busy") == seen("before")


def test_a_node_whose_dpkg_was_cut_off_is_refused_before_anything_goes(story, seen):
    assert story["cut off"].status == 2
    assert "GPULAB-H047" in story["cut off"].output
    assert seen("cut off") == seen("before")


def test_check_mode_names_what_would_go_and_leaves_it(story, seen):
    assert story["predicted"].status == 0, story["predicted"].output
    assert "-nvidia-kernel-open-dkms 595.91.07-1" in story["predicted"].output
    assert seen("predicted") == seen("before")


def test_the_node_is_as_it_was(host, story, seen):
    assert story["removed"].status == 0, story["removed"].output
    differing = seen("removed") ^ set(host.file("/var/lib/bare-node").content_string.splitlines())
    # On Debian 12 it came with dkms; python3-apt, which was there before, recommends it.
    assert {line for line in differing if not re.search(r"lsb.release", line)} == set()


def test_a_second_run_changes_nothing(story, seen):
    assert story["again"].output.count("changed=0") == len(story["again"].nodes)
    assert seen("again") == seen("removed")


def drivers(lines):
    """Return the driver's packages, in whatever state they are."""
    return {line for line in lines if re.match(r"\S*(nvidia|libcuda)\S* \S+ [a-z]{2}", line)}


def test_a_first_driver_that_does_not_build_goes_again(story, seen):
    assert story["spoilt"].status == 2
    said = " ".join(story["spoilt"].output.split())
    assert "GPULAB-D001" in said
    assert "were removed again." in said
    assert drivers(seen("before"))
    assert drivers(seen("spoilt")) == set()


def test_and_leaves_nothing_that_would_not_go(story, seen):
    assert story["gone"].status == 0, story["gone"].output
    assert seen("gone") == seen("bare")
