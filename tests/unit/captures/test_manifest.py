"""A manifest is what its schema says, and its paths are those that a file system can have."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import manifest as manifests

from .captured import FILES, SECRETS, entry, manifest

PLACE = Path("captures/node07/20261126T132500Z")
SHA256 = "0" * 64


def read(value):
    return manifests.read(json.dumps(value).encode(), PLACE)


def refused(value):
    with pytest.raises(Refusal) as caught:
        read(value)
    return caught.value


def with_files(*files):
    return {**manifest({}, {}), "files": list(files)}


def test_a_manifest_comes_back_as_it_was():
    given = manifest(FILES, SECRETS)
    text = manifests.text(given)
    assert text.isascii()
    assert manifests.read(text, PLACE) == given
    assert json.loads(manifests.text(asdict(manifests.typed(given)))) == given


def test_a_capture_of_an_earlier_version_is_read():
    """Recorded before captures had locks, and what gpulab brought."""
    text = (Path(__file__).parent / "manifest.json").read_bytes()
    document = manifests.read(text, PLACE)
    assert manifests.text(document) == text
    found = manifests.typed(document)
    assert (found.sections.gpulab.locks, found.sections.gpulab.brought) == ([], [])
    assert found.sections.disks.disks[0].below[1].places == ["/"]


@pytest.mark.parametrize(
    "path",
    [
        "etc/fstab",
        "",
        "/",
        "//etc/fstab",
        "/etc//fstab",
        "/etc/./fstab",
        "/etc/../fstab",
        "/..",
        "/etc/",
        "/a\0b",
        "/\ud800",
    ],
)
def test_a_path_that_is_not_absolute_and_shortest_is_refused(path):
    refusal = refused(with_files(entry(path, sha256=SHA256)))
    assert refusal.code == "R006"
    assert "has the path" in refusal.cause


@pytest.mark.parametrize("path", ["/etc/fstab", "/a\nb", "/\udcff", "/...", "/..a/b", "/a b", "/é"])
def test_odd_paths_are_paths(path):
    assert read(with_files(entry(path, sha256=SHA256)))["files"][0]["path"] == path


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ([entry("/a")], "has no sha256"),
        ([entry("/a", secret=True, sha256=SHA256)], "has a sha256"),
        ([entry("/a", kind="link", sha256=SHA256)], "has a sha256"),
        ([entry("/a", sha256="../../etc/passwd")], "has the sha256"),
        ([entry("/a", sha256=SHA256 + "\n")], "has the sha256"),
        ([entry("/a", sha256=SHA256, mode="rw-r--r--")], "has the mode"),
        ([entry("/a", kind="device")], "has the kind"),
        ([entry("/a", sha256=SHA256), entry("/a", secret=True)], "has the path of another file"),
        ([entry("/a/b", sha256=SHA256), entry("/a", sha256=SHA256)], "is below a file that is no directory"),
        ([entry("/a", kind="link"), entry("/a/b", sha256=SHA256)], "is below a file that is no directory"),
        ([{"path": "/a"}], "has no kind"),
    ],
)
def test_an_entry_that_does_not_hold_together_is_refused(wrong, fault):
    refusal = refused(with_files(*wrong))
    assert refusal.code == "R006"
    assert fault in refusal.cause


def test_a_file_may_be_below_a_captured_directory():
    assert read(with_files(entry("/a", kind="directory"), entry("/a/b", sha256=SHA256)))


@pytest.mark.parametrize(("found", "way"), [(0, "Capture the node again."), (2, "Update gpulab.")])
def test_another_schema_is_refused(found, way):
    refusal = refused({"schema": found, "all": "else is unknown"})
    assert (refusal.code, refusal.remedy) == ("R018", way)


@pytest.mark.parametrize("value", [[], None, {}, {"schema": "1"}, {"schema": True}, {**manifest({}, {}), "made": "/x"}])
def test_what_is_no_manifest_is_refused(value):
    assert refused(value).code == "R006"


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100000])
def test_what_is_not_json_is_refused(data):
    with pytest.raises(Refusal) as caught:
        manifests.read(data, PLACE)
    assert caught.value.code == "R006"


def test_a_section_that_a_rebuild_could_not_read_is_refused_before():
    whole = manifest({}, {}, sections={"users": [{"name": "li"}]})
    whole["sections"]["users"][0]["uid"] = "1001"
    assert "it.sections.users[0].uid is not a number" in refused(whole).cause
    del whole["sections"]["users"]
    assert "it.sections has no users" in refused(whole).cause


def test_every_part_is_needed():
    for name in manifest({}, {}):
        assert refused({key: value for key, value in manifest({}, {}).items() if key != name}).code == "R006"


def test_paths_can_be_in_the_result_of_a_task():
    found = manifests.encodable({"/\udcff": [{"path": "/é/\udcfe", "size": 1, "owner": None}]})
    assert found == {r"/\udcff": [{"path": r"/é/\udcfe", "size": 1, "owner": None}]}
    json.dumps(found, ensure_ascii=False).encode("utf-8")
