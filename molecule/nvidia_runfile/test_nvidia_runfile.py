"""A driver from .run files, seen from the node: installed, changed, refused, removed.

The files are stand-ins (tests/stubs/nvidia_runfile.py) whose kernel modules are really built, by make and by DKMS.
"""

import re
from dataclasses import dataclass

import pytest
from scenario import LAB, Run, each, playbook

CONVERGE = "molecule/nvidia_repository/converge.yml"
FIRST, BETTER, FAILING, UNCOMPILABLE, LOSSY = "595.91.07", "595.95.01", "595.96.01", "595.97.01", "595.98.01"
HOME = "/var/lib/gpulab/runfile"


@dataclass(frozen=True)
class Node:
    """What the node shows: DKMS, the module on disk with its licence, the installer's record, files, gpulab's own."""

    dkms: str
    module: str
    record: str
    files: set[str]
    own: set[str]


def look(host):
    (kernel,) = host.check_output("ls /lib/modules").split()
    show = f"modinfo -k {kernel} -F version nvidia && modinfo -k {kernel} -F license nvidia"
    return Node(
        dkms=host.run("dkms status").stdout,
        module=host.run(show).stdout,
        record=host.run("head -1 /var/lib/nvidia/log").stdout,
        files=set(host.check_output("list-node").splitlines()),
        own={digests().get(name, name) for name in host.run("ls -A %s", HOME).stdout.split()},
    )


def digests():
    """Return the version of each stand-in by the name that its file has on the node."""
    files = (LAB / "runfiles").glob("*.sha256")
    return {f"{file.read_text(encoding='utf-8')}.run": file.stem.rpartition("-")[2] for file in files}


def play(*arguments, path=CONVERGE, **variables):
    return playbook(path, *arguments, look=look, **variables)


def site(**variables):
    """Run what of site.yml has to do with the driver."""
    return play("--tags=nouveau,nvidia_driver,reboot", path="site.yml", **variables)


def without_files(run):
    """Return what a run does while gpulab has no .run file on the nodes, as where it did not install the driver."""
    move = "cd %s && for file in *%s; do mv $file ${file%%%s}%s; done"
    each(lambda host: host.check_output(move % (HOME, ".run", ".run", ".away")))
    try:
        return run()
    finally:
        each(lambda host: host.check_output(move % (HOME, ".away", ".away", ".run")))


def of(version, **more):
    return {"nvidia_driver_version": version, **more}


@pytest.fixture(scope="session")
def story():
    """Return the runs by name, in the order in which they happen."""
    runs = {"first": Run(0, "", each(look))}
    runs["altered"] = play(**of(BETTER, nvidia_driver_runfile_sha256="0" * 64))
    runs["predicted"] = play("--check", "--diff", **of(BETTER))
    runs["uncompilable"] = play(**of(UNCOMPILABLE))
    runs["better"] = site(
        **of(BETTER, nvidia_driver_runfile=path_of(BETTER), nvidia_driver_kernel_modules="proprietary")
    )
    runs["failing"] = play(**of(FAILING))
    runs["lossy"] = site(**of(LOSSY))
    runs["foreign"] = without_files(lambda: play(**of(FIRST)))
    runs["unproven"] = play(**of(FIRST))
    runs["back"] = site(**of(FIRST))
    runs["removed"] = play("--tags=nouveau,nvidia_driver", path="playbooks/remove.yml")
    return runs


@pytest.fixture
def seen(story):
    """Return a function from a run's name to the node as the run left it."""
    return lambda run: next(iter(story[run].nodes.values()))


@pytest.fixture
def said(story):
    """Return a function from a run's name to what it printed, in one line."""
    return lambda run: " ".join(story[run].output.split())


def path_of(version):
    """Return where a file is on the controller."""
    return str(LAB / f"runfiles/NVIDIA-Linux-x86_64-{version}.run")


def installed(node):
    """Return the version and the licence that all of the node agrees on."""
    (line,) = node.dkms.splitlines()
    assert line.endswith("installed")
    version = re.match(r"nvidia/([\d.]+),", line)[1]
    assert f"({version})" in node.record
    found, licence = node.module.splitlines()
    assert found == version
    assert f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{version}" in node.files
    return version, licence


def test_the_driver_is_installed_with_open_modules_and_nothing_else_is_left(seen):
    assert installed(seen("first")) == (FIRST, "Dual MIT/GPL")
    assert seen("first").own == {FIRST, "driver.json"}


def test_the_persistence_daemon_has_a_unit_and_waits_for_the_driver(host, seen):
    assert "/usr/local/lib/systemd/system/nvidia-persistenced.service" in seen("back").files
    enabled = "/etc/systemd/system/multi-user.target.wants/nvidia-persistenced.service"
    assert enabled in seen("back").files
    assert host.check_output("systemctl --failed --no-legend") == ""


@pytest.mark.parametrize(
    ("run", "why"),
    [("altered", ("GPULAB-D031", "0" * 64)), ("uncompilable", ("GPULAB-D033", "error: #error spoilt"))],
)
def test_what_cannot_work_is_refused_and_the_driver_stays(story, seen, said, run, why):
    assert story[run].status == 2
    assert all(words in said(run) for words in why)
    assert seen(run) == seen("first")


def test_a_build_that_fails_names_the_kernel(host, said):
    assert f"for kernel {host.check_output('ls /lib/modules')}:" in said("uncompilable")


def test_check_mode_foresees_the_change_and_changes_nothing(story, seen, said):
    assert story["predicted"].status == 0, story["predicted"].output
    assert f"-{FIRST} (open modules) +{BETTER} (open modules)" in said("predicted")
    assert seen("predicted") == seen("first")


def test_another_version_takes_its_place_out_of_a_file_of_the_controller(story, seen):
    assert story["better"].status == 0, story["better"].output
    assert installed(seen("better")) == (BETTER, "NVIDIA")
    assert not [path for path in seen("better").files if FIRST in path]
    assert seen("better").own == {BETTER, "driver.json"}  # it has proved itself


def test_the_former_driver_is_installed_again_where_the_installer_fails(story, seen, said):
    assert story["failing"].status == 2
    assert "GPULAB-D034" in said("failing")
    assert "Unable to create a symlink that a stand-in should create." in said("failing")
    assert "The former driver was reinstalled." in said("failing")
    assert installed(seen("failing")) == (BETTER, "NVIDIA")
    assert seen("failing").own == {BETTER, "driver.json"}


def test_a_driver_that_does_not_prove_itself_is_rolled_back(story, seen, said):
    assert story["lossy"].status == 2
    assert "GPULAB-D022" in said("lossy")
    assert installed(seen("lossy")) == (BETTER, "NVIDIA")
    assert seen("lossy").own == {BETTER, "driver.json"}


def test_a_change_without_a_way_back_is_refused(story, seen, said):
    assert story["foreign"].status == 2
    assert "GPULAB-D037" in said("foreign")
    assert "nvidia_driver_keep_former: false" in said("foreign")
    assert installed(seen("foreign")) == (BETTER, "NVIDIA")


def test_a_driver_is_kept_until_the_one_after_it_has_proved_itself(story, seen):
    """It is the one that site.yml has proved, whatever the role alone installed after it."""
    assert story["unproven"].status == 0, story["unproven"].output
    assert installed(seen("unproven")) == (FIRST, "Dual MIT/GPL")
    assert seen("unproven").own == {BETTER, FIRST, "driver.json", "former.json"}
    assert story["back"].status == 0, story["back"].output
    assert installed(seen("back")) == (FIRST, "Dual MIT/GPL")
    assert seen("back").own == {FIRST, "driver.json"}


def test_its_own_uninstaller_takes_it_off_and_the_node_is_as_it_was(host, story, seen):
    assert story["removed"].status == 0, story["removed"].output
    differing = seen("removed").files ^ set(host.file("/var/lib/bare-node").content_string.splitlines())
    # On Debian 12 it came with dkms; python3-apt, which was there before, recommends it.
    assert {line for line in differing if not re.search(r"lsb.release", line)} == set()
    assert seen("removed").own == set()
