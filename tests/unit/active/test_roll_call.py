"""Nodes that meet before a common run: here threads on the addresses of the loopback interface."""

import json
import socket
import threading
import time

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.active import roll_call
from ansible_collections.gpulab.node.plugins.module_utils.active.roll_call import RollCall, attend

NODES = ("first", "second", "third")


@pytest.fixture
def port():
    """Return a port that is free."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def meet(port, monkeypatch):
    """Return a function that lets nodes come, each with changes to its call, and returns what each found."""
    monkeypatch.setattr(roll_call, "PAUSE", 0.05)
    monkeypatch.setattr(roll_call, "PATIENCE", 1.0)

    def run(**changes):
        found = {}

        def come(name, change):
            call = {"nodes": NODES, "name": name, "address": "127.0.0.1", "port": port, "run": "one", "seconds": 2.0}
            found[name] = attend(RollCall(**{**call, **change}))

        threads = [threading.Thread(target=come, args=each) for each in changes.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        return found

    return run


def test_all_come(meet):
    begin = time.monotonic()
    assert meet(first={}, second={}, third={}) == {name: {"missing": {}} for name in NODES}
    assert time.monotonic() - begin < 2


def test_who_does_not_come_is_named_to_all_within_the_deadline(meet, port):
    begin = time.monotonic()
    found = meet(first={"seconds": 1.0}, second={})
    assert time.monotonic() - begin < 3
    missing = {"missing": {"third": f"did not reach 127.0.0.1 port {port} within 1 s"}}
    assert found == {"first": missing, "second": missing}


def test_who_cannot_take_part_says_why(meet):
    found = meet(first={}, second={"cannot": "No module named 'torch'"}, third={})
    assert found["third"] == {"missing": {"second": "No module named 'torch'"}}
    found = meet(first={"cannot": "no"}, second={}, third={})
    assert found["second"] == {"missing": {"first": "no"}}


def test_first_node_that_is_not_there_is_named_with_the_cause(meet):
    found = meet(second={"seconds": 0.5}, third={"seconds": 0.5})
    assert found == {name: {"unreachable": "Connection refused"} for name in NODES[1:]}


def test_first_node_that_drops_what_is_sent_is_unreachable(meet, monkeypatch):
    monkeypatch.setattr(roll_call, "ATTEMPT", 0.3)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as silent:
        full = [socket.socket() for _filler in range(4)]
        for filler in full:  # the queue of a listener that never accepts fills, and the kernel drops what comes then
            filler.settimeout(0)
            filler.connect_ex(silent.getsockname())
        begin = time.monotonic()
        found = meet(second={"port": silent.getsockname()[1], "seconds": 1.0})
        assert time.monotonic() - begin < 5
        for filler in full:
            filler.close()
    assert found["second"] == {"unreachable": "timed out"}


def test_another_run_and_other_callers_are_not_counted(meet, port):
    def disturb():
        time.sleep(0.2)
        for said in (b"GET / HTTP/1.0\r\n\r\n", b"[]\n", json.dumps({"run": "two", "name": "third"}).encode() + b"\n"):
            with socket.create_connection(("127.0.0.1", port)) as caller:
                caller.sendall(said)

    disturber = threading.Thread(target=disturb)
    disturber.start()
    found = meet(first={}, second={})
    disturber.join()
    assert set(found["first"]["missing"]) == {"third"}


def test_port_that_is_taken_is_an_error(port):
    with socket.create_server(("127.0.0.1", port)), pytest.raises(OSError, match="in use"):
        attend(RollCall(NODES, "first", "127.0.0.1", port, "one", 1.0))


def test_port_is_free_at_once_after_the_call(meet, port):
    meet(first={}, second={}, third={})
    socket.create_server(("127.0.0.1", port), reuse_port=False).close()
