"""The installer on a machine for arm64: the plug is pulled, and the system boots by Debian's signed loaders."""

import arm64
import pytest
from bare import Bare
from test_installer import UUID, check, images, lab, line, sha256  # noqa: F401 - images and lab are fixtures

SYSTEM = "debian-12"
ARGUMENTS = ["console=ttyAMA0"]


@pytest.fixture(scope="module")
def made(images):  # noqa: F811 - the fixture
    arm64.register_emulator()
    return images(SYSTEM, "uefi", architecture="aarch64")


def test_an_installation_for_arm64_that_lost_power_goes_on_from_the_disk(lab, made, tmp_path):  # noqa: F811 - the fixture
    system, data = lab.disk(tmp_path, "system"), lab.disk(tmp_path, "data")
    before = sha256(data)
    plan = lab.plan("uefi", kernel_arguments=ARGUMENTS)
    machine = Bare(tmp_path, [("DATA1", data), ("SYSTEM1", system)], UUID, "arm64")
    try:
        machine.boot_kernel(made.kernel, [made.tree, lab.host_part(plan, tmp_path)], line("reboot", "disk", ARGUMENTS))
        machine.wait_for("only /dev/vd[ab] is left; out of the kernel: vd[ab]")
        machine.wait_for("3 of 5: the system")
        lab.say("pulling the plug in the middle of the installation")
        machine.kill()
        assert sha256(data) == before
        machine.boot_disk("SYSTEM1")
        machine.wait_for("the installer of node07, plan")
        machine.wait_for("DONE: the system is installed")
        lab.say("installed; it boots by itself")
        machine.wait_for_ssh(lab.ssh)
        check(machine, lab, plan, SYSTEM)
        assert machine.run("uname -m", lab.ssh) == "aarch64"
        assert "debian" in machine.run("efibootmgr", lab.ssh)
    finally:
        machine.kill()
    assert sha256(data) == before
