"""How a node is watched is read off its files, and by asking node exporter."""

import http.server
import os
import threading
import time

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.facts import monitoring

FIB_TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.1.2.0/24 2 0 2
        |-- 10.1.2.0
           /24 link UNICAST
        |-- 10.1.2.3
           /32 host LOCAL
        |-- 10.1.2.255
           /32 link BROADCAST
     |-- 127.0.0.1
        /32 host LOCAL
"""
IF_INET6 = "00000000000000000000000000000001 01 80 10 80       lo\nfd00000000000000000000000000000a 02 40 00 80 eth0\n"


def facts(root):
    return monitoring.MonitoringQuery(Node(root), 2).facts()


def write(root, path, text):
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


@pytest.fixture
def server():
    """Serve /metrics as node exporter does, with the text that a test sets; return the address and a setter."""
    answer = {"text": "", "status": 200}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(answer["status"])
            self.end_headers()
            self.wfile.write(answer["text"].encode())

        def log_message(self, *_arguments):
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{httpd.server_port}", answer.update
        httpd.shutdown()


def test_addresses():
    assert monitoring.own_addresses(FIB_TRIE, IF_INET6) == ["10.1.2.3", "127.0.0.1", "::1", "fd00::a"]
    assert monitoring.own_addresses("", "") == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('ARGS=""\n', []),
        ('# ARGS="--x"\nARGS="--web.listen-address=:9 --y" # why\n', ["--web.listen-address=:9", "--y"]),
        ('ARGS="--a \\\n --b"\n', ["--a", "--b"]),
        ("ARGS='--a\n", []),
        ("OTHER=1\nARGS=--a\nARGS=--b", ["--b"]),
    ],
)
def test_arguments_of_node_exporter(text, found):
    assert monitoring.arguments(text) == found


def test_a_bare_node_is_not_watched(tmp_path):
    found = facts(tmp_path)
    assert found["collector"] is None
    assert found["exporter"] == {
        "installed": False,
        "arguments": [],
        "listen": None,
        "answers": None,
        "serves_gpus": None,
    }
    assert found["dcgm_exporter"] == {"installed": False, "listen": None, "answers": None, "serves_gpus": None}


def drop_in(root, address):
    write(root, monitoring.DROP_IN, f"ExecStart=/x --web.listen-address={address} --y\n")


@pytest.mark.parametrize(
    ("text", "status", "found"),
    [
        ("gpulab_collector_timestamp_seconds 1\n", 200, (True, True)),
        ("node_load1 1\n", 200, (True, False)),
        ("gpulab_collector_timestamp_seconds 1\n", 500, (False, None)),
    ],
)
def test_node_exporter_is_asked(tmp_path, server, text, status, found):
    address, answer = server
    answer(text=text, status=status)
    drop_in(tmp_path, address)
    exporter = facts(tmp_path)["exporter"]
    assert (exporter["listen"], exporter["answers"], exporter["serves_gpus"]) == (address, *found)


@pytest.mark.parametrize(
    ("text", "status", "found"),
    [
        ('DCGM_FI_DEV_GPU_TEMP{gpu="0"} 40\n', 200, (True, True)),
        ("go_goroutines 9\n", 200, (True, False)),
        ("DCGM_FI_DEV_GPU_TEMP 1\n", 503, (False, None)),
    ],
)
def test_dcgms_exporter_is_asked(tmp_path, server, text, status, found):
    address, answer = server
    answer(text=text, status=status)
    write(tmp_path, monitoring.DCGM_DROP_IN, f"[Service]\nEnvironment=DCGM_EXPORTER_LISTEN={address}\n")
    exporter = facts(tmp_path)["dcgm_exporter"]
    assert (exporter["listen"], exporter["answers"], exporter["serves_gpus"]) == (address, *found)


def test_a_node_exporter_that_is_not_there_does_not_answer(tmp_path):
    drop_in(tmp_path, "127.0.0.1:1")
    assert facts(tmp_path)["exporter"]["answers"] is False


@pytest.mark.parametrize("shift", [-100, 100], ids=["written", "before the clock was set back"])
def test_the_age_of_the_metrics(tmp_path, shift):
    write(tmp_path, monitoring.TIMER, "[Timer]\nOnUnitActiveSec=45\n")
    assert facts(tmp_path)["collector"] == {"interval_seconds": 45, "age_seconds": None}
    metrics = write(tmp_path, monitoring.METRICS, "x")
    os.utime(metrics, (time.time() + shift,) * 2)
    assert facts(tmp_path)["collector"]["age_seconds"] in (99, 100, 101)


def test_the_routed_address_is_the_nodes_own_or_none():
    found = monitoring.routed_address()
    own = facts(Node().root)["addresses"]
    assert found is None or found in own
