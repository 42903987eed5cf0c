"""One machine for all tests, each in the state that the one before left. Whatever happens, it is removed."""

import functools
import signal
import tempfile
from pathlib import Path

import golden as golden_disk
import pytest
from machine import Machine


@pytest.fixture(scope="session", autouse=True)
def _clean_up_when_terminated():
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", 143))


@pytest.fixture(scope="session")
def golden(say):
    made = golden_disk.Golden()
    made.make(say)
    return made


@pytest.fixture(scope="session")
def machine(golden, say):
    with tempfile.TemporaryDirectory(prefix="gpulab-vm-") as directory:
        booted = Machine(golden.disk, Path(directory), golden.ssh_options)
        try:
            say("booting the machine")
            booted.start()
            say(f"it runs {booted.run('uname -r')}")
            yield booted
        finally:
            booted.stop()
            say("the machine is off")


@pytest.fixture(scope="session")
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
