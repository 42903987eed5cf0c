"""The nvidia_driver role, seen from the node: a real driver, really built by DKMS for the node's kernel."""

import pytest


@pytest.fixture
def kernel(host):
    (version,) = host.check_output("ls /lib/modules").split()
    return version


def test_dkms_has_the_module_for_the_kernel(host, kernel):
    (line,) = [line for line in host.check_output("dkms status").splitlines() if kernel in line]
    assert line.startswith("nvidia-current/")
    assert line.endswith("installed")


def test_the_kernel_finds_the_module(host, kernel):
    version = host.check_output("modinfo -k %s -F version nvidia-current", kernel)
    assert version in host.check_output("dkms status")
    assert kernel in host.check_output("modinfo -k %s -F vermagic nvidia-current", kernel)


def test_the_next_kernel_will_bring_its_headers(host):
    assert host.package("linux-headers-cloud-amd64").is_installed


def test_module_and_library_are_of_one_version(host, kernel):
    version = host.check_output("modinfo -k %s -F version nvidia-current", kernel)
    library = host.check_output("readlink -f /usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.1")
    assert library.endswith(f".so.{version}")


def test_no_desktop_came_along(host):
    assert not [
        name for name in ("xserver-xorg-core", "libgtk-3-0", "nvidia-settings") if host.package(name).is_installed
    ]


def test_the_package_system_is_consistent(host):
    assert host.check_output("dpkg --audit") == ""
    assert host.run("apt-get check").rc == 0


def test_persistence_waits_for_the_driver(host):
    """The module is built, not loaded: the daemon is enabled, and not failed for want of a device."""
    daemon = host.service("nvidia-persistenced")
    assert daemon.is_enabled
    assert host.check_output("systemctl --failed --no-legend") == ""
