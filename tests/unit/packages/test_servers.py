"""What package servers do to a node: APT is real, and its server is one of this machine's that plays each fault."""

from __future__ import annotations

import email.utils
import hashlib
import http.server
import os
import shutil
import subprocess
import tempfile
import threading
import time

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt_host
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_failure import classify
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_host import Apt
from ansible_collections.gpulab.node.plugins.module_utils.packages.plan import Wishes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (all(map(shutil.which, ("apt-get", "dpkg-deb", "gpg"))) and os.geteuid() == 0),
        reason="needs apt-get, dpkg-deb, gpg, and root",
    ),
]
CONFIGURATION = """
Dir "{root}"; Dir::State::status "{root}/var/lib/dpkg/status"; APT::Architecture "amd64"; APT::Sandbox::User "root";
Dir::Bin::dpkg "/usr/bin/dpkg"; Dir::Bin::methods "/usr/lib/apt/methods"; Dir::Etc::parts "/nowhere";
DPkg::Options {{ "--force-not-root"; "--force-bad-path"; "--root={root}"; "--log=/dev/null"; }};
"""
CONTROL = "Package: x\nVersion: {}\nArchitecture: amd64\nMaintainer: A <a@example.org>\nDescription: a stub\n"
PAGE = b"<!DOCTYPE html><html><head><title>Login</title></head></html>"
HOUR = 3600


def gpg(keys, *arguments):
    argv = ["gpg", "--batch", "--yes", "--homedir", keys, *arguments]
    return subprocess.run(argv, check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def keys():
    """Return a home of GnuPG with two keys; its path is short, for its sockets."""
    with tempfile.TemporaryDirectory() as home:
        for who in ("lab", "other"):
            gpg(home, "--passphrase", "", "--quick-gen-key", f"{who}@example.org", "ed25519", "sign", "never")
        yield home
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False, capture_output=True)


class Repository:
    """A signed repository with one package, and a server for it."""

    def __init__(self, root, keys):
        """Publish the first version; keys is a home of GnuPG."""
        self.root, self.portal = root, ""
        self.index, self.release = root / "dists/s/main/binary-amd64/Packages", root / "dists/s/InRelease"
        for path in (self.index.parent, root / "pool"):
            path.mkdir(parents=True)
        self._keys, self.key = keys, root.parent / "lab.gpg"
        self.key.write_bytes(gpg(keys, "--export", "lab@example.org"))
        self.publish()

    def publish(self, version="1", *, made=0, until=0, key="lab"):
        """Publish a version; made and until are seconds from now."""
        tree = self.root.parent / "build"
        shutil.rmtree(tree, ignore_errors=True)
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(CONTROL.format(version))
        self.package = self.root / f"pool/x_{version}.deb"
        subprocess.run(["dpkg-deb", "--build", "-Znone", tree, self.package], check=True, capture_output=True)
        data = self.package.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        self.index.write_text(
            f"{CONTROL.format(version)}Filename: pool/{self.package.name}\nSize: {len(data)}\nSHA256: {digest}\n"
        )
        listed = self.index.read_bytes()
        ends = f"Valid-Until: {_date(until)}\n" if until else ""
        text = (
            f"Suite: s\nCodename: s\nDate: {_date(made)}\n{ends}Architectures: amd64\nComponents: main\nSHA256:\n"
            f" {hashlib.sha256(listed).hexdigest()} {len(listed)} main/binary-amd64/Packages\n"
        )
        (self.root / "dists/s/Release").write_text(text)
        sign = ["-u", f"{key}@example.org", "--clearsign", "-o", self.release, self.root / "dists/s/Release"]
        gpg(self._keys, *sign)


def _date(seconds):
    return email.utils.formatdate(time.time() + seconds, usegmt=True).replace("GMT", "UTC")


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a repository, or the login page of a network."""

    repository = None

    def __init__(self, *arguments):
        """Serve the repository's directory."""
        super().__init__(*arguments, directory=str(self.repository.root))

    def log_message(self, *_arguments):
        """Say nothing."""

    def do_GET(self):
        """Answer as the repository's network does."""
        if self.repository.portal == "redirect" and self.path != "/login":
            self.send_response(302)
            self.send_header("Location", "/login")
            self.end_headers()
        elif self.repository.portal:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(PAGE)))
            self.end_headers()
            self.wfile.write(PAGE)
        else:
            super().do_GET()


class Node:
    """A node below a directory, with APT's own files."""

    def __init__(self, root, repository, port):
        """Name the repository as its only source."""
        self.root, self.repository = root, repository
        for path in ("dpkg/info", "dpkg/updates", "apt/lists/partial", "apt/periodic"):
            (root / "var/lib" / path).mkdir(parents=True)
        for path in ("etc/apt/apt.conf.d", "etc/apt/preferences.d", "var/cache/apt/archives/partial", "var/log/apt"):
            (root / path).mkdir(parents=True)
        (root / "var/lib/dpkg/status").touch()
        (root / "apt.conf").write_text(CONFIGURATION.format(root=root))
        self._environment = {**os.environ, "APT_CONFIG": str(root / "apt.conf"), "LC_ALL": "C"}
        source = f"deb [signed-by={repository.key}] http://127.0.0.1:{port} s main\n"
        (root / "etc/apt/sources.list").write_text(source)
        self.lists, self.stamp = root / "var/lib/apt/lists", root / "var/lib/apt/periodic/update-success-stamp"

    def call(self, argv):
        """Run a command."""
        done = subprocess.run(argv, env=self._environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def update(self):
        """Refresh the lists; return what APT printed where that failed."""
        argv = ["apt-get", "--quiet", "--option=APT::Update::Error-Mode=any", "update"]
        return self._printed(argv)

    def install(self):
        """Install the package; return what APT printed where that failed."""
        return self._printed(["apt-get", "--quiet", "--yes", "install", "x"])

    def _printed(self, argv):
        rc, out, errors = self.call(argv)
        return out + errors if rc else ""

    def delete_lists(self):
        """Do what people do to save space."""
        shutil.rmtree(self.lists)
        self.lists.mkdir()


@pytest.fixture
def node(tmp_path, keys):
    repository = Repository(tmp_path / "repository", keys)
    handler = type("Serving", (Handler,), {"repository": repository})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Node(tmp_path / "node", repository, server.server_port)
    server.shutdown()
    server.server_close()


def alter(path, before, after):
    data = path.read_bytes()
    path.write_bytes(data.replace(before, after) if before else data + after)


# What the server does, by name: (what happens, whether the lists were fresh before, code, words of the remedy).
FAULTS = {
    "nothing": (lambda _repository: None, False, None, ""),
    "a login page": (lambda repository: setattr(repository, "portal", "page"), False, "H228", "login"),
    "a login page elsewhere": (lambda repository: setattr(repository, "portal", "redirect"), False, "H228", "login"),
    "a login page later": (lambda repository: setattr(repository, "portal", "page"), True, "H230", "few minutes"),
    "expired": (lambda repository: repository.publish(made=-2 * HOUR, until=-HOUR), False, "H045", "use another one"),
    "of the future": (lambda repository: repository.publish(made=2 * HOUR), False, "H045", "clock is behind"),
    "another key": (lambda repository: repository.publish(key="other"), False, "H044", "Install the key"),
    "altered release": (lambda repository: alter(repository.release, b"Suite: s", b"Suite: t"), False, "H229", "stale"),
    "index of another time": (lambda repository: alter(repository.index, b"", b"\n"), False, "H230", "few minutes"),
    "index altered": (lambda repository: alter(repository.index, b"stub", b"evil"), False, "H043", "few minutes"),
    "index gone": (lambda repository: repository.index.unlink(), False, "H042", "package source"),
    "release gone": (
        lambda repository: [path.unlink() for path in (repository.release, repository.root / "dists/s/Release")],
        False,
        "H042",
        "package source",
    ),
    "package altered": (lambda repository: alter(repository.package, b"stub", b"evil"), True, "H043", "altered"),
    "package longer": (lambda repository: alter(repository.package, b"", b"more"), True, "H230", "few minutes"),
    "package gone": (lambda repository: repository.package.unlink(), True, "H042", "package source"),
}


@pytest.mark.parametrize(("strike", "fresh", "code", "advised"), FAULTS.values(), ids=FAULTS)
def test_each_fault_of_a_server_has_its_words(node, strike, fresh, code, advised):
    if fresh:
        assert node.update() == ""
    strike(node.repository)
    printed = node.install() if fresh else node.update()
    assert bool(printed) is (code is not None), printed
    if code:
        refusal = classify(printed, "/log")
        assert (refusal.code, advised in refusal.remedy) == (code, True), f"{refusal}\n{printed}"


@pytest.fixture
def host(node, monkeypatch):
    monkeypatch.setattr(apt_host, "LISTS", node.lists)
    monkeypatch.setattr(apt_host, "UPDATED", node.stamp)
    monkeypatch.setattr(apt_host, "SOURCES", (node.root / "etc/apt/sources.list", node.root / "etc/apt/sources.list.d"))
    return Apt(node.call, None, Wishes(("x",)), recommends=False, lock_timeout=1)


def refreshed(node):
    """Refresh the lists as somebody whose success APT notes."""
    time.sleep(0.01)
    assert node.update() == ""
    node.stamp.touch()


def test_lists_are_refreshed_where_there_are_none_whatever_the_stamp_says(node, host):
    assert host.update(HOUR) is not None
    refreshed(node)
    assert host.update(HOUR) is None
    node.delete_lists()
    assert host.update(HOUR) is not None


def test_a_refresh_that_met_a_login_page_leaves_lists_that_are_refreshed(node, host):
    """APT leaves partial, a lock, and the stamp of the hour before: the next run said that the name is wrong."""
    refreshed(node)
    node.delete_lists()
    node.repository.portal = "page"
    assert node.update()
    assert (node.lists / "partial").is_dir()
    node.repository.portal = ""
    assert "Unable to locate package x" in node.install()
    assert host.update(HOUR) is not None


def test_after_a_refresh_a_mirror_that_moved_on_is_right(node):
    assert node.update() == ""
    node.repository.package.unlink()
    node.repository.publish("2")
    os.utime(node.repository.release, (time.time() + 60, time.time() + 60))  # a server tells whole seconds
    assert classify(node.install(), "/log").code == "H042"
    assert node.update() == ""
    rc, out, _errors = node.call(["apt-get", "--simulate", "install", "x"])
    assert (rc, "Inst x (2" in out) == (0, True)
