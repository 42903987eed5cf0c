"""The store as roots, people and nights see it: what comes, from where, what is refused before it, what goes."""

import errno
import hashlib
import json
import mmap
import os
import time
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import download, locks
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.facts.model_store import ModelStoreQuery
from ansible_collections.gpulab.node.plugins.module_utils.models import fill, night, record, store, wanted
from ansible_collections.gpulab.node.plugins.modules import model_store
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle import fetching, models
from stubs import model_hub

REVISION, SECOND = "a" * 40, "b" * 40
FILES = {"config.json": b"{}", "model.safetensors": b"weights " * 500, "sub/tokenizer.json": b'{"a": 1}'}
TOKEN = "hf_nobodyMaySeeThis1234567890"  # noqa: S105
ALL = {"directory": "", "repositories": [], "absent": [], "folder": None, "hub": None, "token": None, "mounts": []}
ALL |= {"state": "present", "operation": "look", "locks": {}, "coming": [], "bundle": None}
WISH = {"name": "acme/tiny", "revision": REVISION, "files": [], "group": None, "allow_code": False}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """Return a node with a place for a stick, and for a store that is still to be made."""
    monkeypatch.setattr(record, "RECORD", tmp_path / "record.json")
    monkeypatch.setattr(locks, "DIRECTORY", tmp_path / "locks")
    monkeypatch.setattr(locks.place, "__defaults__", (tmp_path / "locks",))
    monkeypatch.setattr(download, "PAUSE", 0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "srv").mkdir(mode=0o755)
    return SimpleNamespace(top=tmp_path, stick=tmp_path / "stick", place=tmp_path / "srv/models")


def put(top, files=None, revision=REVISION, name="models--acme--tiny"):
    for path, data in (FILES if files is None else files).items():
        place = top / name / revision / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def call(lab, *wishes, **more):
    given = {**ALL, "directory": str(lab.place), "folder": str(lab.stick), "repositories": [*wishes], **more}
    return model_store.operate(SimpleNamespace(params=given, check_mode=more.get("check_mode", False)))


def run(lab, *wishes, **more):
    """Do what the action plugin does; return what the look said."""
    seen = call(lab, *wishes, **more)
    while seen["changed"] and not more.get("check_mode"):
        if call(lab, *wishes, **more, operation="take", coming=json.loads(json.dumps(seen["coming"])))["line"] is None:
            break
    return seen


def refused(lab, *wishes, **more):
    with pytest.raises(Refusal) as refusal:
        run(lab, *wishes, **more)
    return f"{refusal.value}"


def held(lab, revision=REVISION, folder="models--acme--tiny"):
    top = lab.place / "hub" / folder / "snapshots" / revision
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def of(lab):
    return store.Store(lab.place, record.read().blobs)


def test_what_is_on_a_stick_is_there_as_the_cache_of_huggingface_hub(lab):
    put(lab.stick, {**FILES, ".cache/huggingface/x": b"of hf download"})
    assert run(lab, WISH)["changes"] == [
        {"action": "make", "what": "acme/tiny@aaaaaaaa (3 of 3 files to fetch, 0.0 MB)"}
    ]
    assert held(lab) == FILES
    repository = lab.place / "hub/models--acme--tiny"
    assert (repository / "refs/main").read_text() == REVISION
    names = {path.name for path in (repository / "blobs").iterdir()}
    assert names == {hashlib.sha256(data).hexdigest() for data in FILES.values()}
    assert str((repository / f"snapshots/{REVISION}/sub/tokenizer.json").readlink()).startswith("../../../blobs/")
    assert {oct(path.stat().st_mode & 0o777) for path in (repository / "blobs").iterdir()} == {"0o444"}
    lab.stick.rename(lab.top / "pulled out")
    assert run(lab, WISH)["changed"] is False


def test_check_mode_says_the_same_and_changes_nothing(lab):
    put(lab.stick)
    seen = run(lab, WISH, check_mode=True)
    assert seen["changed"]
    assert not lab.place.exists()
    assert seen["changes"] == run(lab, WISH)["changes"]


def test_a_copy_of_a_cache_is_a_source_too_and_its_links_lead_nowhere_else(lab):
    top = lab.stick / "models--acme--tiny"
    (top / "blobs").mkdir(parents=True)
    (top / "blobs" / ("c" * 40)).write_bytes(b"{}")
    (top / "snapshots" / REVISION).mkdir(parents=True)
    (top / "snapshots" / REVISION / "config.json").symlink_to(f"../../blobs/{'c' * 40}")
    run(lab, WISH)
    assert held(lab) == {"config.json": b"{}"}
    (top / "snapshots" / SECOND).mkdir()
    (top / "snapshots" / SECOND / "config.json").symlink_to("/etc/shadow")
    assert "M009" in refused(lab, {**WISH, "revision": SECOND})


def test_a_lock_is_made_once_and_holds_ever_after(lab):
    put(lab.stick)
    run(lab, WISH)
    text = (lab.place / f"locks/models--acme--tiny/{REVISION}.sha256").read_text()
    assert wanted.read_lock(text, "it").files["config.json"] == hashlib.sha256(b"{}").hexdigest()
    of(lab).remove("models--acme--tiny", REVISION)
    put(lab.stick, {"config.json": b"[]"})
    told = refused(lab, WISH, locks={f"acme/tiny@{REVISION}": text})
    assert "M002" in told
    assert "config.json" in told
    assert held(lab) == {}


def test_other_patterns_choose_other_files_and_let_go_of_what_nothing_needs(lab):
    put(lab.stick)
    run(lab, {**WISH, "files": ["*.json"]})
    assert set(held(lab)) == {"config.json", "sub/tokenizer.json"}
    run(lab, {**WISH, "files": ["*.safetensors", "config.json"]})
    assert set(held(lab)) == {"config.json", "model.safetensors"}
    assert len(list((lab.place / "hub/models--acme--tiny/blobs").iterdir())) == 2
    assert run(lab, {**WISH, "files": ["*.safetensors", "config.json"]})["changed"] is False


@pytest.mark.parametrize(
    ("wish", "more", "code"),
    [
        ({"revision": "main"}, {}, "M001"),
        ({"name": "../etc"}, {}, "M010"),
        ({"name": "acme/other"}, {}, "M009"),
        ({"files": ["*.gguf"]}, {}, "M009"),
        ({"group": "nobody-has-this"}, {}, "M010"),
        ({}, {"absent": ["acme/tiny"]}, "M010"),
        ({}, {"token": TOKEN, "hub": "http://hub.example"}, "M010"),
        ({}, {"locks": {f"acme/tiny@{REVISION}": f"{'0' * 64}  ../../etc/passwd\n"}}, "M010"),
        ({}, {"mounts": ["/nowhere"]}, "M007"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_there(lab, wish, more, code):
    put(lab.stick)
    told = refused(lab, {**WISH, **wish}, **more)
    assert code in told
    assert TOKEN not in told
    assert not any(lab.place.glob("**/blobs/*"))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "a.PKL", "x.pt", "modeling_x.py"])
def test_formats_that_run_code_come_only_where_that_is_allowed(lab, name):
    put(lab.stick, {**FILES, name: b"cos\nsystem\n"})
    told = refused(lab, WISH)
    assert "M005" in told
    assert name in told
    assert not lab.place.exists()
    run(lab, {**WISH, "files": ["*.safetensors", "*.json"]})
    assert name not in held(lab)
    run(lab, {**WISH, "allow_code": True})
    assert name in held(lab)


def test_space_is_asked_for_before_the_first_byte(lab, monkeypatch):
    put(lab.stick)
    monkeypatch.setattr(store, "SPARE", 1 << 62)
    assert "M004" in refused(lab, WISH)
    assert not lab.place.exists()


def test_a_disk_that_fills_meanwhile_keeps_what_came_and_the_next_run_goes_on(lab, monkeypatch):
    put(lab.stick)
    copy = download.copy

    def full(source, stream, begin, size, until):
        if size > 1000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return copy(source, stream, begin, size, until)

    with monkeypatch.context() as patch:
        patch.setattr(download, "copy", full)
        assert "M004" in refused(lab, WISH)
    assert held(lab) == {}
    assert not list(lab.place.glob("**/*.part"))
    assert len(run(lab, WISH)["coming"][0]["to_fetch"]) == 2
    assert held(lab) == FILES


@pytest.mark.parametrize("writable", ["srv", "srv/models", "srv/models/hub/models--acme--tiny/blobs"])
def test_root_fills_no_place_in_which_others_may_change_names(lab, writable):
    put(lab.stick)
    place = lab.top / writable
    place.mkdir(parents=True, exist_ok=True)
    place.chmod(0o777)
    assert "M007" in refused(lab, WISH)


def test_a_link_in_the_place_of_the_store_is_not_followed(lab):
    put(lab.stick)
    (lab.place / "hub").mkdir(parents=True)
    (lab.top / "elsewhere").mkdir()
    (lab.place / "hub/models--acme--tiny").symlink_to(lab.top / "elsewhere")
    assert "M007" in refused(lab, WISH)


def test_a_slice_ends_and_the_next_one_goes_on(lab, monkeypatch):
    put(lab.stick, {"large.safetensors": bytes(5 << 20)})
    take = {"operation": "take", "coming": call(lab, WISH)["coming"]}
    monkeypatch.setattr(model_store, "SECONDS", 0.0)
    sizes = []
    for _slice in range(9):
        if call(lab, WISH, **take)["line"] is None:
            break
        sizes.append(next(lab.place.glob("**/*.part")).stat().st_size)
    assert sizes == [1 << 20, 2 << 20, 3 << 20, 4 << 20]
    assert set(held(lab)) == {"large.safetensors"}


def test_a_second_revision_comes_while_somebody_maps_the_first(lab):
    put(lab.stick)
    put(lab.stick, {**FILES, "model.safetensors": b"others  " * 500}, SECOND)
    run(lab, WISH)
    path = lab.place / f"hub/models--acme--tiny/snapshots/{REVISION}/model.safetensors"
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        seen = run(lab, {**WISH, "revision": SECOND})
        assert seen["unlisted"] == [f"acme/tiny@{REVISION}"]
        assert (lab.place / "hub/models--acme--tiny/refs/main").read_text() == SECOND
        stream.close()
        told = refused(lab, {**WISH, "revision": SECOND}, absent=[f"acme/tiny@{REVISION}"])
        assert "M006" in told
        assert f"process {os.getpid()} (" in told
        assert mapped[:7] == b"weights"
    seen = run(lab, {**WISH, "revision": SECOND}, absent=[f"acme/tiny@{REVISION}"])
    assert seen["changes"] == [{"action": "delete", "what": "acme/tiny@aaaaaaaa"}]
    assert held(lab) == {}
    assert held(lab, SECOND)["config.json"] == b"{}"
    assert len(list((lab.place / "hub/models--acme--tiny/blobs").iterdir())) == 3


def test_what_is_named_absent_goes_whole_and_for_good(lab):
    put(lab.stick)
    run(lab, WISH)
    assert run(lab, absent=["acme/tiny"])["changed"]
    assert list((lab.place / "hub").iterdir()) == list((lab.place / "locks").iterdir()) == []
    assert not record.RECORD.exists()
    assert run(lab, absent=["acme/tiny"])["changed"] is False


class KilledError(BaseException):
    """The run ends as a killed one does."""


@pytest.mark.parametrize("place", ["take", "seal", "_sweep", "keep"])
def test_a_killed_run_leaves_no_half_snapshot_and_the_next_one_ends(lab, monkeypatch, place):
    def dies(*_, **_more):
        raise KilledError

    put(lab.stick)
    monkeypatch.setattr(fill if place == "keep" else store.Store, place, dies)
    with pytest.raises(KilledError):
        run(lab, WISH)
    assert held(lab) in ({}, FILES)
    monkeypatch.undo()
    monkeypatch.setattr(record, "RECORD", lab.top / "record.json")
    assert run(lab, WISH)["changed"]
    assert held(lab) == FILES
    assert run(lab, WISH)["changed"] is False
    assert not list(lab.place.glob("**/*.draft"))


def test_a_group_alone_reads_what_is_for_it(lab):
    put(lab.stick)
    run(lab, {**WISH, "group": "daemon"})
    status = (lab.place / "hub/models--acme--tiny").stat()
    assert (oct(status.st_mode & 0o777), status.st_gid) == ("0o750", 1)
    assert run(lab, WISH)["changed"]
    assert oct((lab.place / "hub/models--acme--tiny").stat().st_mode & 0o777) == "0o755"


# the hub


@pytest.fixture
def hub(lab):
    (lab.top / "hub").mkdir()
    (lab.top / "hub/token").write_text(TOKEN)
    other = model_hub.serve(lab.top / "hub")
    server = model_hub.serve(lab.top / "hub", elsewhere=other.address.replace("127.0.0.1", "localhost"))
    for name in ("models/acme/tiny", "models/acme/gated", "models/acme/closed", "datasets/acme/images"):
        put(lab.top / "hub", name=name)
    yield SimpleNamespace(address=server.address, top=lab.top / "hub")
    server.shutdown()
    other.shutdown()


@pytest.mark.parametrize("name", ["acme/tiny", "datasets/acme/images"])
def test_a_hub_fills_the_store_over_a_connection_that_breaks_off(lab, hub, name):
    (hub.top / "break").touch()
    run(lab, {**WISH, "name": name}, folder=None, hub=hub.address)
    folder = "models--acme--tiny" if name == "acme/tiny" else "datasets--acme--images"
    assert held(lab, folder=folder) == FILES
    assert "bytes=2000-" in (hub.top / "asked").read_text()
    (hub.top / "asked").unlink()
    assert run(lab, {**WISH, "name": name}, folder=None, hub=hub.address)["changed"] is False
    assert not (hub.top / "asked").exists()


def test_the_folder_comes_before_the_hub(lab, hub):
    put(lab.stick)
    run(lab, WISH, hub=hub.address)
    assert held(lab) == FILES
    assert not (hub.top / "asked").exists()


def test_a_token_goes_to_the_hub_and_to_nobody_else(lab, hub, monkeypatch):
    monkeypatch.setattr(wanted, "check", lambda *_: None)  # which wants HTTPS
    run(lab, {**WISH, "name": "acme/gated"}, folder=None, hub=hub.address, token=TOKEN)
    assert held(lab, folder="models--acme--gated") == FILES
    lines = (hub.top / "asked").read_text().splitlines()
    assert {line.endswith(TOKEN) for line in lines if line.startswith("/cdn/")} == {False}
    assert {line.endswith(TOKEN) for line in lines if not line.startswith("/cdn/")} == {True}
    kept = [path for top in (lab.place, lab.top / "locks") for path in top.rglob("*") if path.is_file()]
    assert all(TOKEN.encode() not in path.read_bytes() for path in [*kept, record.RECORD])


@pytest.mark.parametrize(
    ("name", "code"), [("acme/gated", "HTTP 401 without a token"), ("acme/closed", "HTTP 403"), ("acme/gone", "M009")]
)
def test_what_the_hub_does_not_hand_out_is_told_before_anything_comes(lab, hub, name, code):
    told = refused(lab, {**WISH, "name": name}, folder=None, hub=hub.address)
    assert code in told
    assert ("M003" in told) == (name != "acme/gone")
    assert not lab.place.exists()


@pytest.mark.parametrize("path", ["config.json", "model.safetensors"])
def test_what_comes_other_than_the_hub_listed_it_is_refused(lab, hub, monkeypatch, path):
    send = model_hub.Handler.send_file

    def other(self, place):
        if place.name == path:
            self.answer(200, place.read_bytes()[::-1])
        else:
            send(self, place)

    monkeypatch.setattr(model_hub.Handler, "send_file", other)
    told = refused(lab, WISH, folder=None, hub=hub.address)
    assert "M002" in told
    assert path in told
    assert held(lab) == {}


@pytest.mark.parametrize(
    "answer",
    [
        {"sha": SECOND, "siblings": [{"rfilename": "a", "size": 1}]},
        {"sha": REVISION, "siblings": [{"rfilename": "../../a", "size": 1}]},
        {"sha": REVISION, "siblings": [{"rfilename": "/etc/a", "size": 1}]},
        {"sha": REVISION, "siblings": [{"rfilename": "a", "size": None}]},
        [],
        "<html>",
    ],
)
def test_a_hub_that_lies_leads_nowhere(lab, hub, monkeypatch, answer):
    monkeypatch.setattr(model_hub.Handler, "send_list", lambda self, *_: self.answer(200, json.dumps(answer).encode()))
    assert "M009" in refused(lab, WISH, folder=None, hub=hub.address)


def test_a_file_without_end_ends(lab, hub, monkeypatch):
    send = model_hub.Handler.send_file

    def more(self, place):
        if place.name == "config.json" and "0-0" not in self.headers.get("Range", ""):
            self.answer(200, b"x" * 100)
        else:
            send(self, place)

    monkeypatch.setattr(model_hub.Handler, "send_file", more)
    told = refused(lab, WISH, folder=None, hub=hub.address)
    assert "M009" in told
    assert "more than 2 bytes" in told


# a bundle


@pytest.fixture
def bundle(lab, hub, monkeypatch):
    """Return a function that brings what the hub has into a bundle, and returns what nodes are told of it."""
    put(lab.top / "hub", name="models/acme/gated")
    monkeypatch.setattr(wanted, "check", lambda *_: None)  # it wants https for a token

    def make(*wishes):
        held = list(models.asked({"repositories": [*wishes], "hub": hub.address, "token": TOKEN}))
        files = [file for one in held for _path, file in one.files]
        fetching.fetch(lab.top / "bundle", fetching.missing(lab.top / "bundle", files))
        assert fetching.missing(lab.top / "bundle", files) == []
        told = {one.repository.place: one.record(lab.top / "bundle") for one in held}
        return {"address": f"file://{lab.top}/bundle", "models": told}

    return make


def test_a_bundle_fills_the_store_and_no_hub_is_asked(lab, hub, bundle):
    gated = {**WISH, "name": "acme/gated", "files": ["config.json"]}
    given = bundle(WISH, gated)
    assert TOKEN not in json.dumps(given)
    hub.top.rename(lab.top / "gone")
    run(lab, WISH, gated, folder=None, hub=hub.address, bundle=given)
    assert held(lab) == FILES
    assert held(lab, folder="models--acme--gated") == {"config.json": b"{}"}
    assert not run(lab, WISH, gated, folder=None, bundle=given)["changed"]


def test_a_bundle_that_has_other_files_of_a_model_does_not_have_it(lab, bundle):
    given = bundle({**WISH, "files": ["*.json"]})
    assert "no source has it" in refused(lab, WISH, folder=None, bundle=given)


def test_a_turned_byte_of_a_bundle_is_refused(lab, bundle):
    given = bundle(WISH)
    path = next((lab.top / "bundle").rglob("model.safetensors"))
    path.write_bytes(path.read_bytes()[::-1])
    assert "M002" in refused(lab, WISH, folder=None, bundle=given)


def test_the_hub_is_asked_once_for_what_several_hosts_want(hub):
    for _host in range(3):
        list(models.asked({"repositories": [WISH], "hub": hub.address}))
    assert (hub.top / "asked").read_text().count("/api/") == 1


def test_a_lock_says_what_comes_into_a_bundle(lab, hub):
    lock = lab.top / "lock"
    lock.write_text(f"{hashlib.sha256(FILES['model.safetensors']).hexdigest()}  model.safetensors\n")
    (held,) = models.asked({"repositories": [{**WISH, "lock": str(lock)}], "hub": hub.address})
    assert [path for path, _file in held.files] == ["model.safetensors"]
    lock.write_text(f"{'0' * 64}  model.safetensors\n")
    with pytest.raises(Refusal, match="M002"):
        list(models.asked({"repositories": [{**WISH, "lock": str(lock)}], "hub": hub.address}))
    lock.write_text(f"{'0' * 64}  other\n")
    with pytest.raises(Refusal, match=r"M009 .*the hub does not have other"):
        list(models.asked({"repositories": [{**WISH, "lock": str(lock)}], "hub": hub.address}))


# the nights


def proven(lab):
    return [str(refusal) for refusal in night.prove(of(lab))]


def everything_is_old(days):
    with record.changing() as kept:
        for checked in kept.blobs.values():
            checked.at -= days * 86400


def blob(lab, data=FILES["model.safetensors"]):
    return lab.place / "hub/models--acme--tiny/blobs" / hashlib.sha256(data).hexdigest()


def facts():
    return ModelStoreQuery(Node(), 3).facts()["repositories"][0]


def test_a_turned_byte_is_found_in_the_night_and_mended_by_the_next_run(lab):
    put(lab.stick)
    run(lab, WISH)
    everything_is_old(29)
    assert proven(lab) == []
    damaged = bytearray(blob(lab).read_bytes())
    damaged[100] ^= 1
    blob(lab).chmod(0o644)
    blob(lab).write_bytes(damaged)
    assert facts()["damaged"] == []
    everything_is_old(29)
    (told,) = proven(lab)
    assert "M002" in told
    assert "model.safetensors" in told
    assert facts()["damaged"] == ["model.safetensors"]
    assert run(lab, WISH)["coming"][0]["to_fetch"] == ["model.safetensors"]
    assert proven(lab) == []
    assert held(lab) == FILES


def test_what_is_gone_or_cut_is_told_at_once_and_comes_again(lab):
    put(lab.stick)
    run(lab, WISH)
    blob(lab).unlink()
    blob(lab, b"{}").chmod(0o644)
    blob(lab, b"{}").write_bytes(b"{")
    found = facts()
    assert (found["missing"], found["damaged"]) == (["model.safetensors"], ["config.json"])
    told = proven(lab)
    assert ["M008" in line for line in told] == [False, True]
    run(lab, WISH)
    assert proven(lab) == []
    assert held(lab) == FILES


def test_within_thirty_nights_all_is_read_and_no_night_reads_much_more_than_its_share():
    sizes = {f"m/{number}": (number % 7 + 1) * 1000 for number in range(200)}
    checked = {name: record.Checked(0.0, size) for name, size in sizes.items()}
    for day in range(1, 31):
        now = day * 86400.0
        chosen = night.slice_of(sizes, checked, now)
        assert sum(sizes[name] for name in chosen) <= sum(sizes.values()) / night.NIGHTS + 7000
        checked.update({name: record.Checked(now, sizes[name]) for name in chosen})
    assert min(one.at for one in checked.values()) > 0
    late = {name: record.Checked(0.0, size) for name, size in sizes.items()}
    assert set(night.slice_of(sizes, late, 29 * 86400.0)) == set(sizes)  # the node was off
    ahead = {name: record.Checked(90 * 86400.0, size) for name, size in sizes.items()}
    assert set(night.slice_of(sizes, ahead, 29 * 86400.0)) == set(sizes)  # its clock was ahead


def test_the_list_says_age_size_and_who_uses_what(lab):
    put(lab.stick)
    run(lab, WISH)
    with blob(lab).open("rb"):
        _head, line = night.listed(of(lab))
    assert line.startswith(time.strftime("%Y-%m-%d  %Y-%m-%d  0.0 MB"))
    assert f"acme/tiny@{REVISION}  process {os.getpid()} (" in line


def test_the_program_of_the_nights_needs_nothing_but_itself(lab, capsys):
    assert night.main(["night"]) == 0
    put(lab.stick)
    run(lab, WISH)
    blob(lab).unlink()
    assert night.main(["night"]) == 1
    assert "GPULAB-M008 acme/tiny@aaaaaaaa" in capsys.readouterr().out
