"""The tuning role, seen from the node."""

import pytest

WORKSTATION = "debian12"


@pytest.fixture
def workstation(host):
    return host.check_output("hostname") == WORKSTATION


def test_a_new_session_has_the_limits(host):
    assert host.check_output("su --login admin -c 'ulimit -Sn; ulimit -Hn'").split() == ["2048", "4096"]


def test_a_new_service_has_the_limits(host):
    show = "systemd-run --quiet --pipe --wait sh -c 'ulimit -Sn; ulimit -Hn'"
    assert host.check_output(show).split() == ["2048", "4096"]


def test_servers_lock_memory_and_workstations_do_not(host, workstation):
    """What systemd would give: a container may not raise such a limit for a process."""
    locked = host.check_output("systemctl show --property DefaultLimitMEMLOCK --value")
    assert (locked == "infinity") != workstation


def test_the_kernel_has_the_value_that_it_took(host):
    assert host.check_output("cat /proc/sys/net/ipv4/tcp_wmem").split() == ["4096", "32768", "4194304"]


def test_what_was_refused_is_what_it_was(host):
    """The host's own kernel is behind this file: it must not have changed."""
    assert host.run("test -w /proc/sys/vm/swappiness").rc != 0


def test_sysctl_would_set_the_same_at_boot(host, workstation):
    planned = host.check_output("cat /etc/sysctl.d/90-gpulab.conf")
    assert f"vm.swappiness = {10 if workstation else ''}" in planned
    assert "net.ipv4.tcp_wmem = 4096 32768 4194304" in planned.splitlines()
    assert "vm.zone_reclaim_mode" not in planned


def test_huge_pages_are_a_servers_matter(host, workstation):
    assert host.file("/etc/tmpfiles.d/gpulab-tuning.conf").exists != workstation


def test_irqbalance_is_there_for_the_next_boot(host):
    """In a container its unit does not start: the interrupts are the host's."""
    assert host.package("irqbalance").is_installed
    assert host.service("irqbalance").is_enabled


def test_systemd_understands_every_line(host):
    host.check_output("systemctl daemon-reload")
    assert "gpulab.conf" not in host.check_output("journalctl --boot _PID=1 --lines 200")
