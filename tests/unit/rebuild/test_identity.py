"""A node gets its name, its id and its keys again; sshd's settings count only if they let Ansible in."""

import base64
import os
import stat

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import connection, identity, identity_host
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.asked import WithAccounts

from unit.filled import typed

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
UUID = "4c4c4544-0031"
KEY = "/etc/ssh/ssh_host_ed25519_key"
SSHD = "/etc/ssh/sshd_config"
CONTENTS = {
    "/etc/hostname": b"node07\n",
    "/etc/machine-id": b"0123456789abcdef0123456789abcdef\n",
    "/etc/timezone": b"Asia/Shanghai\n",
    "/etc/hosts": b"127.0.0.1 localhost\n10.0.0.7 node07\n",
    KEY: b"canary-7f3a\n",
    f"{KEY}.pub": b"ssh-ed25519 AAAA\n",
    SSHD: b"PermitRootLogin prohibit-password\n",
}


@pytest.mark.parametrize(
    ("captured", "now", "merged"),
    [
        ("10.0.0.7 node07\n", "127.0.0.1 localhost\n127.0.1.1 node07\n", "10.0.0.7 node07\n127.0.0.1 localhost\n"),
        ("10.0.0.7 Node07", "10.0.0.9 nas # new\n", "10.0.0.7 Node07\n10.0.0.9 nas\n"),
        ("127.0.0.1 localhost\n# by wei\n", "127.0.0.1 localhost\n", "127.0.0.1 localhost\n# by wei\n"),
    ],
)
def test_hosts_keep_the_names_of_both(captured, now, merged):
    assert identity.merged_hosts(captured, now) == merged
    assert identity.merged_hosts(merged, now) == merged


@pytest.mark.parametrize(
    ("printed", "user", "reason"),
    [
        ("port 22\npermitrootlogin without-password\npubkeyauthentication yes\n", "root", ""),
        ("permitrootlogin no\n", "root", "root"),
        ("permitrootlogin no\n", "wei", ""),
        ("permitrootlogin forced-commands-only\n", "root", "root"),
        ("port 2222\n", "wei", "port 22"),
        ("port 2222\nport 22\n", "wei", ""),
        ("pubkeyauthentication no\n", "wei", "no keys"),
        ("allowusers li\nallowusers zhang\n", "wei", "AllowUsers"),
        ("allowusers li\nallowusers we*@10.0.0.*\n", "wei", ""),
        ("allowgroups staff\n", "wei", "AllowGroups"),
        ("allowgroups lab\n", "wei", ""),
        ("denyusers wei\n", "wei", "DenyUsers"),
        ("denygroups lab\n", "wei", "DenyGroups"),
    ],
)
def test_settings_that_shut_ansible_out_are_found(printed, user, reason):
    found = identity.shuts_out(identity.settings(printed), user, ["lab"], 22)
    assert (reason in found) if reason else not found


class Ran:
    """A command that ended."""

    def __init__(self, answer):
        """Keep the answer."""
        self.answer = answer

    def result(self):
        """Return it."""
        return self.answer

    def output(self):
        """Return what was printed."""
        return self.answer[1] if self.answer else None


@pytest.fixture
def node(tree):
    """Return a machine with keys of its own, whose sshd takes everything."""
    tree.file("/sys/class/dmi/id/product_uuid", UUID.upper()).file("/etc/os-release", "ID=debian\n")
    tree.file("/etc/passwd", "root:x:0:0::/root:/bin/sh\n").file("/etc/group", "root:x:0:\n")
    tree.file("/proc/sys/kernel/hostname", "debian\n").file("/etc/hostname", "debian\n").file(KEY, "new\n")
    tree.file("/etc/ssh/ssh_host_rsa_key", "new\n").file("/etc/ssh/ssh_host_rsa_key.pub", "new\n").file(SSHD, "new\n")
    tree.file("/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 node07\n").file("/etc/machine-id", "f" * 32)
    found = tree.node()
    found.ran = []
    found.answers = {"sshd -t": (0, "", ""), "sshd -T": (0, "port 22\n", "")}

    def start(argv):
        found.ran.append(" ".join(argv))
        return Ran(found.answers.get(" ".join(argv[:2])))

    found.start = start
    return found


def asked(uuid=UUID, user="root"):
    names = {"owner": "root", "uid": 0, "group": "root", "gid": 0}
    entries = [
        {"path": path, "kind": "file", "mode": "0600" if path == KEY else "0644", "size": len(data), **names}
        for path, data in CONTENTS.items()
    ]
    link = {"path": "/etc/localtime", "kind": "link", "target": "/usr/share/zoneinfo/Asia/Shanghai", "mode": "0777"}
    document = {
        "user": user,
        "accounts": {
            "users": [{"name": "wei", "gid": 1500, "groups": ["lab"]}],
            "groups": [{"name": "wei", "gid": 1500}],
        },
        "machine": {"dmi_uuid": uuid},
        "entries": [*entries, {**link, "size": 33, **names}],
        "contents": {path: base64.b64encode(data).decode() for path, data in CONTENTS.items()},
    }
    return typed(document, WithAccounts)


@pytest.fixture
def restored(node, tmp_path):
    def restored(*, check=False, **more):
        return identity_host.restore(node, asked(**more), check=check, state=tmp_path / "state")

    return restored


@root_only
def test_a_node_is_itself_again(node, restored):
    found = restored()
    assert found["missing"] == []
    for path, data in CONTENTS.items():
        assert node.data(path) == data
    assert stat.S_IMODE(node.path(KEY).stat().st_mode) == 0o600
    assert node.link("/etc/localtime") == "/usr/share/zoneinfo/Asia/Shanghai"
    assert not node.exists("/etc/ssh/ssh_host_rsa_key")
    assert "hostname node07" in node.ran
    assert "systemctl try-reload-or-restart ssh.service" in node.ran
    assert "canary" not in str(found)


@root_only
def test_a_second_run_changes_nothing_and_leaves_what_people_did(node, restored):
    restored()
    node.path("/proc/sys/kernel/hostname").write_text("node07\n")
    node.path(SSHD).write_text("by hand\n")
    node.ran.clear()
    again = restored()
    assert (again["changed"], again["missing"], again["diff"]) == (False, [], [])
    assert node.text(SSHD) == "by hand"
    assert not any("systemctl" in one for one in node.ran)


@root_only
def test_check_mode_tells_the_same_and_changes_nothing(node, restored, tmp_path):
    told = restored(check=True)
    assert node.text(KEY) == "new"
    assert node.ran == []
    assert not (tmp_path / "state").exists()
    assert told["changes"] == restored()["changes"]


@root_only
def test_another_machine_keeps_its_id(node, restored):
    found = restored(uuid="another")
    assert [one["name"] for one in found["missing"]] == ["/etc/machine-id"]
    assert node.text("/etc/machine-id") == "f" * 32


@root_only
@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({"sshd -t": (255, "", "line 1: Bad configuration option: Foo\n")}, "Foo"),
        ({"sshd -T": (0, "permitrootlogin no\n", "")}, "root"),
    ],
)
def test_settings_of_sshd_that_do_not_work_are_undone(node, tree, restored, answers, why):
    bootstrap = identity_host.FOR_THE_INSTALLATION
    tree.file(bootstrap, "Port 22\n")
    node.answers.update(answers)
    found = restored()
    assert [one["name"] for one in found["missing"]] == ["sshd"]
    assert why in found["missing"][0]["why"]
    for path in (KEY, SSHD, "/etc/ssh/ssh_host_rsa_key"):
        assert node.text(path) == "new"
    assert node.text(bootstrap) == "Port 22"
    assert not any("systemctl" in one for one in node.ran)
    assert node.text("/etc/hostname") == "node07"


@root_only
def test_what_let_ansible_in_after_the_installation_goes(node, tree, restored):
    tree.file(identity_host.FOR_THE_INSTALLATION, "Port 22\n")
    restored()
    assert not node.exists(identity_host.FOR_THE_INSTALLATION)


@root_only
@pytest.mark.parametrize("group", ["lab", "wei"])
def test_groups_that_come_back_with_the_accounts_count(node, restored, group):
    node.answers["sshd -T"] = (0, f"allowgroups {group}\n", "")
    assert restored(user="wei")["missing"] == []


@root_only
@pytest.mark.parametrize(("port", "missing"), [(22, []), (2222, ["sshd"])])
def test_sshd_has_to_listen_where_the_connection_came_to(node, restored, monkeypatch, port, missing):
    way = connection.Connection("10.0.0.1", "10.0.0.7", port)
    monkeypatch.setattr(identity_host.connection, "read", lambda _node: way)
    assert [one["name"] for one in restored()["missing"]] == missing
    assert "sshd -T -C user=root,host=10.0.0.1,addr=10.0.0.1" in node.ran


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        (b"HOME=/\0SSH_CONNECTION=10.0.0.1 50000 10.0.2.15 22\0", connection.Connection("10.0.0.1", "10.0.2.15", 22)),
        (b"SSH_CONNECTION=fe80::1%eth0 50000 fe80::2%eth0 22", connection.Connection("fe80::1", "fe80::2", 22)),
        (b"XSSH_CONNECTION=10.0.0.1 50000 10.0.2.15 22\0", None),
    ],
)
def test_the_way_of_a_connection_is_found_above_sudo(tree, environ, found):
    tree.file("/proc/300/environ", b"SUDO_USER=wei\0").file("/proc/300/stat", "300 (py (x) y) S 200 1 1\n")
    tree.file("/proc/200/environ", environ).file("/proc/200/stat", "200 (sh) S 1 1 1\n")
    assert connection.read(tree.node(), 300) == found
