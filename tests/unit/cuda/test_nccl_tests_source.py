"""How the source of nccl-tests comes to a node, through a proxy that asks for a password nobody gets to see."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CANARY = "canary-in-a-secret"
LOGIN = "Basic " + base64.b64encode(f"user:{CANARY}".encode()).decode()
URL = "http://mirror.invalid/nccl-tests.tar.gz"
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - gpulab.node.nccl_tests_source: "{{ given }}"
"""


class Proxy(http.server.BaseHTTPRequestHandler):
    """Answers whoever knows the password with what the server holds."""

    def do_GET(self):
        """Answer."""
        known = self.headers.get("Proxy-Authorization") == LOGIN and self.path == URL
        self.send_response(200 if known else 407)
        self.end_headers()
        self.wfile.write(self.server.held if known else b"")

    def log_message(self, *_):
        """Say nothing."""


def archive():
    """Return a .tar.gz of one file in a directory."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo("nccl-tests-2.17/Makefile")
        member.size = len(b"all:\n")
        tar.addfile(member, io.BytesIO(b"all:\n"))
    return packed.getvalue()


@pytest.fixture
def proxy():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        server.held = archive()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def run(proxy, directory, *options, **given):
    """Run the module with all that Ansible shows; return its status and what was printed."""
    address = f"http://user:{CANARY}@127.0.0.1:{proxy.server_port}"
    given = {"url": URL, "directory": str(directory / "source"), "http_proxy": address, "https_proxy": address, **given}
    given.setdefault("sha256", hashlib.sha256(proxy.held).hexdigest())
    (directory / "given.json").write_text(json.dumps({"given": given}), encoding="utf-8")
    (directory / "play.yml").write_text(PLAY, encoding="utf-8")
    local = ("-i", "localhost,", "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}")
    done = subprocess.run(
        ["ansible-playbook", *local, "-vvv", *options, "-e", f"@{directory}/given.json", str(directory / "play.yml")],
        env={**os.environ, "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default", "ANSIBLE_HOME": str(directory)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


def test_it_comes_through_a_proxy_whose_password_is_not_shown(proxy, tmp_path):
    status, said = run(proxy, tmp_path)
    assert status == 0, said
    assert (tmp_path / "source/Makefile").read_text(encoding="utf-8") == "all:\n"
    assert "EXEC" in said
    assert CANARY not in said


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"http_proxy": f"http://user:{CANARY}-that-is-wrong@127.0.0.1:1", "url": URL}, "GPULAB-C002"),
        ({"sha256": "0" * 64}, "GPULAB-C003"),
    ],
    ids=["no-answer", "another-file"],
)
def test_what_is_not_the_source_is_refused_and_not_unpacked(proxy, tmp_path, monkeypatch, given, code):
    monkeypatch.setenv("no_proxy", "")
    status, said = run(proxy, tmp_path, **given)
    assert status != 0
    assert code in said
    assert CANARY not in said
    assert not (tmp_path / "source").exists()


def test_nothing_comes_in_check_mode(proxy, tmp_path):
    status, said = run(proxy, tmp_path, "--check")
    assert status == 0, said
    assert not (tmp_path / "source").exists()
