"""The settings of a network come back under the names of today, and never without a way back."""

import base64
import json
import os
import subprocess
import tarfile
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.system import Interface, Network, NetworkTool
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import connection, network, network_host, record
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.asked import WithNetwork

from unit.filled import typed

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
INTERFACES = "/etc/network/interfaces"
BOOTSTRAP = "/etc/systemd/network/10-gpulab-reinstall-eth0.network"
CAPTURED = "auto eth0\niface eth0 inet static\n  address 10.0.0.7/24\nauto eth0.7\niface eth0.7 inet manual\n"


def interface(name="eth0", mac="52:54:00:00:00:01", **more):
    addresses = [{"address": "10.0.0.7/24", "dynamic": False}]
    document = {"name": name, "kind": "physical", "mac": mac, "addresses": addresses, **more}
    return typed(document, Interface)


def section(tool="ifupdown", files=(INTERFACES,), *, active=True, interfaces=None, managed_by=None):
    tools = [{"name": tool, "files": list(files), "active": active}]
    found = typed({"tools": tools, "dns": {"managed_by": managed_by}}, Network)
    return replace(found, interfaces=interfaces or [interface()])


@pytest.mark.parametrize(
    ("now", "names"),
    [
        ([interface("eth0")], {}),
        ([interface("enp1s0")], {"eth0": "enp1s0"}),
        ([interface("enp1s0", "52:54:00:00:00:99")], {}),
        ([interface("bond0", permanent_mac="52:54:00:00:00:01", kind="bond")], {}),
        ([interface("enp1s0", "aa:aa:aa:aa:aa:aa", permanent_mac="52:54:00:00:00:01")], {"eth0": "enp1s0"}),
    ],
)
def test_interfaces_are_known_by_their_addresses(now, names):
    assert network.renamed([interface()], now) == names


def test_names_change_as_whole_words_and_all_at_once():
    names = {"eth0": "eth1", "eth1": "eth0"}
    assert (
        network.with_names("eth0 eth1 eth0.7 eth01 veth0 my-eth0 eth0:", names)
        == "eth1 eth0 eth1.7 eth01 veth0 my-eth0 eth1:"
    )


def test_only_a_node_that_will_answer_is_changed():
    assert network.answers([interface()], "10.0.0.7")
    assert not network.answers([interface()], "10.0.0.70")


def test_units_follow_what_was_active():
    change = network.change(section(managed_by="systemd"), section("networkd", (BOOTSTRAP,)), {})
    assert change.enable == ("networking.service", network.RESOLVED)
    assert change.disable == ("systemd-networkd.service",)
    assert change.interfaces == ("eth0",)
    assert network.change(section(), section(), {}).enable == ()
    assert network.change(section(active=None), section("networkd"), {}).disable == ()


class Done:
    """A command that ended."""

    def __init__(self, printed=""):
        """Keep what it prints."""
        self.printed = printed

    def result(self):
        """Return that it did well."""
        return 0, self.printed, ""

    def output(self):
        """Return what was printed."""
        return self.printed


@pytest.fixture
def node(tree, monkeypatch):
    """Return a machine that systemd-networkd has set up for its installation."""
    tree.file(BOOTSTRAP, "[Match]\nName=eth0\n").file("/usr/sbin/ifup").file("/etc/passwd", "root:x:0:0::/:/bin/sh\n")
    tree.file("/etc/group", "root:x:0:\n").file(INTERFACES, "auto lo\n").directory("/etc/systemd/system")
    tree.directory("/var/lib/dpkg/info")
    found = tree.node()
    found.ran, found.printed = [], {}

    def start(argv):
        found.ran.append(" ".join(argv))
        return Done(found.printed.get(argv[0], ""))

    found.start = start
    now = section("networkd", (BOOTSTRAP,))
    now.tools.append(NetworkTool("ifupdown", [INTERFACES], active=False))
    monkeypatch.setattr(network_host.system, "read", lambda _node: SimpleNamespace(network=found.now))
    monkeypatch.setattr(found, "container", lambda: None)
    found.now = now
    found.ssh = {"address": "10.0.0.7"}
    monkeypatch.setattr(
        network_host.connection, "read", lambda _node: connection.Connection("10.0.0.1", found.ssh["address"], 22)
    )
    return found


@pytest.fixture
def restored(node, tmp_path):
    names = {"owner": "root", "uid": 0, "group": "root", "gid": 0, "kind": "file", "mode": "0644", "size": 0}

    def restored(*, check=False, contents=None, **more):
        contents = {INTERFACES: CAPTURED} if contents is None else contents
        asked = {
            "network": asdict(section()),
            "entries": [{"path": path, **names} for path in contents],
            "contents": {path: base64.b64encode(text.encode()).decode() for path, text in contents.items()},
            "minutes": 5,
            **more,
        }
        return network_host.restore(node, typed(asked, WithNetwork), check=check, state=tmp_path / "state")

    restored.place = tmp_path / "state/network"
    restored.record = tmp_path / "state" / record.PLACE.name
    return restored


@root_only
def test_settings_are_tried_with_a_way_back(node, restored):
    found = restored()
    assert found["trying"]
    assert node.text(INTERFACES) == CAPTURED.strip()
    assert not node.exists(BOOTSTRAP)
    timer = node.ran.index(f"systemctl enable --now {network.BACK}.timer")
    assert timer < next(number for number, one in enumerate(node.ran) if one.startswith("systemd-run"))
    assert "OnActiveSec=5min" in node.text(f"/etc/systemd/system/{network.BACK}.timer")
    assert "OnBootSec" not in node.text(
        f"/etc/systemd/system/{network.BACK}.timer"
    )  # over long ago: it would act at once
    for script in ("back", "apply"):
        subprocess.run(["sh", "-n", restored.place / script], check=True)
    with tarfile.open(restored.place / "before.tar") as archive:
        assert {INTERFACES.lstrip("/"), BOOTSTRAP.lstrip("/")} <= set(archive.getnames())
    assert not restored.record.exists()


@root_only
def test_the_way_is_there_before_anything_changes(node, restored, monkeypatch):
    seen = []
    real = network_host.tree.put

    def put(its, entry, *rest):
        seen.append((entry["path"], f"systemctl enable --now {network.BACK}.timer" in node.ran))
        real(its, entry, *rest)

    monkeypatch.setattr(network_host.tree, "put", put)
    restored()
    assert [armed for path, armed in seen if path.endswith("/interfaces")] == [True]


@root_only
def test_the_way_back_brings_back_what_was(node, restored, tmp_path):
    restored()
    script = (restored.place / "back").read_text().replace("--directory /", f"--directory {node.root}")
    for path in ("/etc/systemd", INTERFACES):
        script = script.replace(f" {path}", f" {node.root}{path}")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("systemctl", "ip"):
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/ran\n')
        (programs / name).chmod(0o755)
    script = script.replace("PATH=", f"PATH={programs}:")
    subprocess.run(["sh", "-e"], input=script.encode(), check=True)
    assert node.text(INTERFACES) == "auto lo"
    assert node.exists(BOOTSTRAP)
    ran = (tmp_path / "ran").read_text()
    assert "systemctl disable --now networking.service" in ran
    assert "systemctl enable systemd-networkd.service" in ran
    assert "systemctl restart systemd-networkd.service" in ran
    assert network_host.confirm(node, [INTERFACES], restored.place.parent) == "undone"


@root_only
def test_what_is_confirmed_stays_and_a_second_run_changes_nothing(node, restored):
    paths = restored()["paths"]
    assert network_host.confirm(node, paths, restored.place.parent) == "confirmed"
    assert f"systemctl disable --now {network.BACK}.timer" in node.ran
    assert not node.exists(f"/etc/systemd/system/{network.BACK}.timer")
    assert not restored.place.exists()
    node.path(INTERFACES).write_text("by hand\n")
    again = restored()
    assert (again["changed"], again["missing"], again.get("trying")) == (False, [], None)
    assert node.text(INTERFACES) == "by hand"


@root_only
def test_nothing_is_confirmed_while_the_settings_are_taking_effect(node, restored):
    restored()
    node.printed["systemctl"] = "active\n"
    assert network_host.confirm(node, [], restored.place.parent) == "waiting"
    assert node.exists(f"/etc/systemd/system/{network.BACK}.timer")


@root_only
@pytest.mark.parametrize(
    ("hinder", "why"),
    [
        (lambda node: node.ssh.update(address="10.0.0.99"), "would not have the address 10.0.0.99"),
        (
            lambda node: node.path("/usr/sbin/ifup").unlink(),
            "ifupdown, which set up the network, is not installed",
        ),
    ],
)
def test_what_would_cut_the_connection_is_not_tried(node, restored, hinder, why):
    hinder(node)
    found = restored()
    assert why in found["missing"][0]["why"]
    assert (found["changed"], node.text(INTERFACES), node.exists(BOOTSTRAP)) == (False, "auto lo", True)
    assert node.ran == []


@root_only
def test_check_mode_tells_the_same_and_changes_nothing(node, restored):
    told = restored(check=True)
    assert node.text(INTERFACES) == "auto lo"
    assert node.ran == []
    assert not restored.record.parent.exists()
    assert told["changes"] == restored()["changes"]
    assert not told["trying"]


@root_only
def test_settings_come_back_under_the_names_of_today(node, restored):
    node.now = replace(node.now, interfaces=[interface("enp1s0")])
    restored()
    assert node.text(INTERFACES) == CAPTURED.replace("eth0", "enp1s0").strip()


@root_only
def test_a_link_to_what_nobody_writes_stays_away(node, restored):
    names = {"owner": "root", "uid": 0, "group": "root", "gid": 0, "mode": "0777", "size": 0}
    link = {"path": "/etc/resolv.conf", "kind": "link", "target": "../run/systemd/resolve/stub-resolv.conf", **names}
    found = restored(contents={}, entries=[link])
    assert "/etc/resolv.conf" in {one["name"] for one in found["missing"]}
    node.path("/usr/lib/systemd").mkdir(parents=True)
    node.path("/usr/lib/systemd/systemd-resolved").write_text("")
    found = restored(contents={}, entries=[link])
    assert {"action": "write", "what": "/etc/resolv.conf"} in found["changes"]


@root_only
def test_a_container_gets_files_and_nothing_else(node, restored, monkeypatch):
    monkeypatch.setattr(node, "container", lambda: "docker")
    found = restored()
    assert (node.text(INTERFACES), node.ran, found.get("trying")) == (CAPTURED.strip(), [], None)
    assert not restored()["changed"]
    assert json.loads(restored.record.read_text())["files"] == [INTERFACES, "network"]
