"""A node whose network is cut gets all that it needs from a bundle, by one setting; what tries to get out is recorded.

The controller serves the bundle over HTTPS, with the lab's own authority; then the node has it in a folder, a stick.
"""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading

import pytest
from laboratory import ROOT

sys.path.append(str(ROOT / "tests/stubs"))
import model_hub

pytestmark = pytest.mark.story
HOST_TYPE = os.environ.get("GPULAB_OFFLINE_TYPE", "training_servers")  # of catalog/host_types.yml
NODE = "node13"
NODES = [
    {"name": NODE, "release": "trixie", "gpu": "a100-pcie-2", "groups": [HOST_TYPE], "volumes": ["/etc/hosts"]},
]
SERVED, STICK = "https://bundle.lab:8443", "/media/stick/bundle"
INSTALL_SECONDS = 1500
WISHES = {
    "gpulab_environments": [{"name": "small", "packages": ["click", "numpy"]}],
    "monitoring_state": "present",
    "network_state": "present",
    "container_toolkit_engines": ["docker"],
    "nvidia_driver_branch": "595",
    "model_store_repositories": [{"name": "acme/tiny", "revision": "a" * 40}],
}
MODEL = f"/srv/models/hub/models--acme--tiny/snapshots/{'a' * 40}/model.safetensors"
HUB = 8649
# A way out that leads nowhere: what goes there is seen. It has to be so after a reboot, too.
CUT = """
cat > /etc/systemd/system/cut.service <<'END'
[Unit]
DefaultDependencies=no
Before=sysinit.target
[Service]
Type=oneshot
ExecStart=ip route replace default via {nowhere}
ExecStart=ip neigh replace {nowhere} lladdr 02:00:00:00:00:01 dev eth0 nud permanent
ExecStart=sh -c 'echo nameserver {gateway} > /etc/resolv.conf'
[Install]
WantedBy=sysinit.target
END
systemctl daemon-reload; systemctl enable --now cut.service
"""
DOCKER = """mkdir -p /etc/docker; echo '{"bridge": "none", "iptables": false, "storage-driver": "vfs",
"default-ulimits": {"memlock": {"Name": "memlock", "Hard": 65536, "Soft": 65536}}}' > /etc/docker/daemon.json"""
PEOPLE = """
apt-get update -qq && apt-get install --yes -qq tree python3-venv && useradd --create-home ada
runuser -u ada -- sh -c 'python3 -m venv ~/own && ~/own/bin/pip install --quiet --no-index --find-links /srv packaging'
"""
CERTIFICATES = """
new="openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
$new -subj '/CN=The lab' -keyout ca.key -out ca.pem
$new -subj /CN=bundle.lab -addext subjectAltName=DNS:bundle.lab -addext basicConstraints=critical,CA:false \\
    -CA ca.pem -CAkey ca.key -keyout server.key -out server.pem
"""
DNS, BUNDLE, SSH = 53, 8443, 22
IPV4, IPV6, UDP = 0x0800, 0x86DD, 17
SOL_PACKET, ADD_MEMBERSHIP, PROMISCUOUS = 263, 1, 1  # of packet(7)


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves a bundle, and keeps what was not there."""

    protocol_version = "HTTP/1.1"  # of which APT needs no end of the connection
    missing: list = []  # noqa: RUF012 - it is for all of them

    def send_error(self, code, *arguments):
        """Keep what was asked for in vain."""
        self.missing.append((self.path, code))
        super().send_error(code, *arguments)

    def log_message(self, *_arguments):
        """Say nothing."""


class Names(threading.Thread):
    """A name server that knows the name of the bundle's server, and keeps all others that are asked for."""

    def __init__(self, address):
        """Listen at an address."""
        super().__init__(daemon=True)
        self.address, self.foreign = address, set()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, DNS))

    def run(self):
        """Answer until the process ends."""
        while True:
            question, asker = self.socket.recvfrom(512)
            labels, place = [], 12
            while question[place]:
                labels.append(question[place + 1 : place + 1 + question[place]].decode("ascii", "replace"))
                place += 1 + question[place]
            (kind,) = struct.unpack("!H", question[place + 1 : place + 3])
            name = ".".join(labels).lower()
            own = re.sub(r"^_https?\._tcp\.", "", name) == "bundle.lab"  # which APT asks for, too
            if not own:
                self.foreign.add((asker[0], name))
            answer = struct.pack("!HHHIH", 0xC00C, 1, 1, 60, 4) + socket.inet_aton(self.address)
            found = [answer] if name == "bundle.lab" and kind == 1 else []
            header = question[:2] + struct.pack("!HHHHH", 0x8580 if own else 0x8583, 1, len(found), 0, 0)
            self.socket.sendto(header + question[12 : place + 5] + b"".join(found), asker)


class Packets(threading.Thread):
    """Keeps to whom nodes send packets, beside each other, the name server, the bundle's server and Ansible's SSH."""

    def __init__(self, gateway):
        """Listen on the bridge that has an address."""
        super().__init__(daemon=True)
        self.gateway, self.lab, self.foreign = gateway, gateway.rpartition(".")[0] + ".", set()
        listed = subprocess.run(["ip", "-o", "-4", "address"], capture_output=True, text=True, check=True).stdout
        bridge = re.search(rf"^\d+: (\S+) +inet {re.escape(gateway)}/", listed, re.MULTILINE)[1]
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
        self.socket.bind((bridge, 0))
        mreq = struct.pack("iHH8s", socket.if_nametoindex(bridge), PROMISCUOUS, 0, b"")
        self.socket.setsockopt(SOL_PACKET, ADD_MEMBERSHIP, mreq)

    def run(self):
        """Look at every frame until the lab is removed."""
        while True:
            try:
                frame = self.socket.recv(65535)
            except OSError:  # the lab is gone
                return
            (kind,) = struct.unpack("!H", frame[12:14])
            if kind == IPV4:
                self._look(frame[14:])
            elif kind == IPV6 and frame[38] not in (0xFE, 0xFF):  # neither of the link nor to a group
                self.foreign.add(("IPv6", socket.inet_ntop(socket.AF_INET6, frame[38:54]), 0))

    def _look(self, packet):
        source, target = (socket.inet_ntoa(packet[place : place + 4]) for place in (12, 16))
        length = (packet[0] & 15) * 4
        came, goes = struct.unpack("!HH", packet[length : length + 4])
        if not source.startswith(self.lab) or source == self.gateway:
            return
        if target == self.gateway:
            if packet[9] in (6, UDP) and came != SSH and goes not in (DNS, BUNDLE):
                self.foreign.add((source, target, goes))
        elif not target.startswith(self.lab) and not (224 <= packet[16] <= 239 and packet[9] != UDP):  # IGMP
            self.foreign.add((source, target, goes))


@pytest.fixture(scope="module")
def gateway(lab):
    """Return the controller's address on the lab's network."""
    return re.search(r"ansible_host: \"?([\d.]+)\.\d+", (lab.inventory / "hosts.yml").read_text())[1] + ".1"


@pytest.fixture(scope="module", autouse=True)
def vendors(lab, gateway):
    """Serve stand-ins for NVIDIA's repositories, as long as there is a network."""
    settings = {**WISHES, **lab.serve_drivers("debian13", "--cuda", "13.2", "595.91.07")}
    made = lab.directory / "toolkit"
    subprocess.run([sys.executable, ROOT / "tests/stubs/container_toolkit_repository.py", made, "1.20.0"], check=True)
    shutil.copytree(made / "libnvidia-container", lab.directory / "repository/libnvidia-container", dirs_exist_ok=True)
    settings["container_toolkit_repository_url"] = f"http://{gateway}:8642/libnvidia-container/stable/deb/amd64"
    settings["container_toolkit_repository_key"] = str(made / "libnvidia-container/gpgkey")
    settings["container_toolkit_repository_fingerprint"] = (made / "fingerprint").read_text().strip()
    files = lab.directory / "hub/models/acme/tiny" / ("a" * 40)
    files.mkdir(parents=True)
    (files / "config.json").write_text("{}")
    (files / "model.safetensors").write_bytes(b"weights " * 500)
    hub = model_hub.serve(lab.directory / "hub", HUB, host=gateway)
    settings["model_store_hub"] = hub.address
    settings["capture_directory"] = str(lab.directory / "captures")
    settings |= {"bundle_directory": str(lab.directory / "bundle"), "bundle_keys": str(lab.directory / "keys")}
    (lab.inventory / "group_vars").mkdir(exist_ok=True)
    (lab.inventory / "group_vars/gpu-nodes.yml").write_text(json.dumps(settings))
    lab.node(NODE).run(DOCKER)
    yield
    hub.shutdown()


@pytest.fixture(scope="module")
def vault(lab):
    """Return the arguments with which secrets of captures are encrypted."""
    password = lab.directory / "vault"
    password.write_text("of the test")
    return (f"--vault-password-file={password}",)


def test_a_node_is_captured_with_what_people_have_on_it(lab, vault):
    subprocess.run([sys.executable, "-m", "pip", "download", "packaging==24.2"], cwd=lab.directory, check=True)
    (wheel,) = lab.directory.glob("packaging-*.whl")
    subprocess.run(["docker", "cp", "--quiet", wheel, f"{lab.node(NODE).container}:/srv"], check=True)
    lab.node(NODE).run(PEOPLE, timeout=300)
    run = lab.play("playbooks/capture.yml", *vault)
    assert run.rc == 0, run.output[-3000:]


def test_its_size_is_known_before_anything_is_fetched(lab):
    run = lab.play("playbooks/bundle.yml", "--check", timeout=900)
    assert run.rc == 0, run.output[-3000:]
    assert re.search(r"bundle: \d{2,} packages \(\d+\.\d MB\), [56] wheels .*, 2 files of models", run.output)
    assert not (lab.directory / "bundle").exists()
    assert not (lab.directory / "keys").exists()


def test_it_is_made_and_whole(lab):
    run = lab.play("playbooks/bundle.yml", timeout=900)
    assert run.rc == 0, run.output[-3000:]
    here = {"bundle_directory": str(lab.directory / "bundle"), "bundle_keys": str(lab.directory / "keys")}
    assert lab.play("playbooks/bundle_verify.yml", "-e", json.dumps(here)).rc == 0
    assert lab.node(NODE).run("find /etc/apt/sources.list.d /opt -mindepth 1") == ""  # nothing was changed there


def cut_off(lab, gateway):
    """Let the node's way out lead to where packets are recorded, and its questions for names to the controller."""
    lab.node(NODE).run(CUT.format(nowhere=gateway.rpartition(".")[0] + ".254", gateway=gateway))


@pytest.fixture(scope="module")
def cut(lab, gateway):
    """Cut the network, and serve the bundle; return what keeps the names that are asked for, and the packets."""
    authority = lab.directory / "authority"
    authority.mkdir(exist_ok=True)
    subprocess.run(["sh", "-ec", CERTIFICATES], cwd=authority, check=True, capture_output=True)
    names, packets = Names(gateway), Packets(gateway)
    directory = lab.directory / "bundle"
    files = http.server.ThreadingHTTPServer((gateway, BUNDLE), functools.partial(Files, directory=directory))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.pem", authority / "server.key")
    files.socket = context.wrap_socket(files.socket, server_side=True)
    cut_off(lab, gateway)
    for thread in (names, packets, threading.Thread(target=files.serve_forever, daemon=True)):
        thread.start()
    settings = {"gpulab_bundle": SERVED, "base_ca_certificates": [str(authority / "ca.pem")]}
    (lab.inventory / "host_vars").mkdir(exist_ok=True)
    (lab.inventory / f"host_vars/{NODE}.yml").write_text(json.dumps(settings))
    return names, packets


def recorded(cut):
    """Return what nodes asked for or tried to reach beside the bundle."""
    names, packets = cut
    return sorted(names.foreign), sorted(packets.foreign), Files.missing


def test_what_tries_to_get_out_is_recorded(lab, cut):
    lab.node(NODE).run("getent hosts outside.example || :; timeout 2 bash -c 'echo > /dev/tcp/192.0.2.1/443' || :")
    names, packets = cut
    assert {name for _asker, name in names.foreign} == {"outside.example"}
    assert {(target, port) for _source, target, port in packets.foreign} == {("192.0.2.1", 443)}
    names.foreign.clear()
    packets.foreign.clear()


def test_a_bare_node_gets_all_from_it_and_a_second_run_changes_nothing(lab, cut):
    for changed in (True, False):
        run = lab.play("site.yml", timeout=INSTALL_SECONDS)
        assert run.rc == 0, run.output[-3000:]
        assert (run.recap[NODE]["changed"] > 0) == changed
    assert "numpy" in lab.node(NODE).run("cat /opt/venvs/small/gpulab.lock")
    assert lab.node(NODE).run(f"head -c 7 {MODEL}") == "weights"
    assert recorded(cut) == ([], [], [])


FAULTS = {  # of the served bundle, by a command in its folder, and of the inventory: what a plan says
    "an index was edited": ("sed -i '$a# more' apt/deb.debian.org/debian/dists/trixie/InRelease", {}, "B004"),
    "half a copy": ("rm -r pypi", {}, "B005"),
    "signed by nobody": ("rm SHA256SUMS.sig", {}, "B003"),
    "it lacks a package": ("", {"gpulab_environments": [{"name": "small", "packages": ["six"]}]}, "B007"),
    "it lacks a model": ("", {"model_store_repositories": [{"name": "acme/tiny", "revision": "b" * 40}]}, "B007"),
    "it is not there": ("", {"gpulab_bundle": "https://bundle.lab:8443/nowhere"}, "B005"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_with_it_is_said_before_anything_changes(lab, cut, fault):
    spoil, settings, code = FAULTS[fault]
    directory, kept = lab.directory / "bundle", lab.directory / "kept"
    shutil.copytree(directory, kept, copy_function=os.link)
    subprocess.run(["sh", "-ec", spoil], cwd=directory, check=True)
    try:
        run = lab.play("site.yml", "-e", json.dumps(settings))
    finally:
        shutil.rmtree(directory)
        kept.rename(directory)
    assert (run.rc, run.recap[NODE]["changed"]) == (2, 0), run.output[-3000:]
    assert f"GPULAB-{code}" in run.output
    assert recorded(cut)[:2] == ([], [])


def test_a_folder_on_the_node_serves_as_well(lab, cut):
    node = lab.node(NODE)
    node.run(f"mkdir -p {STICK}")
    argv = ["docker", "cp", "--quiet", f"{lab.directory}/bundle/.", f"{node.container}:{STICK}"]
    subprocess.run(argv, check=True)
    for changed in (True, False):
        run = lab.play("site.yml", "-e", json.dumps({"gpulab_bundle": STICK}), timeout=INSTALL_SECONDS)
        assert run.rc == 0, run.output[-3000:]
        assert (run.recap[NODE]["changed"] > 0) == changed
    node.run("apt-get update --error-on=any && apt-get install --yes --reinstall chrony")
    node.run("python3 -m pip download --quiet --no-deps --dest /tmp/taken click && test -e /tmp/taken/click-*.whl")
    assert recorded(cut)[:2] == ([], [])


def kept(lab):
    """Return the files of the bundle that are no lists, and when each was written."""
    files = [path for path in (lab.directory / "bundle").rglob("*") if path.suffix in (".deb", ".whl")]
    return {path.name: path.stat().st_mtime_ns for path in files}


def test_a_second_bundle_is_made_of_a_node_that_is_cut_off_and_brings_only_what_is_new(lab, cut, vault):
    assert lab.play("playbooks/capture.yml", *vault).rc == 0
    more = {"gpulab_environments": [{"name": "small", "packages": ["click", "numpy", "six"]}]}
    settings = json.loads((lab.inventory / "group_vars/gpu-nodes.yml").read_text())
    (lab.inventory / "group_vars/gpu-nodes.yml").write_text(json.dumps({**settings, **more}))
    before = kept(lab)
    run = lab.play("playbooks/bundle.yml", timeout=900)
    assert run.rc == 0, run.output[-3000:]
    new = kept(lab).items() - before.items()
    assert [name.partition("-")[0] for name, _time in new] == ["six"]
    for changed in (True, False):
        run = lab.play("site.yml", timeout=INSTALL_SECONDS)
        assert run.rc == 0, run.output[-3000:]
        assert (run.recap[NODE]["changed"] > 0) == changed
    assert "six" in lab.node(NODE).run("cat /opt/venvs/small/gpulab.lock")
    assert recorded(cut)[:2] == ([], [])


def test_a_fresh_node_is_rebuilt_from_its_capture_by_the_bundle_alone(lab, cut, gateway, vault):
    lab.renew(NODE, NODES)
    lab.node(NODE).run(DOCKER)
    cut_off(lab, gateway)
    for changed in (True, False):
        run = lab.play("playbooks/rebuild.yml", *vault, timeout=INSTALL_SECONDS)
        assert run.rc == 0, run.output[-3000:]
        assert (run.recap[NODE]["changed"] > 0) == changed
    assert "six" in lab.node(NODE).run("cat /opt/venvs/small/gpulab.lock")
    assert lab.node(NODE).run(f"head -c 7 {MODEL}") == "weights"
    assert (
        lab.node(NODE)
        .run("tree --version && /home/ada/own/bin/python -c 'import packaging; print(packaging.__version__)'")
        .endswith("24.2")
    )
    assert recorded(cut)[:2] == ([], [])
