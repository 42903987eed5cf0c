"""RDMA between pairs of nodes: who is with whom, what runs in which order, what comes of it.

Nodes are threads on loopback addresses, and perftest is a script that opens its port and prints what the real one does
(perftest 6.24 on Debian 13); tests/vm/test_rdma.py runs the real one over soft-RoCE.
"""

import json
import socket
import sys
import threading
import time

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.active import nodes_rdma, roll_call
from ansible_collections.gpulab.node.plugins.module_utils.active.nodes_rdma import Part, Rail, Round, measure
from ansible_collections.gpulab.node.plugins.plugin_utils.peers import over_rdma

ONE_RAIL = Rail("mlx5_0", 1, 3)
NAMES = ("first", "second", "third")
ADDRESSES = {name: f"127.0.0.{number}" for number, name in enumerate(NAMES, start=1)}
PERFTEST = f"""#!{sys.executable}
import os, socket, sys, time
given = dict(word.partition("=")[::2] for word in sys.argv if word.startswith("--"))
tool = os.path.basename(sys.argv[0])
if "--help" in given:
    print("      --bind_source_ip  Source IP of the interface" if "old" not in os.environ.get("STUB", "") else "")
    sys.exit()
own = sys.argv[sys.argv.index("--bind_source_ip") + 1]
server = sys.argv[-1] if sys.argv[-1][0].isdigit() and sys.argv[-1] != own else None
with open(os.environ["CALLS"], "a") as calls:
    calls.write(" ".join(["client" if server else "server", tool, *sys.argv[1:]]) + "\\n")
port = int(given["--port"])
if server:
    try:
        other = socket.create_connection((server, port))
    except OSError:
        sys.exit(f"Couldn't connect to {{server}}:{{port}}")
else:
    time.sleep(0.3)
    other = socket.create_server((own, port)).accept()[0]
if "hang" in os.environ.get("STUB", "") and given["--ib-dev"] == "mlx5_0":
    time.sleep(60)
if "fail" in os.environ.get("STUB", "") and given["--ib-dev"] == "mlx5_0":
    sys.exit(" Failed to modify QP to RTR")
print(" Mtu             : 4096[B]")
if tool == "ib_write_bw":
    print(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]")
    print(" 65536      206           0.000000            390.5               0.000102")
else:
    print(" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]")
    print(" 2       200          1.50           9.10         1.87  \\t       1.90")
"""


@pytest.fixture
def perftest(tmp_path, monkeypatch):
    """Put the script into the PATH; return the lines with which it was called so far."""
    calls = tmp_path / "calls"
    calls.touch()
    for tool in ("ib_write_bw", "ib_send_lat"):
        program = tmp_path / "bin" / tool
        program.parent.mkdir(exist_ok=True)
        program.write_text(PERFTEST)
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(calls))
    monkeypatch.setattr(nodes_rdma, "PAUSE", 0.05)
    monkeypatch.setattr(nodes_rdma, "PATIENCE", 1.0)
    monkeypatch.setattr(roll_call, "PAUSE", 0.05)
    monkeypatch.setattr(roll_call, "PATIENCE", 1.0)
    return lambda: calls.read_text().splitlines()


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def rounds_of(name, rails):
    """Return the rounds of a chain of three nodes: first with second, then second with third."""
    pairs = (("first", "second"), ("second", "third"))
    return tuple(
        Round(other, ADDRESSES[other], name == pair[0], rails)
        if name in pair and (other := pair[name == pair[0]])
        else None
        for pair in pairs
    )


@pytest.fixture
def meet(port):
    """Return a function that lets these nodes take part, and returns what each found."""

    def run(*names, rails=(ONE_RAIL,), **changes):
        found = {}

        def come(name):
            part = Part(
                NAMES,
                name,
                ADDRESSES["first"],
                port,
                "one",
                ADDRESSES[name],
                rails,
                rounds_of(name, len(rails)),
                **{"seconds": 3.0, "step_seconds": 4.0, **changes},
            )
            found[name] = measure(part)

        threads = [threading.Thread(target=come, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return found

    return run


def test_each_node_measures_both_ways_and_the_latency_with_those_beside_it(perftest, meet):
    found = meet(*NAMES)
    assert {name: [pair["peer"] for pair in record["pairs"]] for name, record in found.items()} == {
        "first": ["second"],
        "second": ["first", "third"],
        "third": ["second"],
    }
    for record in found.values():
        for pair in record["pairs"]:
            assert [(rail["test"], rail["state"], rail["mtu"]) for rail in pair["rails"]] == [
                ("ib_write_bw", "done", 4096),
                ("ib_write_bw", "done", 4096),
                ("ib_send_lat", "done", 4096),
            ]
            assert [rail.get("write_gbps", rail.get("latency_us")) for rail in pair["rails"]] == [390.5, 390.5, 1.87]
    done = [line for line in perftest() if line.startswith("server")]
    assert len(done) == 6
    assert all("--ib-dev=mlx5_0 --ib-port=1 -F --bind_source_ip 127.0.0." in line for line in done)
    assert all("--gid-index=3" in line for line in done)
    assert len({line.split("--bind_source_ip ")[1].split()[0] for line in done}) == 3


@pytest.mark.usefixtures("perftest")
def test_a_port_that_fails_does_not_keep_others_from_their_turn(meet, monkeypatch):
    monkeypatch.setenv("STUB", "fail")
    found = meet("first", "second", rails=(Rail("mlx5_0", 1, 3), Rail("mlx5_1", 1, None)))
    (pair,) = found["first"]["pairs"]
    assert [rail["state"] for rail in pair["rails"]] == ["failed"] * 3 + ["done"] * 3
    assert pair["rails"][0]["error"]["name"] == "Failed to modify QP to RTR"


@pytest.mark.usefixtures("perftest")
def test_a_program_that_hangs_ends_in_time_and_leaves_nothing(meet, monkeypatch):
    monkeypatch.setenv("STUB", "hang")
    began = time.monotonic()
    found = meet("first", "second", seconds=8.0, step_seconds=1.0)
    assert {rail["state"] for rail in found["second"]["pairs"][0]["rails"]} <= {"late", "failed"}
    assert time.monotonic() - began < 50


@pytest.mark.usefixtures("perftest")
def test_a_node_that_does_not_come_is_named_and_the_others_go_on(meet):
    found = meet("first", "second")
    assert found["first"]["pairs"][0]["state"] == "done"
    assert [(pair["peer"], pair["state"]) for pair in found["second"]["pairs"]] == [
        ("first", "done"),
        ("third", "missing"),
    ]


@pytest.mark.usefixtures("perftest")
def test_without_the_first_node_nobody_waits_for_long(meet):
    assert {record["state"] for record in meet("second", "third", seconds=0.5).values()} == {"unreachable"}


def test_a_node_without_perftest_says_so_to_all(perftest, meet, tmp_path):  # noqa: ARG001
    (tmp_path / "bin/ib_send_lat").unlink()
    found = meet("first", "second", seconds=1.0)
    told = {(record["state"], record["reason"]) for record in found.values()}
    assert told == {("not_installed", "ib_send_lat is not installed (package perftest)")}


@pytest.mark.usefixtures("perftest")
def test_a_perftest_that_would_listen_everywhere_is_not_started(meet, monkeypatch):
    monkeypatch.setenv("STUB", "old")
    assert meet("first", seconds=0.5)["first"]["state"] == "too_old"


def connected(port):
    """Return a connection to a port that somebody listens at before long."""
    deadline = time.monotonic() + 20
    while (found := socket.socket()).connect_ex(("127.0.0.1", port)):
        found.close()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


@pytest.mark.usefixtures("perftest")
def test_a_stranger_at_the_port_of_a_pair_is_turned_away(port, monkeypatch):
    monkeypatch.setattr(roll_call, "attend", lambda _call: {"missing": {}})
    monkeypatch.setattr(roll_call, "ATTEMPT", 0.5)
    one = Round("second", ADDRESSES["second"], host=True, rails=1)
    part = Part(NAMES, "first", "127.0.0.1", port, "one", "127.0.0.1", (Rail("mlx5_0", 1, 3),), (one,), 1.0, 0.5)
    found = []
    thread = threading.Thread(target=lambda: found.append(measure(part)))
    thread.start()
    with connected(port) as stranger:
        stranger.sendall(json.dumps({"run": "another", "name": "second"}).encode() + b"\n")
        stranger.settimeout(5)
        stranger.makefile("rb").readline()
        assert stranger.recv(1) == b""
    thread.join(30)
    assert found[0]["pairs"][0]["state"] == "lost"


def known(**changes):
    """Return what is known of a node with two ports of RoCE."""
    gids = [
        {"index": 0, "gid": "fe80::1", "type": "RoCE v2", "ipv4": None},
        {"index": 3, "gid": "::ffff:10.9.0.1", "type": "RoCE v2", "ipv4": "10.9.0.1"},
    ]
    ports = [
        {"device": f"mlx5_{n}", "port": 1, "link_layer": "ethernet", "state": "active", "gids": gids} for n in (0, 1)
    ]
    facts = {
        "infiniband": ports,
        "nccl": [],
        "group": {"hosts": [{"own": False}]},
        "network": [{"name": "eno1", "default_route": True, "ipv4": "192.0.2.1"}],
        "users_of_gpus": {"state": "idle"},
    }
    return {"gpulab": {**facts, **changes}, "gpulab_measurements": {"gpus": []}}


def test_every_node_of_a_chain_has_one_partner_at_a_time():
    hosts = {f"n{number}": known() for number in range(5)}
    parts, reasons = over_rdma.arrange(hosts)
    assert reasons == {}
    with_whom = {name: [one and one["peer"] for one in part["rounds"]] for name, part in parts.items()}
    assert with_whom == {
        "n0": ["n1", None],
        "n1": ["n0", "n2"],
        "n2": ["n3", "n1"],
        "n3": ["n2", "n4"],
        "n4": [None, "n3"],
    }
    assert [one["host"] for part in parts.values() for one in part["rounds"] if one].count(True) == 4
    assert parts["n0"]["rails"] == [
        {"device": "mlx5_0", "port": 1, "gid": 3},
        {"device": "mlx5_1", "port": 1, "gid": 3},
    ]


def test_two_nodes_are_one_pair():
    parts, _reasons = over_rdma.arrange({"a": known(), "b": known()})
    assert [len(part["rounds"]) for part in parts.values()] == [1, 1]


def test_nodes_have_as_many_rails_as_the_smaller_one():
    smaller = known(infiniband=known()["gpulab"]["infiniband"][:1])
    parts, _reasons = over_rdma.arrange({"a": known(), "b": smaller})
    assert {part["rounds"][0]["rails"] for part in parts.values()} == {1}


def test_the_index_that_nccl_is_told_is_the_one_that_is_tried():
    told = known(nccl=[{"name": "NCCL_IB_GID_INDEX", "value": "5", "file": "/etc/nccl.conf"}])
    parts, _reasons = over_rdma.arrange({"a": told, "b": known()})
    assert {rail["gid"] for rail in parts["a"]["rails"]} == {5}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"users_of_gpus": {"state": "busy"}}, "its GPUs are in use"),
        ({"infiniband": []}, "no InfiniBand or RoCE port is in use"),
        ({"group": {"hosts": []}}, "no InfiniBand or RoCE port is in use"),
        ({"network": []}, "nccl_interface"),
        ({"network": [{"name": "eno1", "default_route": True, "ipv4": "$(reboot)"}]}, "nccl_interface"),
    ],
)
def test_who_takes_no_part_is_told_why(changes, why):
    parts, reasons = over_rdma.arrange({"a": known(), "b": known(), "c": known(**changes)})
    assert set(parts) == {"a", "b"}
    assert why in reasons["c"]


def test_infiniband_needs_no_index():
    ports = [{**port, "link_layer": "infiniband", "gids": []} for port in known()["gpulab"]["infiniband"]]
    parts, _reasons = over_rdma.arrange({"a": known(infiniband=ports), "b": known(infiniband=ports)})
    assert {rail["gid"] for rail in parts["a"]["rails"]} == {None}
