"""What happens to a captured path, by what is there now."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import files
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.tree import Now

OURS, THEIRS = "a" * 64, "b" * 64


class Ids:
    """Owners keep their numbers."""

    def of(self, entry):
        """Return them."""
        return entry["uid"], entry["gid"]


def entry(path="/etc/motd", kind="file", **more):
    found = {
        "path": path,
        "kind": kind,
        "mode": "0644",
        "uid": 0,
        "gid": 0,
        "owner": "root",
        "group": "root",
        "size": 1,
    }
    if kind == "file":
        found["sha256"] = OURS
    if kind == "link":
        found["target"] = "/x"
    return {**found, **more}


def now(kind="file", sha256=THEIRS, **more):
    return Now(kind, sha256 if kind == "file" else "", mode="0644", **more)


def node(**more):
    return files.Node(**{"same_release": True, "of_people": lambda path: path.startswith("/home/"), **more})


def step(captured, found, origin="", **more):
    made = files.plan([captured], lambda _entry: found, lambda _path: origin, node(**more), Ids())
    (only,) = made.steps
    return only


@pytest.mark.parametrize(
    ("captured", "found", "origin", "kind"),
    [
        (entry(), Now(), "", files.PUT),
        (entry(), now(sha256=OURS), "", files.SAME),
        (entry(mode="0600"), now(sha256=OURS), "", files.RIGHTS),
        (entry(uid=7), now(sha256=OURS), "", files.RIGHTS),
        (entry(acl="QQ=="), now(sha256=OURS), "", files.RIGHTS),
        (entry(), now(), files.PACKAGE, files.PUT),
        (entry(), now(), "", files.PUT),  # what the installer wrote
        (entry(kind="directory"), Now(), "", files.PUT),
        (entry(kind="directory"), now("directory"), "", files.SAME),
        (entry(kind="directory", mode="0700"), now("directory"), "", files.RIGHTS),
        (entry(kind="directory"), now(), "", files.LEAVE),
        (entry(), now("directory"), "", files.LEAVE),
        (entry(kind="link"), Now("link", target="/x", mode="0777"), "", files.SAME),
        (entry(kind="link"), Now("link", target="/y", mode="0777"), "", files.PUT),
        (entry("/home/wei/.bashrc"), now(), "", files.LEAVE),
        (entry("/home/wei/.bashrc"), now(), files.SKELETON, files.PUT),
        (entry("/home/wei/.bashrc"), Now(), "", files.PUT),
        (entry("/home/wei/.ssh/authorized_keys"), now(), "", files.MERGE),
        (entry("/root/.ssh/authorized_keys"), now(), "", files.MERGE),
        (entry("/etc/alternatives/editor", "link"), Now("link", target="/y"), "", files.CHOOSE),
    ],
)
def test_a_path_comes_back_or_stays(captured, found, origin, kind):
    assert step(captured, found, origin).kind == kind


@pytest.mark.parametrize(
    ("captured", "context", "why"),
    [
        (entry(), {"covered": lambda _path: True}, "another file system"),
        (entry(), {"real": lambda _path: False}, "directory is a link"),
        (entry(names=["ABCD-1234"]), {}, "former system disk"),
        (entry(why="by hand"), {}, "by hand"),
        (entry("/usr/bin/tool", package="tool"), {"version": lambda _name: None}, "not installed"),
    ],
)
def test_what_stands_in_the_way_of_a_path_that_is_not_there(captured, context, why):
    found = step(captured, Now(), **context)
    assert found.kind == files.LEAVE
    assert why in found.why


def test_a_disk_that_is_still_there_may_be_named():
    assert step(entry(names=["abcd-1234"]), Now(), there={"abcd-1234"}).kind == files.PUT


@pytest.mark.parametrize(("version", "kind"), [("1", files.PUT), ("2", files.LEAVE)])
def test_a_changed_program_comes_back_only_to_the_same_version(version, kind):
    captured = entry("/usr/bin/tool", package="tool", version="1")
    assert step(captured, now(), files.PACKAGE, version=lambda _name: version).kind == kind
    conffile = entry("/etc/tool.conf", package="tool", version="1")
    assert step(conffile, now(), files.PACKAGE, version=lambda _name: version).kind == files.PUT


@pytest.mark.parametrize(
    ("same", "origin", "beside"),
    [(True, files.PACKAGE, False), (False, files.PACKAGE, True), (False, "", False)],
)
def test_what_another_release_brought_is_kept_beside(same, origin, beside):
    assert step(entry(), now(), origin, same_release=same).beside is beside


def test_what_came_back_before_is_left_to_people():
    for found in (now(), Now(), now("directory")):
        assert step(entry(), found, restored={"/etc/motd"}).kind == files.DONE


def test_names_of_one_file_become_one_file_again():
    captured = [entry("/srv/a", identity="1:2"), entry("/srv/b", identity="1:2"), entry("/srv/c", identity="1:3")]
    there = {"/srv/a": Now(), "/srv/b": Now(), "/srv/c": Now()}

    def links():
        made = files.plan(captured, lambda one: there[one["path"]], lambda _path: "", node(), Ids())
        return made.links

    assert links() == {"/srv/b": "/srv/a"}
    there.update({"/srv/a": now(sha256=OURS, inode=(1, 5)), "/srv/b": now(sha256=OURS, inode=(1, 6))})
    assert links() == {"/srv/b": "/srv/a"}
    there["/srv/b"] = now(sha256=OURS, inode=(1, 5))
    assert links() == {}


def test_keys_of_both_are_kept_once():
    assert files.merged_keys(b"a\nb\n", b"b\n\nc") == b"a\nb\nc\n"


def test_modules_of_pam_are_those_that_a_file_names():
    text = "auth [success=1 default=ignore] pam_unix.so nullok\n# auth x pam_no.so\n-session optional pam_x.so\n"
    assert files.modules_of_pam(text + "account required pam_slurm_adopt.so\n@include common-auth\n") == {
        "pam_unix.so",
        "pam_slurm_adopt.so",
    }


def test_programs_run_once_after_what_they_read():
    found = files.commands(["/etc/modprobe.d/a.conf", "/etc/modprobe.d/b.conf", "/etc/sysctl.d/x.conf", "/etc/motd"])
    assert [programs[0][0] for programs in found] == ["sysctl", "update-initramfs"]
