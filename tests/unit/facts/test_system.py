"""The node itself."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.facts import system

BOOKWORM = """PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
NAME="Debian GNU/Linux"
VERSION_ID="12"
VERSION_CODENAME=bookworm
ID=debian
# a comment=x
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BOOKWORM, ("debian", "12", "bookworm", "debian")),
        (
            'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\nVERSION_CODENAME=noble',
            ("ubuntu", "24.04", "noble", "debian"),
        ),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.5"', ("rocky", "9.5", None, "redhat")),
        ("ID=linuxmint\nID_LIKE='ubuntu debian'\nVERSION_ID=22", ("linuxmint", "22", None, "debian")),
        ("ID=arch", ("arch", None, None, None)),
        ("", ("linux", None, None, None)),
    ],
)
def test_distribution(text, expected):
    found = system.distribution(system.os_release(text))
    assert (found["id"], found["version"], found["codename"], found["family"]) == expected


@pytest.mark.parametrize(
    ("path", "content", "expected"),
    [
        ("/run/systemd/container", "systemd-nspawn", "systemd-nspawn"),
        ("/proc/1/environ", "HOME=/\0container=lxc\0TERM=x", "lxc"),
        ("/proc/1/environ", "HOME=/\0mycontainer=lxc\0", None),
        ("/run/.containerenv", "", "podman"),
        ("/.dockerenv", "", "docker"),
        ("/etc/hostname", "docker", None),
    ],
)
def test_container(tree, path, content, expected):
    assert tree.file(path, content).node().container() == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"/sys/class/dmi/id/sys_vendor": "QEMU"}, "qemu"),
        ({"/sys/class/dmi/id/sys_vendor": "Amazon EC2"}, "amazon"),
        ({"/sys/class/dmi/id/product_name": "VMware7,1"}, "vmware"),
        ({"/sys/hypervisor/type": "xen"}, "xen"),
        ({"/proc/cpuinfo": "processor : 0\nflags\t\t: fpu hypervisor lm"}, "vm-other"),
        ({"/sys/class/dmi/id/sys_vendor": "Supermicro", "/proc/cpuinfo": "flags\t\t: fpu lm"}, "none"),
        ({}, "none"),
    ],
)
def test_hypervisor(tree, files, expected):
    for path, content in files.items():
        tree.file(path, content)
    assert system.hypervisor(tree.node()) == expected


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        (b"\x06\0\0\0\x01", "enabled"),
        (b"\x06\0\0\0\x00", "disabled"),
        (b"\x01", "unknown"),
        (None, "unknown"),
    ],
)
def test_secure_boot(tree, variable, expected):
    tree.directory("/sys/firmware/efi")
    if variable is not None:
        tree.file(system.SECURE_BOOT, variable)
    assert system.secure_boot(tree.node()) == expected


def test_secure_boot_without_efi(tree):
    assert system.secure_boot(tree.node()) == "unsupported"


STATUS = """Package: bash
Status: install ok installed
Version: 5

Package: nvidia-kernel-dkms
Status: install ok half-configured
Version: 535
Description: x
 Package: indented
 Status: install ok unpacked

Package: held
Status: hold ok unpacked

Package: gone
Status: deinstall ok config-files
"""


def test_unfinished_packages(tree):
    assert system.unfinished_packages(STATUS) == ["nvidia-kernel-dkms", "held"]
    assert system.read(tree.file("/var/lib/dpkg/status", STATUS).node())["package_state"] == "interrupted"


def test_interrupted_dpkg(tree):
    tree.file("/var/lib/dpkg/status", STATUS.split("\n\n", maxsplit=1)[0]).directory("/var/lib/dpkg/updates")
    assert system.read(tree.node())["package_state"] == "ok"
    tree.file("/var/lib/dpkg/updates/0001")
    assert system.read(tree.node())["package_state"] == "interrupted"


def test_a_dpkg_that_runs_is_not_interrupted(tree):
    lock = tree.file("/var/lib/dpkg/status", STATUS).file("/var/lib/dpkg/lock").root / "var/lib/dpkg/lock"
    tree.file("/proc/locks", f"1: POSIX  ADVISORY  WRITE 77 00:45:{lock.stat().st_ino} 0 EOF\n")
    tree.link("/proc/77/fd/4", lock)
    assert system.read(tree.node())["package_state"] == "busy"
    (tree.root / "proc/77/fd/4").unlink()  # another file system's file of the same inode number
    assert system.read(tree.node())["package_state"] == "interrupted"


def test_boot_id_of_a_container_changes_with_its_boot(tree):
    """The kernel's id is the host's, and stays."""
    tree.file("/proc/sys/kernel/random/boot_id", "5f1c\n").file("/.dockerenv")
    tree.file("/proc/1/stat", "1 (init) S 0 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 777 0")
    assert system.read(tree.node())["boot_id"] == "5f1c-777"
    assert system.boot_id(tree.node(), inside=False) == "5f1c"


def test_bare_tree(tree):
    """Nothing at all to read."""
    found = system.read(tree.node())
    assert found["id"] == "linux"
    assert found["memory_mib"] is None
    assert found["cpu_cores"] is None
    assert found["clock_synchronized"] is None


def test_memory_and_cores(tree):
    tree.file("/proc/meminfo", "MemTotal:       65843216 kB\nMemFree: 1 kB\n")
    tree.file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: x\n\nprocessor\t: 1\n")
    found = system.read(tree.node())
    assert found["memory_mib"] == 64300
    assert found["cpu_cores"] == 2
