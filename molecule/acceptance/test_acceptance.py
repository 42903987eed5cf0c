"""Four nodes are accepted: real PyTorch (its build without CUDA), torchrun and Gloo over the lab's network.

There is no GPU. Links are slowed where they are in a machine room: at both ends of a node's link, or on a cable between
two bridges, to which two nodes each are connected.
"""

import json
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from scenario import CONTAINERS, PROJECT, cut_off, playbook

# 200 Mbit/s are 0.024 GB/s; four busy processes on two cores still do 0.1.
FLOOR = {"board": "10de:2684", "transport": "gloo", "value_gbs": 0.05, "source": "this test"}
RATE = ("tbf", "rate", "200mbit", "burst", "64kb", "latency", "50ms")


def run(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def own_end(name):
    """Return the interface of this machine that a node's cable ends in."""
    number = run("docker", "exec", f"{CONTAINERS}-{name}", "cat", "/sys/class/net/eth0/iflink").strip()
    return re.search(rf"^{number}: ([^@:]+)", run("ip", "-o", "link"), re.MULTILINE)[1]


@contextmanager
def slow(name):
    """Slow a node's link at both ends."""
    inside = ("docker", "exec", f"{CONTAINERS}-{name}", "tc")
    ends = ((*inside, "qdisc"), "eth0"), (("tc", "qdisc"), own_end(name))
    for tc, end in ends:
        run(*tc, "add", "dev", end, "root", *RATE)
    try:
        yield
    finally:
        for tc, end in ends:
            run(*tc, "del", "dev", end, "root")


@contextmanager
def slow_trunk(*names):
    """Connect these nodes to a bridge of their own, which a slow cable connects to that of the others."""
    bridge = Path(f"/sys/class/net/{own_end(names[0])}/master").resolve().name
    run("ip", "link", "add", "acc-b", "type", "bridge")
    run("ip", "link", "add", "acc-0", "type", "veth", "peer", "name", "acc-1")
    subnet = run("docker", "network", "inspect", "--format", "{{(index .IPAM.Config 0).Subnet}}", CONTAINERS).strip()
    # Docker drops, or gives other addresses to, what its own bridges do not have.
    rules = (
        ("-t", "filter", "FORWARD", "-i", "acc-b", "-o", "acc-b", "-j", "ACCEPT"),
        ("-t", "nat", "POSTROUTING", "-s", subnet, "-d", subnet, "-j", "ACCEPT"),
    )
    for t, table, *rule in rules:
        run("iptables", t, table, "-I", *rule)
    try:
        for end, master in (("acc-0", bridge), ("acc-1", "acc-b")):
            run("ip", "link", "set", end, "master", master, "up")
            run("tc", "qdisc", "add", "dev", end, "root", *RATE)
        run("ip", "link", "set", "acc-b", "up")
        for name in names:
            run("ip", "link", "set", own_end(name), "master", "acc-b")
        yield
    finally:
        for name in names:
            run("ip", "link", "set", own_end(name), "master", bridge)
        run("ip", "link", "del", "acc-0")
        run("ip", "link", "del", "acc-b")
        for t, table, *rule in rules:
            run("iptables", t, table, "-D", *rule)


@pytest.fixture
def settings(tmp_path):
    """Return what each run is given: the nodes have no driver, so their own proof is left out."""
    return {
        "acceptance_directory": str(tmp_path / "acceptances"),
        "acceptance_key": str(tmp_path / "keys/signing"),
        "acceptance_proof": False,
        "verify_report_directory": str(tmp_path / "report"),
    }


def certificate(settings):
    """Return the newest certificate."""
    path = max(Path(settings["acceptance_directory"]).glob("*/certificate.json"))
    return json.loads(path.read_bytes())


def verdicts(told):
    return {name: node["verdict"] for name, node in told["nodes"].items()}


def sides(told):
    return [{frozenset(bound["one"]), frozenset(bound["other"])} for bound in told["boundaries"]]


def test_healthy_nodes_are_accepted_and_the_certificate_holds_without_a_network(settings):
    accepted = playbook("playbooks/acceptance.yml", **settings)
    assert accepted.status == 0, accepted.output
    assert set(accepted.changed.values()) == {0}, accepted.output
    assert set(verdicts(certificate(settings)).values()) == {"passed"}
    path = max(Path(settings["acceptance_directory"]).glob("*/certificate.json"))
    signers = Path(settings["acceptance_key"]).with_name("allowed_signers")
    given = json.dumps({"acceptance_certificate": str(path), "acceptance_signers": str(signers)})
    program = Path(sys.executable).with_name("ansible-playbook")
    verify = ["unshare", "--net", program, "playbooks/acceptance_verify.yml", "-i", "localhost,", "-e", given]
    assert subprocess.run(verify, cwd=PROJECT, check=False).returncode == 0


def test_a_link_that_is_slow_at_both_ends_is_named_by_its_node(settings):
    with slow("node4"):
        refused = playbook("playbooks/acceptance.yml", acceptance_floors=[FLOOR], **settings)
    assert refused.status == 2, refused.output
    found = verdicts(certificate(settings))
    assert found == {"node1": "passed", "node2": "passed", "node3": "passed", "node4": "failed"}


def test_a_slow_trunk_is_a_finding_between_both_sides(settings):
    with slow_trunk("node3", "node4"):
        refused = playbook("playbooks/acceptance.yml", acceptance_floors=[FLOOR], **settings)
    assert refused.status == 2, refused.output
    told = certificate(settings)
    assert set(verdicts(told).values()) == {"passed"}
    assert sides(told) == [{frozenset(["node1", "node2"]), frozenset(["node3", "node4"])}]


def test_a_run_that_was_killed_goes_on(settings):
    def measured():
        records = [*Path(settings["acceptance_directory"]).glob("*/acceptance.json")]
        return bool(records) and len(json.loads(records[0].read_text())["results"]) > 1

    cut_off("playbooks/acceptance.yml", when=measured, **settings)
    (record,) = Path(settings["acceptance_directory"]).glob("*/acceptance.json")
    before = json.loads(record.read_text())["results"]
    again = playbook("playbooks/acceptance.yml", **settings)
    assert again.status == 0, again.output
    assert json.loads(record.read_text())["results"][: len(before)] == before
