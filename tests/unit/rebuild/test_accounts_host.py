"""The accounts of a node below a directory: what is written there, and who owns files then."""

import base64
import json
import os
import stat

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import accounts, accounts_host
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.asked import WithAccounts

from unit.filled import typed

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
RELEASE = 'ID=debian\nVERSION_ID="12"\n'
SECRET = "$y$j9T$canary$7f3a"  # noqa: S105 - it must not come out
NOW = {
    accounts.PASSWD: "root:x:0:0::/root:/bin/sh\ndebian:x:1000:1000::/home/debian:/bin/sh\n",
    accounts.GROUP: "root:x:0:\nshadow:x:42:\ndebian:x:1000:\n",
    accounts.SHADOW: "root:*:1::::::\ndebian:!:1::::::\n",
}
CAPTURED = {
    accounts.PASSWD: "root:x:0:0::/root:/bin/sh\nwei:x:1000:1000::/home/wei:/bin/sh\n",
    accounts.GROUP: "root:x:0:\nshadow:x:42:\nwei:x:1000:\n",
    accounts.SHADOW: f"root:*:1::::::\nwei:{SECRET}:1::::::\n",
}


@pytest.fixture
def node(tree):
    """Return a node with one account of its own, which has a home."""
    for path, text in NOW.items():
        tree.file(path, text)
    os.chown(tree.root / "etc/shadow", 0, 42)
    (tree.root / "etc/shadow").chmod(0o640)
    tree.file("/etc/os-release", RELEASE).file("/home/debian/.ssh/authorized_keys", "ssh-ed25519 A\n").file("/srv/x")
    tree.file("/proc/self/mountinfo", "22 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\n")
    for path in ("home/debian", "home/debian/.ssh", "home/debian/.ssh/authorized_keys", "srv/x"):
        os.chown(tree.root / path, 1000, 1000)
    return tree.node()


def asked(user="debian", contents=CAPTURED):
    document = {
        "host": "node07",
        "user": user,
        "machine": {"system": {"id": "debian", "version": "12"}},
        "accounts": {"directory": {"names": [{"kind": "user", "id": 5000, "name": "zhang"}]}},
        "contents": {path: base64.b64encode(text.encode()).decode() for path, text in contents.items()},
    }
    return typed(document, WithAccounts)


def restored(node, tmp_path, *, check=False, **more):
    return accounts_host.restore(node, asked(**more), check=check, state=tmp_path / "state")


def test_accounts_and_files_get_their_numbers(node, tmp_path):
    found = restored(node, tmp_path)
    assert found["changed"]
    assert found["reconnect"]
    assert "wei:x:1000:1000:" in node.text("/etc/passwd")
    assert "debian:x:1001:1001:" in node.text("/etc/passwd")
    for path in ("home/debian/.ssh/authorized_keys", "srv/x"):
        assert (node.root / path).stat().st_uid == 1001
    status = (node.root / "etc/shadow").stat()
    assert (stat.S_IMODE(status.st_mode), status.st_gid) == (0o640, 42)
    assert SECRET in node.text("/etc/shadow")
    assert [one["name"] for one in found["missing"]] == ["zhang"]


def test_a_second_run_changes_nothing(node, tmp_path):
    restored(node, tmp_path)
    again = restored(node, tmp_path)
    assert (again["changed"], again["diff"], again["reconnect"]) == (False, [], False)


def test_check_mode_says_the_same_and_changes_nothing(node, tmp_path):
    before = {path: node.text(path) for path in NOW}
    told = restored(node, tmp_path, check=True)
    assert {path: node.text(path) for path in NOW} == before
    assert (node.root / "srv/x").stat().st_uid == 1000
    assert not (tmp_path / "state").exists()
    assert told["changes"] == restored(node, tmp_path)["changes"]


def test_no_secret_comes_out(node, tmp_path):
    found = restored(node, tmp_path)
    assert SECRET not in json.dumps(found)
    assert "wei 1000" in json.dumps(found["diff"])


def test_who_stays_the_same_needs_no_other_connection(node, tmp_path):
    assert not restored(node, tmp_path, user="root")["reconnect"]


@pytest.mark.parametrize("failing", ["_write", "finish"])
def test_a_run_that_was_cut_off_is_ended_by_the_next(node, tmp_path, monkeypatch, failing):
    owner = accounts_host if failing == "_write" else accounts_host.Renumbering

    def cut(*_arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(owner, failing, cut)
        with pytest.raises(KeyboardInterrupt):
            restored(node, tmp_path)
    found = restored(node, tmp_path)
    assert found["changed"]
    assert (node.root / "srv/x").stat().st_uid == 1001
    assert (node.root / "home/debian/.ssh/authorized_keys").stat().st_uid == 1001
    assert not restored(node, tmp_path)["changed"]


def test_only_the_root_disk_and_memory_are_walked(node, tree):
    lines = (
        "22 1 259:2 / / rw - ext4 /dev/a rw",
        "23 22 259:9 / /data rw - ext4 /dev/b rw",
        "24 22 259:2 /var /var rw - ext4 /dev/a rw",
        "25 22 0:9 / /home rw - nfs4 nas:/home rw",
        "26 22 0:8 / /tmp rw - tmpfs tmpfs rw",
        "27 22 0:7 / /sealed ro - tmpfs tmpfs ro",
    )
    tree.file("/proc/self/mountinfo", "\n".join(lines) + "\n")
    assert accounts_host.tops(node) == [str(tree.root / place) for place in ("", "var", "tmp")]


def test_programs_with_a_former_number_are_named_until_the_next_boot(node, tree, tmp_path):
    for number, uid, name in ((5, 0, "init"), (6, 998, "dbus-daemon"), (7, 100_000, "in a container")):
        tree.file(f"/proc/{number}/comm", f"{name}\n")
        os.chown(tree.root / f"proc/{number}", uid, uid)
    names = [one["name"] for one in restored(node, tmp_path)["missing"]]
    assert names == ["zhang", "dbus-daemon"]
    again = restored(node, tmp_path)
    assert (again["changed"], [one["name"] for one in again["missing"]]) == (False, ["zhang", "dbus-daemon"])


def test_accounts_with_processes_are_named_where_their_number_changes(node, tree, tmp_path):
    tree.file("/proc/8/comm", "sleep\n")
    os.chown(tree.root / "proc/8", 1000, 1000)
    found = restored(node, tmp_path)
    assert found["stale"] == ["debian"]
    assert "debian" in [one["name"] for one in found["missing"]]
