"""One machine for all tests of a module, each in the state that the one before left. Whatever happens, it is removed.

A module says with RECIPE what its machine's disk is made of, and may say with FIRMWARE what starts it; its fixture
disks may add more disks.
"""

import functools
import tempfile
from pathlib import Path

import golden as golden_disk
import pytest
from firmware import BIOS
from machine import Machine


@pytest.fixture(scope="session", autouse=True)
def _removes_when_terminated(request):
    request.getfixturevalue("removes_when_terminated")


@pytest.fixture(scope="module")
def golden(request, say):
    made = golden_disk.Golden(request.module.RECIPE)
    made.make(say)
    return made


@pytest.fixture(scope="module")
def directory():
    with tempfile.TemporaryDirectory(prefix="gpulab-vm-") as path:
        yield Path(path)


@pytest.fixture(scope="module")
def disks():
    return {}


@pytest.fixture(scope="module")
def machine(request, golden, directory, disks, say):
    firmware = getattr(request.module, "FIRMWARE", BIOS)
    booted = Machine(golden.disk, directory, golden.ssh_options, disks, firmware)
    try:
        say("booting the machine")
        booted.start()
        say(f"it runs {booted.run('uname -r')}")
        yield booted
    finally:
        booted.stop()
        say("the machine is off")


@pytest.fixture(scope="module")
def play(golden, machine, say):
    """Return a function that runs a playbook on the machine, with the inventory that its disk was made with."""
    return functools.partial(
        golden_disk.play,
        say,
        *("-i", golden.inventory, "-l", "gpu-nodes", "-e", f"@{golden_disk.WISHES}"),
        *("-e", "ansible_host=vm", "-e", f"ansible_ssh_common_args='-F {machine.ssh_config}'"),
        # Of its own: a connection that Ansible keeps open must not outlive its machine.
        ANSIBLE_SSH_CONTROL_PATH_DIR=str(machine.ssh_config.parent),
    )
