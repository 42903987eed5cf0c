"""RDMA between two machines: soft-RoCE of Debian's stock kernel over a wire of their own, with perftest of Debian.

What soft-RoCE does in seconds says nothing of a card: no rate is looked at but for being there.
"""

import functools
import json
import re

import golden as golden_disk
import pytest
import yaml
from golden import Recipe
from machine import Machine, free_port, wires

RECIPE = Recipe(
    "rdma",
    "trixie",
    ((("tests/vm/bootable.yml",), 600), (("tests/vm/rdma_node.yml",), 900)),
    ("tests/vm/rdma_node.yml",),
)
NAMES = ("rdma0", "rdma1")
SECONDS = 600
INTERFACE = "ens4"  # at the wire
SETTINGS = f"NCCL_IB_HCA==rxe0:1\nNCCL_SOCKET_IFNAME=={INTERFACE}\n"
# A machine that is emulated is slow, and fq_codel drops packets for that, after which soft-RoCE fails.
SET_UP = """
ip link set {interface} mtu 9000
tc qdisc replace dev {interface} root pfifo limit 10000
sysctl -q net.core.netdev_max_backlog=10000
ip address add 10.99.0.{number}/24 dev {interface}
rdma link add rxe0 type rxe netdev {interface}
printf '%s' '{settings}' >/etc/nccl.conf
echo '* - memlock unlimited' >/etc/security/limits.d/memlock.conf
mkdir -p /etc/systemd/system.conf.d
printf '[Manager]\nDefaultLimitMEMLOCK=infinity\n' >/etc/systemd/system.conf.d/memlock.conf
systemctl daemon-reexec
"""
LISTENERS = (
    "ss --no-header --listening --tcp --numeric '( sport != :22 )'; pgrep --list-full '^ib_(write|send)' || true"
)
DRIVERS = "/usr/lib/x86_64-linux-gnu/libibverbs"
SPARE = """
ip link add spare type dummy
ip link set spare up
ip address add 10.98.0.1/24 dev spare
rdma link add rxe1 type rxe netdev spare
echo NCCL_IB_HCA==rxe0:1,rxe1:1 >/etc/nccl.conf
"""
# A fault: how it comes about and how it is mended, the check that finds it, and what that one says.
FAULTS = {
    "a link that is down": (
        f"ip link set {INTERFACE} down",
        f"ip link set {INTERFACE} up; sleep 3",
        ("roce-ports", "warn", f"rxe0 port 1 is down: its interface {INTERFACE} is switched off"),
    ),
    "a second interface with a small MTU": (
        SPARE,
        "ip link del spare",
        ("roce-mtu", "warn", "spare has an MTU of 1500, but another interface of RoCE has 9000"),
    ),
    "an index without an address": (
        "echo NCCL_IB_GID_INDEX=7 >>/etc/nccl.conf",
        "",
        ("roce-address", "fail", "NCCL_IB_GID_INDEX=7: rxe0 port 1 has no address there, so NCCL does not connect"),
    ),
    "an index of a link-local address": (
        "echo NCCL_IB_GID_INDEX=0 >>/etc/nccl.conf",
        "",
        ("roce-address", "fail", "has no IPv4 and passes no router"),
    ),
    "no IPv4 address": (
        f"ip address flush dev {INTERFACE} scope global",
        f"ip address add 10.99.0.1/24 dev {INTERFACE}",
        ("roce-address", "warn", "rxe0 port 1 has no address of RoCE v2 with IPv4"),
    ),
    "64 KiB of locked memory": (
        "echo '* - memlock 64' >/etc/security/limits.d/memlock.conf",
        "echo '* - memlock unlimited' >/etc/security/limits.d/memlock.conf",
        ("memlock", "warn", "sessions can lock only 0 MiB of memory: RoCE transfers fail"),
    ),
    "no library of the card": (
        f"mv {DRIVERS} {DRIVERS}.away",
        f"mv {DRIVERS}.away {DRIVERS}",
        ("rdma-programs", "warn", "programs cannot open rxe0 port 1, so NCCL uses TCP without a word"),
    ),
    "a name that is another one now": (
        "echo NCCL_IB_HCA==rocep1s0:1 >/etc/nccl.conf",
        "",
        ("nccl-interfaces", "warn", "NCCL_IB_HCA names adapters that do not exist: rocep1s0"),
    ),
    "sockets by a setting": (
        "echo NCCL_NET=Socket >>/etc/nccl.conf",
        "",
        ("nccl-transports", "warn", "NCCL_NET keeps NCCL from RoCE"),
    ),
    "a link that flaps": (
        f"for time in 1 2 3 4 5 6; do ip link set {INTERFACE} down; sleep 1; ip link set {INTERFACE} up; sleep 2; done",
        "",
        ("port-downs", "warn", "the link of rxe0 port 1 went down"),
    ),
}


@pytest.fixture(scope="module")
def machines(golden, directory, say):
    """Return two machines that have soft-RoCE at one wire, by name."""
    booted = {}
    for name, wire in zip(NAMES, wires(free_port()), strict=True):
        own = directory / name
        own.mkdir()
        booted[name] = Machine(golden.disk, own, golden.ssh_options, {})
        booted[name].wire = wire
    try:
        for name, machine in booted.items():
            say(f"booting {name}")
            machine.switch_on()
        for number, machine in enumerate(booted.values(), start=1):
            machine.wait_for_login()
            say(f"it runs {machine.run('uname -r')}")
            machine.run(SET_UP.format(number=number, interface=INTERFACE, settings=SETTINGS))
        yield booted
    finally:
        for machine in booted.values():
            machine.stop()
        say("the machines are off")


@pytest.fixture(scope="module")
def play(machines, directory, say):
    hosts = {
        name: {"ansible_host": "vm", "ansible_ssh_common_args": f"-F {machine.ssh_config}"}
        for name, machine in machines.items()
    }
    variables = {"ansible_user": "admin", "ansible_python_interpreter": "/usr/bin/python3"}
    inventory = directory / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"gpu-nodes": {"hosts": hosts, "vars": variables}}))
    return functools.partial(
        golden_disk.play,
        say,
        *("-i", inventory, "-e", f"@{golden_disk.WISHES}"),
        ANSIBLE_SSH_CONTROL_PATH="%(directory)s/%%h-%%n-%%C",
        ANSIBLE_SSH_CONTROL_PATH_DIR=str(directory),
    )


@pytest.fixture
def role(play):
    """Return a function that applies the role nccl to a machine, and returns how many tasks changed something."""

    def apply(*arguments):
        told = play("tests/vm/rdma_role.yml", "-l", "rdma0", *arguments, timeout=SECONDS)
        return int(re.search(r"changed=(\d+)", told.rpartition("\nRECAP")[2])[1])

    return apply


@pytest.fixture
def proof(play, tmp_path):
    """Return a function that judges the adapters of nodes, and returns what it found of each."""

    def judge(*names, send_rdma=False):
        given = json.dumps({"found_in": str(tmp_path), "send_rdma": send_rdma})
        play("tests/vm/rdma_proof.yml", "-l", ",".join(names), "-e", given, timeout=2 * SECONDS)
        return {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in names}

    return judge


def test_soft_roce_that_works_has_no_finding(proof):
    assert proof("rdma0") == {"rdma0": []}


def test_two_machines_send_each_other_rdma(machines, play, tmp_path):
    wishes = {
        "verify_level": "standard",
        "verify_across_nodes": True,
        "verify_across_nodes_seconds": 120,  # emulated, a message takes thirty milliseconds
        "verify_report_directory": str(tmp_path),
    }
    play("playbooks/verify.yml", "-e", json.dumps(wishes), timeout=2 * SECONDS)
    hosts = json.loads((tmp_path / "report.json").read_text())["hosts"]
    told = {host["name"]: [one for one in host["results"] if one["id"] == "rdma-nodes"] for host in hosts}
    for name, (result,) in told.items():
        assert result["severity"] == "ok", result
        assert result["observed"] > 0
        assert result["unit"] == "Gb/s"
        assert result["reason"] == "soft-RoCE: the rate is not judged"
        assert f"RDMA with {NAMES[name == NAMES[0]]}" in result["summary"]
    for machine in machines.values():
        assert machine.run(LISTENERS) == ""
        assert int(machine.run("cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts")) > 100


def test_another_mtu_at_the_other_end_is_named(machines, proof):
    machines["rdma1"].run(f"ip link set {INTERFACE} mtu 1500")
    try:
        findings = proof(*NAMES, send_rdma=True)
    finally:
        machines["rdma1"].run(f"ip link set {INTERFACE} mtu 9000")
    told = {(one["severity"], one["summary"]) for one in findings["rdma0"]}
    assert told == {("warn", "packets from rxe0 port 1 to rdma1 have 1024 bytes, though this port can send 4096")}


def test_a_machine_without_perftest_is_named(machines, proof):
    machines["rdma1"].run("mv /usr/bin/ib_send_lat /usr/bin/ib_send_lat.away")
    try:
        findings = proof(*NAMES, send_rdma=True)
    finally:
        machines["rdma1"].run("mv /usr/bin/ib_send_lat.away /usr/bin/ib_send_lat")
    (finding,) = findings["rdma1"]
    assert finding["severity"] == "warn"
    assert "ib_send_lat is not installed (package perftest)" in finding["summary"]
    assert findings["rdma0"] == []  # it is not blamed


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_by_its_check(machines, proof, fault):
    broken, mended, (check, severity, says) = FAULTS[fault]
    machine = machines["rdma0"]
    try:
        machine.run(broken)
        findings = proof("rdma0")["rdma0"]
    finally:
        machine.run(f"{mended}\nprintf '%s' '{SETTINGS}' >/etc/nccl.conf")
    assert {(one["id"], one["severity"]) for one in findings} == {(check, severity)}
    assert any(says in one["summary"] for one in findings), findings


def test_the_role_brings_what_programs_need_and_takes_back_only_that(machines, role):
    machine = machines["rdma0"]
    machine.run("apt-get purge --yes --quiet perftest infiniband-diags", SECONDS)
    machine.run("touch /usr/bin/ofed_info")  # as if the vendor's own software were there
    role()
    machine.fails("command -v ib_write_bw")
    machine.run("rm /usr/bin/ofed_info")
    assert role("--check") > 0
    machine.fails("command -v ib_write_bw")
    assert role() > 0
    machine.run("command -v ib_write_bw && command -v ibstat")
    assert role() == 0
    assert role("-e", "nccl_rdma_state=absent") > 0
    machine.fails("command -v ib_write_bw")
    machine.run("ibv_devinfo")  # which was there before
