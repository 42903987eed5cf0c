"""Docker's settings on a node that is played, by the rules that molecule/container_toolkit shows on the real Docker."""

import json
import shutil
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.containers import docker_engine, docker_flags
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.modules import docker_settings

UNKNOWN, NOT_STARTING = "nonsense", "exec-opts"


class Played:
    """A node whose daemon reloads, stops and starts as Docker does, with one container that runs."""

    check_mode = False

    def __init__(self, directory, flags=""):
        """Start the daemon with an empty file."""
        self.file, self.tmpdir = directory / "daemon.json", str(directory)
        self.flags, self.journal, self.process, self.reloads = flags, "", 10**9, 0
        self.environment, self.warnings = "", []
        self.memory, self.container, self.running = {}, True, False
        self.file.write_text("{}")
        self.start()

    def accepts(self):
        """Tell whether the daemon takes its file together with its flags."""
        settings, flags = json.loads(self.file.read_text()), docker_flags.parse(["dockerd", *self.flags.split()])
        wrong = sorted({UNKNOWN, *flags} & set(settings))
        self.journal += "".join(f"unable to configure the Docker daemon: {name}\n" for name in wrong)
        return not wrong

    def reload(self):
        """Take the file over, where it is valid."""
        if self.accepts():
            self.memory.update(json.loads(self.file.read_text()))
            self.reloads += 1

    def start(self):
        """Start it; without live-restore, it ends the container that it finds."""
        self.process += 1
        settings = json.loads(self.file.read_text())
        self.running = self.accepts() and NOT_STARTING not in settings
        if self.running:
            self.memory = {**settings, **docker_flags.parse(["dockerd", *self.flags.split()])}
            self.container = self.container and (self.process == 10**9 + 1 or bool(self.memory.get("live-restore")))
        return self.running

    def restart(self):
        """Stop it, which ends the container without live-restore, and start it."""
        self.container = self.container and bool(self.memory.get("live-restore"))
        return self.start()

    def run_command(self, argv):
        """Answer as systemd does."""
        if argv[:2] == ["systemctl", "is-active"]:
            return (0 if self.running else 3), "", ""
        if argv[:2] == ["systemctl", "show"]:
            command = f"ExecStart={{ path=x ; argv[]=/usr/sbin/dockerd {self.flags} ; ignore_errors=no ; }}"
            return 0, f"MainPID={self.process}\n" if "MainPID" in argv[2] else f"{self.environment}\n{command}", ""
        if argv[0] == "journalctl":
            return 0, self.journal, ""
        if "reload" in argv:
            self.reload()
        return (0 if "restart" not in argv or self.restart() else 1), "", ""

    def get_bin_path(self, _name):
        """Find no dockerd that could validate a file, as before Docker 23."""
        return ""

    def atomic_move(self, draft, path, **_options):
        """Put a file in its place."""
        shutil.move(draft, path)

    def warn(self, text):
        """Keep what is said."""
        self.warnings.append(text)

    def info(self):
        """Answer as the daemon does."""
        if not self.running:
            raise docker_engine.NoAnswerError("/info", "refused")
        return {"LiveRestoreEnabled": bool(self.memory.get("live-restore")), "DockerRootDir": self.tmpdir}

    def merge(self, required=None, proxies=None, **preferred):
        """Merge settings; return the result, or the code of the refusal."""
        self.params = {"leave_data": False, "force": False, "host": "node", "proxies": proxies or {}}
        self.params.update(
            required=required or {}, preferred={key.replace("_", "-"): preferred[key] for key in preferred}
        )
        self.reloads = 0
        try:
            return docker_settings.operate(self, docker_settings.Docker(self))
        except Refusal as refused:
            return refused.code


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Return a function that starts a node."""

    def start(flags="", **settings):
        node = Played(tmp_path, flags)
        settings = {**({} if "graph" in settings else {"data-root": str(tmp_path)}), **settings}
        node.file.write_text(json.dumps(settings))
        node.memory.update(settings)
        monkeypatch.setattr(docker_settings, "PATH", str(node.file))
        monkeypatch.setattr(docker_settings, "RECORD", tmp_path / "record.json")
        monkeypatch.setattr(docker_engine, "ask", lambda _question: node.info())
        monkeypatch.setattr(docker_engine, "has_reloaded", lambda _since: node.reloads > 0)
        job = {"Name": "/job", "HostConfig": {}}
        monkeypatch.setattr(docker_engine, "running_containers", lambda: [job] if node.container else [])
        monkeypatch.setattr(docker_settings, "time", SimpleNamespace(time=lambda: 0.0, sleep=lambda _seconds: None))
        return node

    return start


def test_a_restart_ends_no_container(play):
    node = play("--log-driver=journald")
    process = node.process
    result = node.merge(live_restore=True, log_driver="json-file", default_ulimits={"memlock": {"Name": "memlock"}})
    assert (result["action"], node.process, node.container) == ("restart", process + 1, True)
    assert "log-driver" not in json.loads(node.file.read_text())


def test_settings_that_are_flags_are_not_written(play):
    node = play("--default-shm-size=2g --live-restore")
    before = node.file.read_text()
    assert node.merge(live_restore=True, default_shm_size="1g")["changed"] is False
    assert node.file.read_text() == before
    assert node.restart()


@pytest.mark.parametrize("more", [{}, {"log_driver": "json-file"}])
def test_a_reload_that_docker_refuses_is_no_change_and_no_restart(play, more):
    node = play(**{UNKNOWN: 1})
    process, before = node.process, node.file.read_text()
    assert node.merge(live_restore=True, **more) == "H190"
    assert (node.process, node.container, node.file.read_text()) == (process, True, before)
    assert not docker_settings.RECORD.exists()


def test_on_the_way_back_from_a_failed_start_no_container_ends(play):
    node = play(debug=True)
    before = node.file.read_text()
    assert node.merge(live_restore=True, exec_opts=["native.cgroupdriver=nonsense"]) == "H115"
    assert (node.running, node.container, node.file.read_text()) == (True, True, before)


def test_a_restart_that_a_container_would_notice_is_refused_before_anything(play):
    node = play()
    before = node.file.read_text()
    assert node.merge(log_driver="json-file") == "H112"
    assert (node.container, node.file.read_text()) == (True, before)


def test_a_member_of_a_swarm_does_not_get_live_restore(play, tmp_path):
    node = play()
    before = node.file.read_text()
    (tmp_path / "swarm").mkdir()
    (tmp_path / "swarm/docker-state.json").touch()
    assert node.merge(live_restore=True)["kept"] == ["live-restore is not set, because the node is in a swarm"]
    assert node.file.read_text() == before


PROXIES = {"http-proxy": "", "https-proxy": "http://lab:canary@proxy.lab:3128", "no-proxy": "localhost,.lab"}


def test_docker_gets_the_proxies_and_no_word_of_their_password_is_shown(play):
    node = play(**{"live-restore": True})
    result = node.merge(proxies=PROXIES)
    assert result["action"] == "restart"
    assert json.loads(node.file.read_text())["proxies"] == {name: text for name, text in PROXIES.items() if text}
    assert node.merge(proxies=PROXIES)["changed"] is False
    gone = node.merge()
    assert "proxies" not in json.loads(node.file.read_text())
    assert "proxy.lab:3128" in str(result)
    assert "proxy.lab:3128" in str(gone)
    assert "canary" not in str([result, gone, node.warnings])


def test_hosts_without_a_proxy_alone_are_nothing_to_set(play):
    node = play()
    assert node.merge(proxies={"http-proxy": "", "https-proxy": "", "no-proxy": "localhost"})["changed"] is False


@pytest.mark.parametrize(
    ("flags", "environment", "settings"),
    [
        ("--https-proxy=http://other:3128", "", {}),
        ("", 'Environment="HTTPS_PROXY=http://other:3128"', {}),
        ("", "Environment=no_proxy=.lab", {}),
        ("", "", {"proxies": {"https-proxy": "http://other:3128", "no-proxy": "x"}}),
    ],
)
def test_proxies_that_the_owner_gave_stay(play, flags, environment, settings):
    node = play(flags, **settings)
    node.environment = environment
    before = node.file.read_text()
    result = node.merge(proxies=PROXIES)
    assert result["changed"] is False
    assert result["kept"]
    assert node.file.read_text() == before


def test_a_docker_that_knows_no_proxies_gets_none_and_is_named(play, monkeypatch):
    node = play()
    before = node.file.read_text()
    monkeypatch.setattr(node, "get_bin_path", lambda _name: "/usr/sbin/dockerd")
    monkeypatch.setattr(node, "run_command", lambda argv: (0, "", "") if "--help" in argv else (3, "", ""))
    assert node.merge(proxies=PROXIES)["changed"] is False
    assert "before 23" in node.warnings[0]
    assert node.file.read_text() == before


def test_data_is_not_left_behind(play, tmp_path):
    (tmp_path / "containers/a1").mkdir(parents=True)
    link = tmp_path.with_name("link")
    link.symlink_to(tmp_path)
    own = {"graph": str(link)}
    node = play(**own, **{"live-restore": True})
    before = node.file.read_text()
    assert node.merge({"data-root": "/srv/docker"}) == "H113"
    assert node.merge({"data-root": f"{link}/"})["changed"] is False
    assert node.file.read_text() == before


def test_another_file_of_settings_is_refused(play):
    assert play("--config-file=/srv/daemon.json").merge(live_restore=True) == "H191"


def test_a_daemon_with_user_namespaces_keeps_its_data_below_its_data_root(tmp_path):
    root = tmp_path / "231072.231072"
    (root / "containers/a1").mkdir(parents=True)
    docker_settings.check_data_root(root, {"data-root": str(tmp_path)})
    with pytest.raises(Refusal, match="GPULAB-H113"):
        docker_settings.check_data_root(root, {"data-root": str(tmp_path / "other")})
