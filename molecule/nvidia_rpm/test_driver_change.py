"""Another driver in the place of one that works, on RHEL's family; it proves itself, or the former one is back."""

import re
from dataclasses import dataclass

import pytest
from scenario import hide, playbook

FIRST, BETTER, UNCOMPILABLE, LOSSY = "595.91.07", "595.95.01", "595.97.01", "615.71.09"


@dataclass(frozen=True)
class Node:
    """What a node shows: packages of the driver, their locks and stream, DKMS, the loaded driver, what is kept."""

    packages: str
    locks: str
    stream: str
    dkms: str
    loaded: str
    kept: str


def look(host):
    return Node(
        packages=host.check_output("rpm -qa '*nvidia*' | sort"),
        locks=host.check_output("sort /etc/dnf/plugins/versionlock.list"),
        stream=host.run("cat /etc/dnf/modules.d/nvidia-driver.module").stdout,
        dkms=host.check_output("dkms status"),
        loaded=re.search(r" (\d+\.\d+\.\d+) ", host.file("/proc/driver/nvidia/version").content_string)[1],
        kept=host.run("ls /var/lib/gpulab/former").stdout,
    )


def site(version, *arguments, **variables):
    """Run what of site.yml has to do with the driver."""
    tags = "--tags=nouveau,nvidia_driver,reboot"
    return playbook("site.yml", tags, *arguments, look=look, nvidia_driver_version=version, **variables)


@pytest.fixture(scope="session")
def story():
    """Return the runs by name, in the order in which they happen.

    It ends where it begins, for the other tests of this scenario.
    """
    runs = {"first": site(FIRST)}
    assert runs["first"].status == 0, runs["first"].output
    runs["predicted"] = site(BETTER, "--check", "--diff")
    runs["better"] = site(BETTER)
    runs["again"] = site(BETTER)
    runs["uncompilable"] = site(UNCOMPILABLE)
    runs["lossy"] = site(LOSSY)
    hide(f"*-{BETTER}-*.rpm")
    runs["no way back"] = site(FIRST)
    runs["back"] = site(FIRST, nvidia_driver_keep_former=False)
    hide(f"*-{BETTER}-*.rpm", back=True)
    return runs


@pytest.fixture
def name(host):
    return host.backend.host


@pytest.fixture
def seen(story, name):
    """Return a function from a run's name to what it left on this node."""
    return lambda run: story[run].nodes[name]


def drivers(node):
    """Return the versions of the driver that are installed, and those that are locked."""
    return [set(re.findall(r"-(?:3:)?(\d{3}\.\d+\.\d+)-", text)) for text in (node.packages, node.locks)]


def test_check_mode_foresees_the_change_and_changes_nothing(story, seen):
    assert story["predicted"].status == 0, story["predicted"].output
    assert f"+kmod-nvidia-open-dkms 3:{BETTER}" in story["predicted"].output
    assert seen("predicted") == seen("first")


def test_a_driver_that_proves_itself_stays(story, seen):
    assert story["better"].status == 0, story["better"].output
    assert drivers(seen("better")) == [{BETTER}, {BETTER}]
    assert (seen("better").loaded, seen("better").kept) == (BETTER, "")


def test_a_second_run_changes_nothing(story, seen, name):
    assert story["again"].changed[name] == 0
    assert seen("again") == seen("better")


def test_a_driver_that_does_not_build_leaves_the_former_one(story, seen):
    assert story["uncompilable"].status == 2
    said = " ".join(story["uncompilable"].output.split())
    assert "GPULAB-D001" in said
    assert "error: #error spoilt" in said
    assert "The former packages were reinstalled." in said
    assert seen("uncompilable") == seen("better")


def test_a_driver_of_another_branch_that_does_not_prove_itself_is_rolled_back_with_its_stream(story, seen):
    assert story["lossy"].status == 2
    assert "GPULAB-D022" in story["lossy"].output
    assert seen("lossy") == seen("better")


def test_a_driver_that_could_not_come_back_is_not_replaced_unasked(story, seen):
    assert story["no way back"].status == 2
    said = " ".join(story["no way back"].output.split())
    assert "GPULAB-D020" in said
    assert "nvidia_driver_keep_former: false" in said
    assert seen("no way back") == seen("lossy")


def test_a_driver_is_replaced_without_a_way_back_where_that_is_asked(story, seen):
    assert story["back"].status == 0, story["back"].output
    assert seen("back") == seen("first")
