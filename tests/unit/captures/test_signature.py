"""Root on a node takes only what the captures' owner has written; who else may write there can at most destroy them."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import captures, signature
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import planned, source

from .captured import FILES, capture

FIRST, SECOND = "20261126T132500Z", "20261127T132500Z"


@pytest.fixture
def place(tmp_path):
    return tmp_path / "captures/node07"


@pytest.fixture
def taken(place, vault):
    return capture(place.parent, vault)


def refused(call, *arguments, **more):
    with pytest.raises(Refusal) as caught:
        call(*arguments, **more)
    return caught.value


def code(place, name=None, **more):
    """Return the refusal's code for who reads a capture; None where it is taken."""
    try:
        captures.named(place, "node07", name, **more).verify()
    except Refusal as refusal:
        return refusal.code
    return None


def forged(path, change):
    """Change what a capture holds, and its sums, as somebody does who may write there."""
    document = json.loads((path / "manifest.json").read_text())
    change(document, path)
    (path / "manifest.json").write_text(json.dumps(document))
    lines = (path / "SHA256SUMS").read_text().splitlines()
    kept = [line for line in lines if not line.endswith("manifest.json")]
    digest = hashlib.sha256((path / "manifest.json").read_bytes()).hexdigest()
    (path / "SHA256SUMS").write_text("".join(f"{line}\n" for line in [f"{digest}  manifest.json", *kept]))


def setuid(document, _path):
    document["files"][0]["mode"] = "4755"


def preload(document, path):
    data = b"/tmp/evil.so\n"
    (path / "files/etc/ld.so.preload").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    document["files"].append({**document["files"][0], "path": "/etc/ld.so.preload", "sha256": digest})


@pytest.mark.parametrize("change", [setuid, preload])
def test_a_forged_capture_with_its_own_sums_is_refused(taken, place, change):
    forged(taken.path, change)
    assert code(place) == "R086"
    assert code(place, unsigned=FIRST) == "R086"  # who means an unsigned one does not mean a forged one


@pytest.mark.parametrize("change", [setuid, preload])
def test_a_forged_capture_without_a_signature_is_refused_unless_somebody_names_it(taken, place, change):
    forged(taken.path, change)
    (taken.path / signature.NAME).unlink()
    refusal = refused(captures.named, place, "node07", None)
    assert refusal.code == "R085"
    assert f"rebuild_unsigned={FIRST}" in refusal.remedy


def test_the_signature_comes_before_anything_else_is_read(taken, place, monkeypatch):
    forged(taken.path, setuid)
    monkeypatch.setattr(captures.manifests, "read", lambda *_arguments: pytest.fail("it was read"))
    assert code(place) == "R086"


def test_a_capture_of_an_earlier_version_is_taken_by_its_name_alone(taken, place, vault):
    (taken.path / signature.NAME).unlink()
    assert code(place) == "R085"
    assert code(place, unsigned=SECOND) == "R085"
    assert code(place, unsigned=FIRST) is None
    assert captures.named(place, "node07", None, FIRST).is_signed is False
    capture(place.parent, vault, made="2026-11-27T13:25:00Z")  # the next one is signed, beside it
    assert code(place) is None
    assert code(place, FIRST) == "R085"


def test_the_work_of_a_rebuild_takes_it_by_its_name_too(taken, place):
    (taken.path / signature.NAME).unlink()
    assert refused(source.chosen, place, "node07", None).code == "R085"
    assert source.chosen(place, "node07", None, FIRST).path == taken.path


# A capture in the place of another one: (what is done with the older one).
def renamed(place):
    shutil.rmtree(place / SECOND)
    (place / FIRST).rename(place / SECOND)


def of_another_host(place):
    other = place.parent / "node08"
    shutil.copytree(place, other, symlinks=True)
    shutil.rmtree(place)
    other.rename(place.with_name("node09"))


def test_an_older_capture_does_not_stand_in_for_a_newer_one(taken, place, vault):
    capture(place.parent, vault, made="2026-11-27T13:25:00Z")
    assert code(place) is None
    renamed(place)
    assert code(place) == "R086"
    assert taken.path.name == FIRST


@pytest.mark.usefixtures("taken")
def test_the_capture_of_a_host_does_not_stand_in_for_anothers(place):
    of_another_host(place)
    assert refused(captures.latest, place.with_name("node09")).code == "R086"


def test_what_is_changed_after_the_look_is_not_taken(taken, vault):
    """Others may change files between the look at all of them and the moment when one goes to a node."""
    taken.verify()
    taken.content("/etc/fstab").write_bytes(b"evil")
    taken.archive.write_bytes(vault.pack({"/etc/shadow": b"evil"}))
    of_capture = source.Source(taken, vault)
    entry = next(one for one in taken.manifest.files if one["path"] == "/etc/fstab")
    assert refused(of_capture.content, entry).code == "R006"
    assert refused(lambda: of_capture.secrets).code == "R006"
    assert refused(planned.captured(taken, {}).data, "/etc/fstab").code == "R006"


def test_another_user_of_the_controller_needs_the_key(taken, place, signing_key, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
    refusal = refused(captures.latest, place)
    assert refusal.code == "R086"
    assert str(signature.place()) in refusal.remedy
    assert not signature.place().exists()  # who only reads makes none
    signature.place().parent.mkdir(parents=True)
    shutil.copy(signing_key, signature.place())
    assert code(place) is None
    signature.place().unlink()
    assert code(place, unsigned=FIRST) is None  # the key is lost
    assert taken.is_signed


def test_a_key_that_others_may_read_is_refused(taken, place, vault, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    capture(place.parent, vault, made="2026-11-27T13:25:00Z")
    for mode in (0o640, 0o604, 0o622):
        signature.place().chmod(mode)
        assert code(place) == "R087"
        assert refused(capture, place.parent, vault, made="2026-11-28T13:25:00Z").code == "R087"
    signature.place().chmod(0o600)
    signature.place().write_text("short\n")
    assert code(place) == "R087"
    signature.place().unlink()
    signature.place().symlink_to("/etc/hostname")
    assert code(place) == "R087"
    assert taken.is_signed


def test_the_key_is_random_and_its_owners_alone(monkeypatch, tmp_path, narrow_umask):  # noqa: ARG001
    os.umask(0)
    keys = set()
    for name in ("a", "b"):
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / name))
        signature.signed(b"", "node07", FIRST)
        keys.add(signature.place().read_bytes())
        assert signature.place().stat().st_mode & 0o777 == 0o600
        assert signature.place().parent.stat().st_mode & 0o777 == 0o700
        assert [path.name for path in signature.place().parent.iterdir()] == ["capture.key"]
    assert len(keys) == 2


def _sign(directory, said):
    os.environ["XDG_CONFIG_HOME"] = directory
    said.put(signature.signed(b"sums", "node07", FIRST))


def test_hosts_that_are_captured_at_the_same_time_have_one_key(tmp_path):
    context = multiprocessing.get_context("fork")
    said = context.SimpleQueue()
    runs = [context.Process(target=_sign, args=(str(tmp_path), said)) for _ in range(8)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert len({said.get() for _ in runs}) == 1


def test_where_others_may_write_is_told(tmp_path):
    directory = tmp_path / "captures"
    directory.mkdir(mode=0o700)
    tmp_path.chmod(0o700)
    assert signature.others_may_write(directory) is False
    directory.chmod(0o770)
    assert signature.others_may_write(directory) is True
    assert signature.others_may_write(tmp_path / "not there yet") is False


def test_a_capture_has_its_signature_beside_its_sums(taken):
    assert (taken.path / signature.NAME).stat().st_mode & 0o777 == 0o600
    assert len((taken.path / signature.NAME).read_text()) == 65
    taken.verify()
    assert set(FILES) <= {one["path"] for one in taken.manifest.files}
