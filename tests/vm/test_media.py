"""Installation media on machines of their own: each way to start them leads to the installer, or to the disk."""

import struct
import subprocess

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import ROOT_FILESYSTEM, guid
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import media, media_parts
from bare import Bare
from test_installer import ENFORCED, MIB, UUID, images, lab  # noqa: F401 - fixtures

ELSEWHERE = "4c4c4544-0042-3010-8051-000000000000"
SAID = b"THE DISK WAS STARTED\r\n"


@pytest.fixture(scope="module")
def write(lab, images, tmp_path_factory):  # noqa: F811 - fixtures
    """Return a function that writes media for the host of the lab."""
    made = images("debian-12", "bios")

    def written(*, unattended):
        ready = media_parts.Ready("node07", lab.plan(), {}, unattended)
        directory = tmp_path_factory.mktemp("media")
        media.write(directory, media.Media([media_parts.of_image(ready, made)]))
        return directory

    return written


@pytest.fixture(scope="module")
def unattended(write):
    return write(unattended=True)


@pytest.fixture
def machine(tmp_path, request):
    """Return a function that makes a machine, which is removed at the end."""

    def made(firmware="bios", disks=(), uuid=UUID):
        one = Bare(tmp_path, disks, uuid, firmware, cpus=1)
        request.addfinalizer(one.kill)
        return one

    return made


def starting(path, uuid=None):
    """Write a disk whose first sector says on the serial port that it was started, with a file system of this UUID."""
    says = b"\xba\xf8\x03" + b"".join(bytes([0xB0, letter, 0xEE]) for letter in SAID) + b"\xf4\xeb\xfd"
    partition = struct.pack("<B3xB3xII", 0x80, 0x83, 2048, 14 * 2048)
    sector = says.ljust(446, b"\0") + partition.ljust(64, b"\0") + b"\x55\xaa"
    with path.open("wb") as file:
        file.truncate(16 * MIB)
        file.write(sector)
    if uuid:
        subprocess.run(
            ["mkfs.ext4", "-q", "-U", uuid, "-E", f"offset={MIB}", path, "14m"], check=True, capture_output=True
        )
    return path


@pytest.mark.parametrize("kind", ["cd", "stick"])
@pytest.mark.parametrize("firmware", ["bios", "uefi", "secure"])
def test_the_image_starts_the_installer(unattended, machine, firmware, kind):
    """It says what is not as planned, and switches the machine off: there is no disk, and the tree is for BIOS.

    "secure" enforces Secure Boot.
    """
    one = machine(firmware)
    one.boot_medium(unattended / media.ISO, kind)
    console = one.wait_for_end()
    assert "gpulab: loading the installer of node07" in console
    assert "No disk has the serial number SYSTEM1" in console
    assert ("UEFI" in console) or firmware == "bios"
    assert (ENFORCED in console) is (firmware == "secure")
    assert "reboot: Power down" in console


@pytest.mark.parametrize(
    ("firmware", "program"), [("bios", "boot/grub/core.0"), ("uefi", "shimx64.efi"), ("secure", "shimx64.efi")]
)
def test_the_folder_starts_the_installer_over_the_network(unattended, machine, firmware, program):
    one = machine(firmware)
    one.boot_network(unattended / media.PXE, program)
    one.wait_for("gpulab: loading the installer of node07")
    if firmware == "secure":
        one.wait_for(ENFORCED)


def test_another_machine_goes_on_as_if_they_were_not_there(unattended, machine, tmp_path):
    one = machine(disks=[("SYSTEM1", starting(tmp_path / "disk"))], uuid=ELSEWHERE)
    one.boot_medium(unattended / media.ISO, "cd")
    one.wait_for("these media are not for this machine")
    one.wait_for(SAID.decode().strip())
    assert ELSEWHERE in one.console()


def test_a_host_that_nobody_confirmed_starts_its_disk(write, machine, tmp_path):
    one = machine(disks=[("SYSTEM1", starting(tmp_path / "disk"))])
    one.boot_medium(write(unattended=False) / media.ISO, "cd")
    one.wait_for(SAID.decode().strip())
    assert "loading the installer" not in one.console()


def test_a_host_that_is_installed_starts_its_disk(unattended, lab, machine, tmp_path):  # noqa: F811 - a fixture
    disk = starting(tmp_path / "disk", guid(lab.plan(), ROOT_FILESYSTEM))
    one = machine(disks=[("SYSTEM1", disk)])
    one.boot_medium(unattended / media.ISO, "stick")
    one.wait_for(SAID.decode().strip())
    assert "loading the installer" not in one.console()
