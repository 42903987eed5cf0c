"""The tuning role, seen from the node."""

import json

import pytest
import scenario
import yaml

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


SHELL = ["/bin/sh", "-c"]
# By name: a check, and how the proof has to judge it.
OWN = {
    "good": ({"command": ["/bin/echo", "7 of them"], "parse": "number", "equals": 7}, "ok"),
    "bad": ({"command": ["/bin/echo", "7"], "parse": "number", "at_least": 8}, "warn"),
    "user": ({"command": ["/usr/bin/id", "-u"], "parse": "number", "at_least": 61184, "at_most": 65519}, "ok"),
    "writes": ({"command": [*SHELL, "! touch /etc/own || ! touch /var/own || ! touch /usr/own"]}, "ok"),
    "homes": ({"command": [*SHELL, "! ls /root/.ssh || ! ls /home/admin"]}, "ok"),
    "alone": ({"command": ["/bin/cat", "/proc/net/dev"], "parse": "lines", "equals": 3}, "ok"),  # two titles and lo
    "network": ({"command": ["/bin/cat", "/proc/net/dev"], "parse": "lines", "at_least": 4, "network": True}, "ok"),
    "root": ({"command": [*SHELL, "cat /etc/shadow && ! touch /etc/own"], "root": True}, "ok"),
    "sleeps": ({"command": ["/bin/sleep", "300"], "timeout_seconds": 2}, "unknown"),
    "prints": ({"command": ["/usr/bin/yes"]}, "unknown"),
    "forks": ({"command": [*SHELL, "while :; do sleep 300 & done"]}, "warn"),
    "eats": ({"command": ["/usr/bin/python3", "-c", "print(len(bytearray(10**9)))"]}, "unknown"),
    "missing": ({"command": ["/nowhere"]}, "unknown"),
    "leaves": ({"command": [*SHELL, "setsid sleep 300 & true"]}, "ok"),
}


def test_checks_of_the_labs_own_are_part_of_the_proof_and_leave_nothing(tmp_path):
    checks = [{"id": f"own-{name}", "why": "a test", "timeout_seconds": 10, **one} for name, (one, _) in OWN.items()]
    (tmp_path / "checks").mkdir(mode=0o755)
    (tmp_path / "checks/lab.yml").write_text(yaml.safe_dump(checks))
    (tmp_path / "checks/lab.yml").chmod(0o644)
    given = {"verify_own_checks": str(tmp_path / "checks"), "verify_report_directory": str(tmp_path / "report")}
    run = scenario.playbook("playbooks/verify.yml", **given)
    report = json.loads((tmp_path / "report/report.json").read_text())
    for host in report["hosts"]:
        found = {one["id"]: one for one in host["results"] if one["id"].startswith("own-")}
        judged = {name.removeprefix("own-"): one["severity"] for name, one in found.items()}
        assert judged == {name: severity for name, (_, severity) in OWN.items()}, found
        assert "2 s" in found["own-sleeps"]["reason"]
        assert "64 kB" in found["own-prints"]["reason"]
    assert "own-bad" in run.output
    left = "ls /etc/own /var/own /usr/own /run/gpulab-own-* 2>/dev/null; pgrep -fx 'sleep 300'; pgrep -x yes"
    for node in scenario.nodes().values():
        assert node.run(left).stdout == ""
        assert node.check_output("systemctl list-units --all --no-legend 'gpulab-own-*'") == ""


def test_checks_that_are_wrong_are_refused_before_a_node_is_asked(tmp_path):
    (tmp_path / "lab.yml").write_text("- {id: own-x}\n")
    run = scenario.playbook("site.yml", verify_own_checks=str(tmp_path))
    assert (run.status, "GPULAB-V005" in run.output, "Plan" in run.output) == (2, True, False), run.output[-2000:]
