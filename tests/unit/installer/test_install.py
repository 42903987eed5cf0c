"""What the installer lays down, in directories in place of disks, and what keeps a tree from being installed."""

from __future__ import annotations

import os
import stat
import subprocess

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.installer import install

from .plans import changed, plan

PROGRAMS = ("wipefs", "sfdisk", "mkfs.ext4", "mkfs.vfat", "grub-install", "update-grub", "zstd")


@pytest.fixture
def tree(tmp_path):
    """Return the tree of an image for UEFI."""
    for path in ("usr/sbin", "usr/lib/grub/x86_64-efi", "boot", "etc"):
        (tmp_path / path).mkdir(parents=True)
    for program in PROGRAMS:
        (tmp_path / "usr/sbin" / program).write_text("")
    (tmp_path / "boot/vmlinuz-6.1").write_text("")
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/bash\n")
    (tmp_path / "etc/group").write_text("root:x:0:\n")
    return tmp_path


def test_a_whole_image_can_be_installed(tree):
    assert list(install.hindrances(plan(), tree)) == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_the_image_lacks_is_noticed_before_anything_is_wiped(tree, program):
    (tree / "usr/sbin" / program).unlink()
    assert list(install.hindrances(plan(), tree)) == [f"This image has no {program}."]


def test_an_image_for_another_firmware_is_noticed(tree):
    (found,) = install.hindrances(plan(firmware="bios"), tree)
    assert found.startswith("This image was made for another firmware")


def test_an_image_for_another_processor_is_noticed(tree, monkeypatch):
    monkeypatch.setattr(install.os, "uname", lambda: os.uname_result(("Linux", "n", "6.1", "1", "aarch64")))
    (found,) = install.hindrances(plan(), tree)
    assert found.endswith("arm64-efi.")
    (tree / "usr/lib/grub/arm64-efi").mkdir()
    assert list(install.hindrances(plan(), tree)) == []


def test_a_second_kernel_is_noticed(tree):
    (tree / "boot/vmlinuz-6.2").write_text("")
    assert list(install.hindrances(plan(), tree)) == ["This image has 2 kernels."]


def test_a_user_that_the_tree_cannot_have_is_noticed(tree):
    assert list(install.hindrances(changed("user", uid=0), tree))


def test_files_are_placed_as_they_shall_be(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "home/admin/.ssh").mkdir(parents=True)
    (source / "home/admin/.ssh/authorized_keys").write_text("key")
    (source / "home/admin/.ssh/authorized_keys").chmod(0o600)
    (source / "etc/systemd/network").mkdir(parents=True)
    (source / "etc/systemd/network/a.network").write_text("[Match]")
    (source / "etc/resolv.conf").write_text("nameserver 192.0.2.1")
    (target / "etc").mkdir(parents=True)
    (target / "etc").chmod(0o711)
    (target / "etc/resolv.conf").symlink_to(tmp_path / "elsewhere")
    (target / "home").mkdir()
    umask = os.umask(0o077)
    placed = install.place_files(source, target)
    os.umask(umask)
    assert placed == ["/etc/resolv.conf", "/etc/systemd/network/a.network", "/home/admin/.ssh/authorized_keys"]
    assert not (target / "etc/resolv.conf").is_symlink()
    assert not (tmp_path / "elsewhere").exists()
    modes = {
        "etc": 0o711,
        "etc/systemd": 0o755,
        "etc/systemd/network": 0o755,
        "home/admin": 0o700,
        "home/admin/.ssh": 0o700,
        "home/admin/.ssh/authorized_keys": 0o600,
    }
    assert {path: stat.S_IMODE((target / path).stat().st_mode) for path in modes} == modes


def test_a_disk_is_named_by_what_lasts(tmp_path):
    disk, links = tmp_path / "vdb", tmp_path / "by-id"
    disk.write_text("")
    links.mkdir()
    for name in ("virtio-SYSTEM1", "wwn-0x1"):
        (links / name).symlink_to(disk)
    (links / "virtio-OTHER").symlink_to(tmp_path)
    assert install.by_id(str(disk), links) == str(links / "virtio-SYSTEM1")
    assert install.by_id("/dev/vdz", links) == "/dev/vdz"


def test_a_command_that_fails_says_why():
    with pytest.raises(install.FailedError, match=r"sh -c .* ended with 3: one / two"):
        install.run(["sh", "-c", "echo one; echo two >&2; exit 3"])
    with pytest.raises(install.FailedError, match="gpulab-no-such"):
        install.run(["gpulab-no-such"])
    assert install.run(["cat"], "given") == "given"


def sourced(etc):
    """Return the kernel's arguments as grub-mkconfig takes them: from one file, then from those of grub.d."""
    read = f'. {etc}/default/grub; for file in {etc}/default/grub.d/*.cfg; do [ -e "$file" ] && . "$file"; done;'
    argv = ["sh", "-c", f'{read} echo "$GRUB_CMDLINE_LINUX|$GRUB_DISABLE_OS_PROBER"']
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def test_the_kernels_arguments_of_the_installation_give_way_to_captured_ones(tmp_path):
    """With intel_iommu=on, or what a role writes, lost, the node would not be what it was."""
    (tmp_path / "default/grub.d").mkdir(parents=True)
    file = tmp_path / "default/grub"
    file.write_text('GRUB_CMDLINE_LINUX=""\n')
    install.add_grub_defaults(plan(), file)
    assert sourced(tmp_path) == "console=tty0 console=ttyS0|true"
    (tmp_path / "default/grub.d/90-gpulab.cfg").write_text('GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt"\n')
    assert sourced(tmp_path) == "console=tty0 console=ttyS0 iommu=pt|true"
    file.write_text('GRUB_CMDLINE_LINUX="intel_iommu=on"\n')
    assert sourced(tmp_path) == "intel_iommu=on iommu=pt|"


@pytest.mark.parametrize("takes", [True, False])
def test_the_disk_boots_whatever_the_firmware_makes_of_its_boot_order(monkeypatch, takes):
    """Trap 23: the path that firmware starts without an entry comes first, and a full NVRAM fails nothing."""
    calls = []

    def run(argv, given=""):
        calls.append(" ".join(map(str, argv)))
        if not takes and "--no-nvram" not in argv:
            message = "no space"
            raise install.FailedError(message)
        return given

    monkeypatch.setattr(install, "run", run)
    install.Installation(plan(), "/dev/sdb", None, lambda _text: None)._grub()  # noqa: SLF001 - the step alone
    assert "--removable --no-nvram" in calls[0]
    assert "--no-nvram" not in calls[1]
    assert len(calls) == (2 if takes else 3)


def test_by_bios_the_planned_disk_alone_gets_a_boot_loader(monkeypatch):
    calls = []
    monkeypatch.setattr(install, "run", lambda argv, given="": calls.append(argv) or given)
    install.Installation(plan(firmware="bios"), "/dev/sdb", None, None)._grub()  # noqa: SLF001 - the step alone
    ((*_options, target),) = calls
    assert target == "/dev/sdb"
