"""What is fetched, from a server that fails as often as it is told."""

import http.server
import ssl
import subprocess
import threading
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import download
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments import conda_host
from ansible_collections.gpulab.node.plugins.module_utils.packages import vendor_key
from ansible_collections.gpulab.node.plugins.modules import nvidia_runfile

TEXT = "what is wanted\n"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as the next of the server's failures says, and rightly where none is left."""

    def do_GET(self):
        """Answer."""
        self.server.asked += 1
        failure = self.server.failures.pop(0) if self.server.failures else None
        self.send_response(503 if failure == "refused" else 200)
        self.send_header("Content-Length", str(len(self.server.text)))
        self.end_headers()
        self.wfile.write(self.server.text.encode()[: 4 if failure == "broken off" else None])

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(download, "PAUSE", 0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.failures, server.asked, server.text = [], 0, TEXT
        server.url = f"http://127.0.0.1:{server.server_port}/file"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def key(url, _path, monkeypatch):
    monkeypatch.setattr(vendor_key, "check", lambda *_: None)
    return vendor_key.fetch(SimpleNamespace(params={"key_url": url}), "nvidia-cuda", "F" * 40)


def runfile(url, path, _monkeypatch):
    module = SimpleNamespace(params={"path": None}, get_bin_path=lambda _name: None)
    nvidia_runfile.fetch(module, SimpleNamespace(fetch=lambda obtain: obtain(path)), url)
    return path.read_text()


def micromamba(url, path, monkeypatch):
    found = []
    monkeypatch.setattr(conda_host.Condas, "install_tool", lambda _host, file, *_of: found.append(file.read_text()))
    conda_host.Condas(path, {}, path).fetch_tool(url, "0", path.parent)
    return found[0]


@pytest.mark.parametrize("fetch", [key, runfile, micromamba])
def test_what_does_not_come_at_once_is_asked_for_again(server, tmp_path, monkeypatch, fetch):
    server.failures = ["refused"] * (download.TRIES - 1)
    assert fetch(server.url, tmp_path / "file", monkeypatch) == TEXT
    assert server.asked == download.TRIES


def test_what_breaks_off_is_asked_for_again(server, tmp_path):
    server.failures = ["broken off"]
    download.save(server.url, tmp_path / "file", 5)
    assert (tmp_path / "file").read_text() == TEXT


def test_what_does_not_come_is_given_up(server, tmp_path, monkeypatch):
    server.failures = ["refused"] * 9
    with pytest.raises(OSError, match="503"):
        download.save(server.url, tmp_path / "file", 5)
    assert server.asked == download.TRIES
    with pytest.raises(Refusal) as refusal:
        key(server.url, tmp_path / "file", monkeypatch)
    assert refusal.value.code == "H061"
    assert "503" in refusal.value.cause


@pytest.mark.parametrize(
    "page", ["<!DOCTYPE html>\n<html>", "\n<html lang=en>", '<?xml version="1.0"?><!doctype HTML>']
)
def test_a_login_page_is_no_wrong_key(server, monkeypatch, page):
    monkeypatch.setattr(server, "text", page)
    with pytest.raises(Refusal) as refusal:
        vendor_key.fetch(SimpleNamespace(params={"key_url": server.url}), "nvidia-cuda", "F" * 40)
    assert refusal.value.code == "H214"
    assert server.url in refusal.value.cause


def test_a_certificate_that_nobody_trusts_is_told_with_its_remedy_and_not_asked_for_again(server, tmp_path):
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    files = {"-keyout": tmp_path / "key.pem", "-out": tmp_path / "certificate.pem"}
    subprocess.run([*argv, *(str(word) for pair in files.items() for word in pair)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files["-out"], files["-keyout"])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with pytest.raises(OSError, match="base_ca_certificates"):
        download.save(server.url.replace("http:", "https:"), tmp_path / "file", 5)
