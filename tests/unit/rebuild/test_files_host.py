"""Captured files come back below a directory, whole, with their rights, and only once."""

import base64
import hashlib
import json
import os
import stat

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import files_host, record
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.asked import Asked, Part

from unit.filled import typed

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
ODD = os.fsdecode(b"/etc/\xff\xfe\nname")
CONTENTS = {
    "/etc/motd": b"welcome\n",
    "/etc/secret": b"canary-7f3a\n",
    "/srv/a": b"one file",
    "/srv/b": b"one file",
    "/srv/hole": b"\0" * (1 << 17) + b"end",
    "/home/wei/.bashrc": b"alias ll=ls\n",
    ODD: b"odd\n",
}
NOBODY = "ffffffff"
ACL = base64.b64encode(
    bytes.fromhex(f"02000000 01000600{NOBODY} 0200040005000000 04000400{NOBODY} 10000400{NOBODY} 20000000{NOBODY}")
).decode()


class Done:
    """A command that ended."""

    def __init__(self, answer):
        """Keep the answer."""
        self.answer = answer

    def result(self):
        """Return it; an exception is raised."""
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def output(self):
        """Return what was printed."""
        return self.answer[1] if self.answer else None


@pytest.fixture
def node(tree):
    """Return a node with Debian and a user; ran notes commands, answers are theirs."""
    tree.file("/etc/os-release", 'ID=debian\nVERSION_ID="12"\n').file(
        "/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 a rw\n"
    )
    tree.file("/etc/passwd", "root:x:0:0::/root:/bin/sh\nwei:x:1500:1500::/home/wei:/bin/bash\n")
    tree.file("/etc/group", "root:x:0:\nwei:x:1500:\n").directory("/home/wei").directory("/srv")
    found = tree.node()
    found.ran, found.answers = [], {}

    def start(argv):
        found.ran.append(argv[0])
        return Done(found.answers.get(argv[0]))

    found.start = start
    return found


def entries():
    found = []
    for path, data in CONTENTS.items():
        entry = {"path": path, "kind": "file", "mode": "0640", "owner": "root", "uid": 0, "group": "root", "gid": 0}
        entry.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
        if path.startswith("/home"):
            entry.update(owner="wei", uid=1000, group="wei", gid=1000)
        if path in ("/srv/a", "/srv/b"):
            entry.update(links=2, identity="801:77", mode="4750")
        if path == "/srv/hole":
            entry.update(sparse=True, acl=ACL)
        found.append(entry)
    common = {"owner": "root", "uid": 0, "group": "root", "gid": 0, "size": 0}
    found.append({"path": "/etc/empty", "kind": "directory", "mode": "1770", **common})
    found.append({"path": "/etc/link", "kind": "link", "mode": "0777", "target": "/no/where", **common})
    return found


def asked(listed=None, user="root"):
    machine = {"system": {"id": "debian", "version": "12"}}
    document = {"host": "node07", "user": user, "machine": machine}
    return typed({**document, "entries": entries() if listed is None else listed}, Asked)


def part(data, *, path="/etc/motd", start=0, last=True, digest=None):
    return Part(digest or hashlib.sha256(data).hexdigest(), path, start, base64.b64encode(data).decode(), last)


@pytest.fixture
def restored(node, tmp_path):
    """Return a function that brings files back as the action plugin does."""
    state = tmp_path / "state"

    def restored(listed=None, *, check=False, user="root"):
        found = files_host.restore(node, asked(listed, user), check=check, state=state)
        if found["wanted"] and not check:
            by_digest = {hashlib.sha256(data).hexdigest(): data for data in CONTENTS.values()}
            files_host.stage("x", [part(by_digest[one]) for one in found["wanted"]], state)
            found = files_host.restore(node, asked(listed, user), check=False, state=state)
        return found

    restored.state = state
    return restored


def test_files_come_back_as_they_were(node, restored):
    found = restored()
    assert (found["changed"], found["missing"], found["wanted"]) == (True, [], [])
    for path, data in CONTENTS.items():
        assert node.data(path) == data
    status = node.path("/home/wei/.bashrc").stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (1500, 0o640)
    assert node.path("/srv/a").stat().st_ino == node.path("/srv/b").stat().st_ino
    assert stat.S_IMODE(node.path("/srv/a").stat().st_mode) == 0o4750
    hole = node.path("/srv/hole")
    assert hole.stat().st_blocks * 512 < hole.stat().st_size
    assert os.getxattr(hole, "system.posix_acl_access") == base64.b64decode(ACL)
    assert node.link("/etc/link") == "/no/where"
    assert stat.S_IMODE(node.path("/etc/empty").stat().st_mode) == 0o1770
    assert not (restored.state / "content").exists()
    assert [name for name in node.names("/etc") if name.startswith(".gpulab")] == []


def test_a_second_run_changes_nothing_and_leaves_what_people_did(node, restored):
    restored()
    node.path("/etc/motd").write_text("by hand\n")
    node.path("/srv/hole").unlink()
    again = restored()
    assert (again["changed"], again["missing"], again["diff"]) == (False, [], [])
    assert node.text("/etc/motd") == "by hand"


def test_check_mode_tells_the_same_and_changes_nothing(node, restored):
    told = restored(check=True)
    assert node.data("/etc/motd") is None
    assert not restored.state.exists()
    found = restored()
    assert (told["changes"], told["diff"]) == (found["changes"], found["diff"])


def test_no_content_is_shown(restored):
    assert "canary" not in json.dumps(restored())


def test_what_somebody_wrote_meanwhile_stays_and_is_named(node, restored):
    node.path("/home/wei/.bashrc").write_text("mine\n")
    found = restored()
    assert [one["name"] for one in found["missing"]] == ["/home/wei/.bashrc"]
    assert node.text("/home/wei/.bashrc") == "mine"
    assert not restored()["changed"]


def test_a_copy_of_the_skeleton_gives_way(node, tree, restored):
    tree.file("/etc/skel/.bashrc", "stock\n").file("/home/wei/.bashrc", "stock\n")
    assert restored()["missing"] == []
    assert node.data("/home/wei/.bashrc") == CONTENTS["/home/wei/.bashrc"]


def test_a_link_of_somebody_leads_nothing_elsewhere(node, tree, restored, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    node.path("/srv").rmdir()
    tree.link("/srv", outside)
    found = restored()
    assert {one["name"] for one in found["missing"]} == {"/srv/a", "/srv/b", "/srv/hole"}
    assert list(outside.iterdir()) == []


def test_what_a_kept_disk_covers_stays(tree, restored):
    tree.file("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 a rw\n23 22 8:17 / /srv rw - ext4 b rw\n")
    assert {one["name"] for one in restored()["missing"]} == {"/srv/a", "/srv/b", "/srv/hole"}


def test_another_release_keeps_its_own_beside(node, tree, restored):
    tree.file("/etc/os-release", 'ID=debian\nVERSION_ID="13"\n').file("/etc/motd", "new\n")
    tree.file("/var/lib/dpkg/info/base-files.list", "/.\n/etc\n/etc/motd\n")
    digest = hashlib.md5(b"new\n").hexdigest()  # noqa: S324 - as dpkg has it
    tree.file("/var/lib/dpkg/status", f"Package: base-files\nConffiles:\n /etc/motd {digest}\n")
    found = restored()
    assert node.data("/etc/motd") == CONTENTS["/etc/motd"]
    assert node.text("/etc/motd.dpkg-dist") == "new"
    assert [one["name"] for one in found["missing"]] == ["/etc/motd"]


def test_contents_arrive_in_parts_and_damage_is_refused(tmp_path):
    state, data = tmp_path / "state", b"0123456789"
    digest = hashlib.sha256(data).hexdigest()
    parts = [part(data[:4], last=False, digest=digest), part(data[4:], start=4, digest=digest)]
    files_host.stage("x", parts[:1], state)
    assert not (state / "content" / digest).exists()
    files_host.stage("x", parts[1:], state)
    assert (state / "content" / digest).read_bytes() == data
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    with pytest.raises(Refusal, match="R042"):
        files_host.stage("x", [part(b"other", digest="0" * 64)], state)


def listed(path, **more):
    data = CONTENTS["/etc/motd"]
    entry = {"path": path, "kind": "file", "mode": "0440", "owner": "root", "uid": 0, "group": "root", "gid": 0}
    return [{**entry, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(), **more}]


def test_faulty_sudoers_do_not_count(node, restored):
    node.answers["visudo"] = (1, "", "syntax error")
    assert [one["why"] for one in restored(listed("/etc/sudoers"))["missing"]] == ["visudo finds it faulty"]
    assert node.data("/etc/sudoers") is None


def test_a_file_of_pam_without_its_module_stays_away(node, tree, restored):
    captured = listed("/etc/pam.d/sshd", modules=["pam_slurm_adopt.so"])
    assert "pam_slurm_adopt.so" in restored(captured)["missing"][0]["why"]
    assert node.data("/etc/pam.d/sshd") is None
    tree.file("/usr/lib/x86_64-linux-gnu/security/pam_slurm_adopt.so")
    assert restored(captured)["missing"] == []
    assert node.data("/etc/pam.d/sshd") == CONTENTS["/etc/motd"]


def test_what_has_to_run_afterwards_runs_even_after_a_cut(node, restored):
    captured = listed("/etc/sysctl.d/90-lab.conf")
    node.answers["sysctl"] = TimeoutError()
    with pytest.raises(TimeoutError):
        restored(captured)
    node.answers["sysctl"] = (0, "", "")
    assert node.data("/etc/sysctl.d/90-lab.conf")
    assert record.read(restored.state / record.PLACE.name)["pending"]
    assert restored(captured)["changes"] == [{"action": "run", "what": "sysctl --quiet --system"}]
    assert "sysctl" in node.ran
    assert not restored(captured)["changed"]


def test_a_choice_of_alternatives_is_made_where_it_is_offered(node, tree, restored):
    captured = [{**listed("/etc/alternatives/editor")[0], "kind": "link", "target": "/usr/bin/vim", "mode": "0777"}]
    node.answers["update-alternatives"] = (0, "", "")
    assert "offers" in restored(captured)["missing"][0]["why"]
    tree.file("/var/lib/dpkg/alternatives/editor").file("/usr/bin/vim")
    assert restored(captured)["missing"] == []
    assert "update-alternatives" in node.ran


def test_a_choice_of_alternatives_is_known_where_a_later_release_has_it_below_usr(node, tree, restored):
    """Its update-alternatives knows /bin/vim by no such name, whatever links lead there."""
    captured = [{**listed("/etc/alternatives/editor")[0], "kind": "link", "target": "/bin/vim", "mode": "0777"}]
    tree.file("/var/lib/dpkg/alternatives/editor", "manual\n/usr/bin/editor\n\n/usr/bin/vim\n50\n").file("/bin/vim")
    tree.link("/etc/alternatives/editor", "/usr/bin/vim")
    assert not restored(captured)["changed"]
    assert "update-alternatives" not in node.ran


MAY = "User wei may run the following commands on node07:\n    (ALL) ALL\n"


@pytest.mark.parametrize(("answer", "goes"), [(MAY, True), ("", False)])
def test_what_let_ansible_use_sudo_goes_if_sudo_works_without_it(node, tree, restored, answer, goes):
    node.answers["sudo"] = (0, answer, "")
    tree.file("/etc/sudoers.d/gpulab-reinstall", "wei ALL=(ALL) NOPASSWD: ALL\n")
    found = restored([], user="wei")
    assert node.exists("/etc/sudoers.d/gpulab-reinstall") is not goes
    assert [one["name"] for one in found["missing"]] == ([] if goes else ["/etc/sudoers.d/gpulab-reinstall"])
    again = restored([], user="wei")
    assert (again["changed"], again["missing"]) == (False, found["missing"])


def test_sudoers_that_shut_ansible_out_do_not_count(node, tree, restored):
    tree.file("/etc/sudoers", "before\n")
    node.answers["visudo"] = (0, "", "")

    plain = node.start

    def start(argv):
        if argv[0] == "sudo":
            return Done((0, MAY if node.text("/etc/sudoers") == "before" else "not allowed", ""))
        return plain(argv)

    node.start = start
    found = restored(listed("/etc/sudoers"), user="wei")
    assert [one["why"] for one in found["missing"]] == ["wei could not use sudo any more"]
    assert node.text("/etc/sudoers") == "before"


def of_wei(path, data, mode="0644"):
    digest = hashlib.sha256(data).hexdigest()
    names = {"owner": "wei", "uid": 1500, "group": "wei", "gid": 1500}
    return {"path": path, "kind": "file", "mode": mode, "size": len(data), "sha256": digest, **names}


@pytest.fixture
def of_roots(node):
    """Return a file of root's with a second name in the home of wei; fs.protected_hardlinks may be off."""
    os.chown(node.path("/home/wei"), 1500, 1500)
    place = node.path("/etc/private")
    place.write_bytes(CONTENTS["/etc/motd"])
    place.chmod(0o600)

    def second(name):
        node.path(name).parent.mkdir(exist_ok=True)
        node.path(name).hardlink_to(place)
        return place

    return second


def test_a_second_name_of_roots_file_gives_nobody_that_file(node, restored, of_roots):
    place = of_roots("/home/wei/x")
    assert restored([of_wei("/home/wei/x", CONTENTS["/etc/motd"], "4777")])["missing"] == []
    assert (place.stat().st_uid, stat.S_IMODE(place.stat().st_mode), place.stat().st_nlink) == (0, 0o600, 1)
    own = node.path("/home/wei/x").stat()
    assert (own.st_uid, stat.S_IMODE(own.st_mode)) == (1500, 0o4777)


def test_what_only_root_may_read_does_not_come_among_the_keys_of_others(restored, of_roots):
    path = "/home/wei/.ssh/authorized_keys"
    place = of_roots(path)
    place.write_text("a secret of root's\n")
    found = restored([of_wei(path, CONTENTS["/etc/motd"], "0600")])
    assert [(one["name"], "somebody else's" in one["why"]) for one in found["missing"]] == [(path, True)]
    assert (place.read_text(), place.stat().st_uid) == ("a secret of root's\n", 0)


@pytest.mark.parametrize("path", ["/home/wei/tool", "/srv/tool"])
def test_a_file_that_its_owner_has_open_is_not_given_away_with_its_content(node, restored, path):
    os.chown(node.path("/home/wei"), 1500, 1500)
    place = node.path(path)
    place.write_bytes(CONTENTS["/etc/motd"])
    os.chown(place, 1500, 1500)
    with place.open("r+b") as kept:
        assert restored(listed(path, mode="4755"))["missing"] == []
        kept.write(b"another program")
        kept.flush()
    assert place.read_bytes() == CONTENTS["/etc/motd"]
    assert (place.stat().st_uid, stat.S_IMODE(place.stat().st_mode)) == (0, 0o4755)


WANTED = CONTENTS["/etc/motd"].decode()


@pytest.mark.parametrize(
    "case",
    [
        (None, "theirs", "another file"),
        ("stock\n", "theirs", "another file"),
        (WANTED, "theirs", "another file"),
        (WANTED, WANTED, "another file"),
        (WANTED, "theirs", "content"),
    ],
)
def test_what_changes_meanwhile_stays_and_is_named(node, tree, restored, case):
    before, after, new = case
    path, real = "/home/wei/.bashrc", files_host.tree.put
    os.chown(node.path("/home/wei"), 1500, 1500)
    if before:
        tree.file("/etc/skel/.bashrc", before).file(path, before)

    def put(*arguments):
        if new == "another file":
            node.path("/home/wei/.new").write_text(after)
            node.path("/home/wei/.new").replace(node.path(path))
        else:
            node.path(path).write_text(after)
        return real(*arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files_host.tree, "put", put)
        found = restored([of_wei(path, CONTENTS["/etc/motd"])])
    assert found["missing"] == [{"section": "files", "name": path, "why": "it changed while it was restored"}]
    assert node.data(path) == after.encode()


def test_two_captured_names_of_one_file_are_one_file_again_in_a_home(node, restored):
    os.chown(node.path("/home/wei"), 1500, 1500)
    wanted = [{**of_wei(f"/home/wei/{name}", CONTENTS["/etc/motd"]), "links": 2, "identity": "8:1"} for name in "ab"]
    node.path("/home/wei/a").write_bytes(CONTENTS["/etc/motd"])  # by another owner, so it is replaced
    node.path("/home/wei/b").hardlink_to(node.path("/home/wei/a"))
    assert restored(wanted)["missing"] == []
    one, other = (node.path(f"/home/wei/{name}").stat() for name in "ab")
    assert (one.st_ino, one.st_uid) == (other.st_ino, 1500)


def test_only_what_was_put_becomes_one_file(node, tree):
    tree.file("/home/wei/a", "a").file("/home/wei/b", "b")
    inodes = {f"/home/wei/{name}": now.inode for name in "ab" for now in [found(node, f"/home/wei/{name}")]}
    for path in inodes:
        with pytest.raises(OSError, match="changed"):
            files_host.tree.join(node, "/home/wei/a", "/home/wei/b", {**inodes, path: (1, 2)})
    assert (node.text("/home/wei/a"), node.text("/home/wei/b")) == ("a", "b")


def found(node, path):
    return files_host.tree.now(node, of_wei(path, b""))


def test_an_immutable_file_of_roots_with_a_second_name_in_a_home_stays_so(restored, of_roots, tree, monkeypatch):
    asked_of = []
    monkeypatch.setattr(files_host.tree, "_flags", lambda descriptor, _change: asked_of.append(os.fstat(descriptor)))
    tree.file("/etc/skel/x", CONTENTS["/srv/a"])
    place = of_roots("/home/wei/x")
    place.write_bytes(CONTENTS["/srv/a"])
    assert restored([of_wei("/home/wei/x", CONTENTS["/etc/motd"])])["missing"] == []
    assert asked_of == []
    assert place.read_bytes() == CONTENTS["/srv/a"]
