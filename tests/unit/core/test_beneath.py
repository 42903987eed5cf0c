"""A path is walked part by part; only links that root alone could have put there are followed."""

import errno
import os
import stat
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import beneath

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
WEI = 1500


@pytest.fixture
def root(tmp_path):
    """Return a root directory with /data/home/wei, who may write to it, and /etc."""
    for name in ("data/home/wei/own", "etc", "temporary"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "temporary").chmod(0o1777)
    (tmp_path / "etc/shadow").write_text("root's\n")
    for name in ("data/home/wei", "data/home/wei/own"):
        os.chown(tmp_path / name, WEI, WEI)
    return tmp_path


def roots(root, path):
    with beneath.at(root, path) as place:
        return place.roots


def test_whose_a_name_is_follows_from_all_directories_above(root):
    assert roots(root, "/etc/x")
    assert roots(root, "/data/home/wei")
    assert not roots(root, "/data/home/wei/x")
    assert not roots(root, "/data/home/wei/own/x")
    (root / "data/home/wei/roots").mkdir()  # which wei may rename
    assert not roots(root, "/data/home/wei/roots/x")
    (root / "data").chmod(0o775)
    assert not roots(root, "/data/home")


def test_in_a_sticky_directory_only_roots_own_directory_stays(root):
    (root / "temporary/roots").mkdir(mode=0o755)
    (root / "temporary/wei").mkdir()
    os.chown(root / "temporary/wei", WEI, WEI)
    assert not roots(root, "/temporary/x")
    assert roots(root, "/temporary/roots/x")
    assert not roots(root, "/temporary/wei/x")
    os.chown(root / "temporary", WEI, WEI)  # its owner renames what lies in it
    assert not roots(root, "/temporary/roots/x")


@pytest.mark.parametrize("target", ["data/home", "/data/home", "../{}/data/home"])
def test_a_link_of_roots_is_followed_and_stays_below_the_root_directory(root, target):
    (root / "home").symlink_to(target.format(root.name))
    with beneath.at(root, "/home/wei") as place:
        assert os.fstat(place.directory).st_ino == (root / "data/home").stat().st_ino
        assert place.roots


@pytest.mark.parametrize("owner", [0, WEI])
@pytest.mark.parametrize("where", ["wei/link", "wei/own/link", "wei/roots/link", "../../temporary/link"])
def test_a_link_where_others_may_change_names_is_not_followed(root, where, owner):
    (root / "data/home/wei/roots").mkdir()  # which wei may rename
    where = f"data/home/{where}"
    (root / where).symlink_to(root / "etc")
    os.lchown(root / where, owner, owner)
    with pytest.raises(OSError, match="a link is on the way"), beneath.at(root, f"/{where}/shadow"):
        pass


def test_a_link_of_another_owner_and_one_that_leads_to_itself_are_not_followed(root):
    (root / "theirs").symlink_to("etc")
    os.lchown(root / "theirs", WEI, WEI)
    (root / "loop").symlink_to("loop")
    (root / "home").symlink_to("data/home")
    for path, follow in (("/theirs/shadow", True), ("/loop/shadow", True), ("/home/wei", False)):
        with pytest.raises(OSError, match="a link is on the way"), beneath.at(root, path, follow=follow):
            pass


def test_what_is_at_the_last_name_is_never_followed(root):
    (root / "etc/link").symlink_to("shadow")
    os.mkfifo(root / "etc/fifo")
    for name in ("link", "fifo"):
        with beneath.at(root, f"/etc/{name}") as place:
            with pytest.raises(OSError, match="not a regular file"):
                place.read()
            place.write(b"new\n", 0o600)
            assert place.read() == b"new\n"
    assert (root / "etc/shadow").read_text() == "root's\n"


def test_missing_directories_are_open_to_everybody_whatever_the_umask(root):
    umask = os.umask(0o077)
    try:
        with beneath.at(root, "/srv/a/b/file", make=True) as place:
            place.write(b"", 0o640)
    finally:
        assert os.umask(umask) == 0o077
    assert [stat.S_IMODE((root / one).stat().st_mode) for one in ("srv", "srv/a", "srv/a/b")] == [0o755] * 3
    assert stat.S_IMODE((root / "srv/a/b/file").stat().st_mode) == 0o640


def test_another_one_than_was_looked_at_is_not_held(root):
    with beneath.at(root, "/etc/shadow") as place, pytest.raises(beneath.ChangedError), place.held((1, 2)):
        pass
    with beneath.at(root, "/etc/gone") as place, pytest.raises(beneath.ChangedError), place.held((1, 2)):
        pass


def test_a_draft_that_somebody_replaced_is_not_put_and_not_removed(root):
    own = root / "data/home/wei/own"
    with beneath.at(root, "/data/home/wei/own/file") as place, place.draft() as draft:
        (name,) = (one for one in own.iterdir() if one.name.startswith(beneath.DRAFT))
        name.unlink()
        name.write_text("of wei's")
        with pytest.raises(beneath.ChangedError):
            draft.put()
    assert name.read_text() == "of wei's"
    assert not (own / "file").exists()


def test_a_draft_that_was_not_put_goes(root):
    with beneath.at(root, "/etc/x") as place, place.draft() as draft:
        draft.write(b"half")
    assert sorted(one.name for one in (root / "etc").iterdir()) == ["shadow"]


def test_a_directory_of_somebody_else_is_given_away_only_by_a_name_of_roots(root):
    private = root / "data/home/wei/own/private"
    private.mkdir(0o700)
    (private / "secret").touch()
    with beneath.at(root, "/data/home/wei/own/private") as place, place.held() as held:
        with pytest.raises(PermissionError):
            place.give(held, (WEI, WEI))
        (private / "secret").unlink()
        place.give(held, (WEI, WEI))
    assert private.stat().st_uid == WEI
    (root / "etc/full").mkdir()
    (root / "etc/full/x").touch()
    with beneath.at(root, "/etc/full") as place, place.held() as held:
        place.give(held, (WEI, WEI))
    assert (root / "etc/full").stat().st_uid == WEI


def test_a_tree_is_removed_and_a_link_in_its_place_is_not_followed(root):
    (root / "temporary/tree/deep").mkdir(parents=True)
    (root / "temporary/tree/deep/link").symlink_to(root / "etc")
    (root / "temporary/link").symlink_to(root / "etc")
    with beneath.at(root, "/temporary/tree") as place:
        place.remove_tree()
        with pytest.raises(OSError, match="symbolic link"):
            place.beside("link").remove_tree()
    assert not (root / "temporary/tree").exists()
    assert (root / "etc/shadow").exists()


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("etc", None),
        ("etc/not/yet", None),
        ("data/home/wei", "data/home/wei"),
        ("data/home/wei/own/venvs", "data/home/wei"),
        ("temporary", "temporary"),
        ("temporary/not yet", "temporary"),
        ("temporary/roots", None),
        ("link/venvs", "data/home"),
        ("temporary/link/venvs", "temporary"),
    ],
)
def test_the_directory_is_named_in_which_others_may_change_names(root, monkeypatch, path, found):
    (root / "temporary/roots").mkdir()
    (root / "link").symlink_to("data/home")
    (root / "temporary/link").symlink_to("/etc")
    (root / "data/home").chmod(0o775 if path.startswith("link") else 0o755)
    monkeypatch.setattr(beneath, "ROOT", root)
    named = beneath.lent(Path("/") / path)
    assert named == (
        found and Path("/") / found.replace("data/home", "link" if path.startswith("link") else "data/home")
    )


def test_a_mount_in_a_directory_of_others_is_not_written_into(root, monkeypatch):
    def busy(*_names, **_directories):
        raise OSError(errno.EBUSY, "busy")

    monkeypatch.setattr(os, "replace", busy)
    (root / "etc/hosts").touch()
    (root / "data/home/wei/hosts").touch()
    with beneath.at(root, "/etc/hosts") as place:
        place.write(b"new", 0o644)
    with beneath.at(root, "/data/home/wei/hosts") as place, pytest.raises(OSError, match="busy"):
        place.write(b"new", 0o644)
    assert ((root / "etc/hosts").read_bytes(), (root / "data/home/wei/hosts").read_bytes()) == (b"new", b"")


def test_what_was_put_and_is_another_one_then_is_not_said_to_be_there(root, monkeypatch):
    real, place = os.replace, root / "data/home/wei/file"

    def replace(*names, **directories):
        real(*names, **directories)
        place.unlink()
        place.write_text("of wei's")

    monkeypatch.setattr(os, "replace", replace)
    with beneath.at(root, "/data/home/wei/file") as put, pytest.raises(beneath.ChangedError):
        put.write(b"new", 0o644)


def test_a_link_that_somebody_made_another_one_is_not_put(root, monkeypatch):
    real = os.symlink

    def symlink(_target, name, *, dir_fd):
        real("/etc/shadow", name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "symlink", symlink)
    with (
        beneath.at(root, "/data/home/wei/link") as place,
        pytest.raises(beneath.ChangedError),
        place.draft(target="/etc/hosts"),
    ):
        pass
