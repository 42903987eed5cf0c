"""The daemon is asked over its socket; a daemon that does not answer is taken to be busy."""

import http.server
import json
import socketserver
import threading

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.containers import docker_engine
from ansible_collections.gpulab.node.plugins.modules import docker_settings

ANSWERS = {
    "/info": {"LiveRestoreEnabled": True},
    "/containers/json": [{"Id": "a1"}, {"Id": "gone"}],
    "/containers/a1/json": {"Name": "/train", "HostConfig": {"Runtime": "nvidia"}},
}


class Daemon(http.server.BaseHTTPRequestHandler):
    """Answers as Docker would."""

    def do_GET(self):
        """Answer from the table."""
        if self.path.startswith("/events?since=100."):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"Action": "reload", "time": 101}\n{"Action": "reload", "time": 102}\n')
            return
        known = self.path in ANSWERS or self.path.startswith("/events?since=200.")
        self.send_response(500 if self.path == "/broken" else 200 if known else 404)
        self.end_headers()
        if self.path in ANSWERS:
            self.wfile.write(json.dumps(ANSWERS[self.path]).encode())

    def address_string(self):
        """Return whose request it is; a Unix socket has no names."""
        return "test"

    def log_message(self, *_message):
        """Keep quiet."""


@pytest.fixture
def socket_path(tmp_path):
    path = str(tmp_path / "docker.sock")
    with socketserver.UnixStreamServer(path, Daemon) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield path
        server.shutdown()


def test_an_answer_is_data(socket_path):
    assert docker_engine.ask("/info", socket_path) == {"LiveRestoreEnabled": True}


def test_what_is_not_there_is_nothing(socket_path):
    assert docker_engine.ask("/containers/gone/json", socket_path) is None


def test_a_container_that_ended_meanwhile_is_passed_over(socket_path):
    assert [one["Name"] for one in docker_engine.running_containers(socket_path)] == ["/train"]


def test_an_error_is_no_answer(socket_path):
    with pytest.raises(docker_engine.NoAnswerError, match="500"):
        docker_engine.ask("/broken", socket_path)


@pytest.mark.parametrize(("since", "reloaded"), [(100, True), (200, False)])
def test_only_a_reload_that_was_not_refused_is_an_event(socket_path, since, reloaded):
    assert docker_engine.has_reloaded(since, socket_path) is reloaded


def test_no_socket_is_no_answer(tmp_path):
    with pytest.raises(docker_engine.NoAnswerError):
        docker_engine.ask("/info", str(tmp_path / "missing"))


class Running:
    """A module on whose node every command succeeds: Docker's service is up."""

    def run_command(self, _argv):
        """Succeed."""
        return 0, "", ""


def test_a_daemon_that_does_not_answer_counts_as_one_with_a_container_that_has_a_gpu(monkeypatch):
    def silent():
        raise docker_engine.NoAnswerError("/containers/json", "timed out")

    monkeypatch.setattr(docker_engine, "running_containers", silent)
    assert docker_settings.Docker(Running()).containers() == [docker_settings.UNKNOWN]
    assert docker_settings.UNKNOWN["gpu"]
