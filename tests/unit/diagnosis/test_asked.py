"""What is taken out of a pasted error, and what is not."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import asked, evidence, machine, processes, reach
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import DiagnosisQuestion, Killed

from . import cases

POOL = "HTTPSConnectionPool(host='hub.example.org', port=8443): Max retries exceeded with url: /api"
SOCKET = "The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, EADDRINUSE"


@pytest.mark.parametrize(
    ("error", "found"),
    [
        ("fatal: unable to access 'https://git.example.org/a/b.git/': timeout", [("git.example.org", 443)]),
        ("Failed to connect to https://user:secret@hub.example.org:444/x", [("hub.example.org", 444)]),
        (POOL, [("hub.example.org", 8443)]),
        ("RuntimeError: connect() to 10.0.0.7:29500 failed", [("10.0.0.7", 29500)]),
        ("CUDA error: an illegal memory access at 0x7f12:443", []),
        ("", []),
    ],
)
def test_addresses(error, found):
    assert asked.addresses(error) == found


@pytest.mark.parametrize(
    ("error", "ports"),
    [
        (SOCKET, [29500]),
        ("Bind for 0.0.0.0:8888 failed: port is already allocated", [8888]),
        ("OSError: [Errno 98] Address already in use", []),
        ("connected to port 29500", []),
        ("port: 99999 EADDRINUSE", []),
    ],
)
def test_ports_that_are_taken(error, ports):
    assert asked.taken_ports(error) == ports


@pytest.mark.parametrize(
    ("error", "names"),
    [
        ("curl: (6) Could not resolve host: hub.example.org", ["hub.example.org"]),
        ("Temporary failure in name resolution for node08.lab", ["node08.lab"]),
        ("E: Temporary failure resolving 'deb.example.org'", ["deb.example.org"]),
        ("dial tcp: lookup hub.example.org on 10.0.0.2:53: no such host", ["hub.example.org"]),
        ("the address resolved", []),
        ("No solution found when resolving dependencies: none", []),
        ("lookup table of 3 entries", []),
    ],
)
def test_names(error, names):
    assert asked.names(error) == names


def test_a_port_that_is_not_told_is_pytorchs_own():
    names, servers, ports = evidence.network_of(DiagnosisQuestion(error="Address already in use"), [])
    assert (names, servers, ports) == ([], [], [29500])


def test_a_job_names_its_meeting_place():
    record = cases.record(7, environment={"MASTER_ADDR": "node08", "MASTER_PORT": "29501"})
    assert evidence.network_of(DiagnosisQuestion(), [record]) == (["node08"], [("node08", 29501)], [29501])


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0100007F", "127.0.0.1"),
        ("0000000000000000FFFF00000700000A", "10.0.0.7"),
        ("00000000000000000000000001000000", "::1"),
    ],
)
def test_addresses_of_the_kernel(text, address):
    assert reach.address(text) == address


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("http://proxy.lab:3128", ("proxy.lab", 3128)),
        ("proxy.lab", ("proxy.lab", 80)),
        ("http://proxy.lab:many", None),
        ("http://", None),
    ],
)
def test_proxies(value, place):
    assert reach.proxy(value) == place


def test_who_waits_for_a_lock():
    text = """\
1: FLOCK  ADVISORY  WRITE 711 08:01:5 0 EOF
1: -> FLOCK  ADVISORY  WRITE 712 08:01:5 0 EOF
2: POSIX  ADVISORY  READ 3 08:01:6 0 EOF
"""
    assert processes.waiting(text) == [(712, 711)]


@pytest.mark.parametrize(
    ("text", "share"), [("nr_periods 0\n", None), ("", None), ("nr_periods 100\nnr_throttled 40\n", 0.4)]
)
def test_how_often_a_group_had_used_up_its_processors(text, share):
    assert processes.throttled(text) == share


def test_whom_the_kernel_killed():
    text = "[1] Memory cgroup out of memory: Killed process 4711 (python3) total-vm:1kB\n[2] usb 1-1: new device\n"
    assert machine.killed(text, 60.0) == [Killed(4711, "python3")]
    assert machine.killed(text.replace("[1]", "[    1.383700]"), 60.0) == [Killed(4711, "python3")]
    assert machine.killed(text, 86400.0) == []  # yesterday's
    assert machine.killed(text.replace("[1] ", ""), 86400.0) == [Killed(4711, "python3")]  # a log without times


@pytest.mark.parametrize(("options", "says"), [("rw,nosuid,noexec", True), ("rw,nosuid", False)])
def test_a_place_where_no_program_may_run(options, says):
    root = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    assert machine.no_programs(f"{root}23 22 0:30 / /srv/tmp {options} - tmpfs tmpfs rw\n", "/srv/tmp/x") is says


def test_pressure():
    assert machine.pressure("some avg10=12.50 avg60=1.00 avg300=0 total=1\nfull avg10=3 total=1\n") == 12.5
    assert machine.pressure("") is None


def test_governors_and_devices_are_counted(tree):
    for number in range(4):
        tree.file(f"/sys/devices/system/cpu/cpu{number}/cpufreq/scaling_governor", "powersave\n")
    tree.file("/dev/nvidia0").file("/dev/null")
    (tree.root / "dev/nvidia0").chmod(0o660)
    found = machine.read(tree.node())
    assert found.governors == {"powersave": 4}
    assert found.devices == {"/dev/nvidia0": False}
