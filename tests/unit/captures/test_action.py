"""What happens to files between the node's look and their reading."""

import base64
import hashlib

import pytest
from ansible_collections.gpulab.node.plugins.action import capture
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal


class Store:
    """A store that has one content from before, and notes what it gets."""

    def __init__(self):
        """Know the content."""
        self.known = {sha256(b"known"): "elsewhere"}
        self.files = {}

    def put(self, path, data):
        """Note a content."""
        self.files[path] = data

    def link(self, path, digest):
        """Note a content that is known."""
        self.files[path] = digest


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def entry(path, data, **further):
    found = {"path": path, "kind": "file", "size": len(data), **further}
    return found if further.get("secret") else {**found, "sha256": sha256(data)}


@pytest.fixture
def captured(monkeypatch):
    """Return a function that captures the files that a node saw: (the manifest's, the store's, secrets, questions)."""
    monkeypatch.setattr(capture, "AT_ONCE", 4)

    def captured(seen, now):
        action, asked = object.__new__(capture.ActionModule), []

        def ask(parts):
            asked.append(len(parts))
            return [part_of(now.get(path), start, size) for path, start, size in parts]

        action._read_parts = ask
        manifest, store = {"files": seen, "remainder": []}, Store()
        secrets = action._contents(manifest, store)
        captured.remainder = manifest["remainder"]
        return {one["path"]: one for one in manifest["files"]}, store.files, secrets, asked

    return captured


def part_of(file, start, size):
    if file is None:
        return None
    data, mode = file
    if mode is None:
        return {"unreadable": "Input/output error"}
    return {"data": base64.b64encode(data[start : start + size]).decode(), "mode": mode}


def test_only_what_is_not_known_is_asked_for(captured):
    seen = [entry("/a", b"known"), entry("/b", b"new"), {"path": "/c", "kind": "link"}]
    files, stored, secrets, asked = captured(seen, {"/b": (b"new", 0o100644)})
    assert stored == {"/a": sha256(b"known"), "/b": b"new"}
    assert (len(files), secrets, asked) == (3, {}, [1])


def test_a_large_file_comes_in_parts_and_small_ones_together(captured):
    data = {"/large": b"0123456789", "/a": b"1", "/b": b"2", "/c": b"3", "/empty": b""}
    seen = [entry(path, content) for path, content in data.items()]
    _files, stored, _secrets, asked = captured(seen, {path: (one, 0o100644) for path, one in data.items()})
    assert stored == data
    assert asked == [1, 1, 3, 2]


def test_a_file_that_changed_is_recorded_as_it_was_read(captured):
    files, stored, _secrets, _asked = captured([entry("/a", b"old")], {"/a": (b"new!", 0o100644)})
    assert stored == {"/a": b"new!"}
    assert (files["/a"]["size"], files["/a"]["sha256"]) == (4, sha256(b"new!"))


def test_a_file_that_is_gone_is_left_out(captured):
    files, stored, secrets, _asked = captured([entry("/a", b"old"), entry("/b", b"b")], {"/b": (b"b", 0o100644)})
    assert (list(files), list(stored), secrets) == (["/b"], ["/b"], {})


def test_a_file_that_cannot_be_read_is_left_over_with_the_reason(captured):
    seen = [entry("/a", b"old", owner="li"), entry("/b", b"b")]
    files, stored, _secrets, _asked = captured(seen, {"/a": (b"old", None), "/b": (b"b", 0o100644)})
    assert (list(files), list(stored)) == (["/b"], ["/b"])
    why = "it cannot be read: Input/output error"
    assert captured.remainder == [{"path": "/a", "files": 1, "bytes": 3, "owner": "li", "why": why}]


@pytest.mark.parametrize(("secret", "mode"), [(True, 0o100644), (False, 0o100600)])
def test_a_secret_reaches_the_archive_alone_also_one_that_became_secret_meanwhile(captured, secret, mode):
    files, stored, secrets, _asked = captured([entry("/a", b"key", secret=secret)], {"/a": (b"key", mode)})
    assert (stored, secrets) == ({}, {"/a": b"key"})
    assert (files["/a"]["secret"], "sha256" in files["/a"]) == (True, False)


def test_a_secret_that_came_meanwhile_or_lies_far_behind_is_only_in_the_archive(captured):
    _files, stored, secrets, _asked = captured([entry("/a", b"TOKEN=$1 ")], {"/a": (b"TOKEN=abc", 0o100644)})
    assert (stored, secrets) == ({}, {"/a": b"TOKEN=abc"})


@pytest.mark.parametrize(
    ("args", "codes"),
    [
        ({"paths": "/opt/own"}, ["I005"]),
        ({"paths": ["opt/own"]}, ["I007"]),
        ({"acknowledged": [{"path": "scratch", "reason": "spare"}]}, ["I007"]),
        ({"paths": ["/opt/own", "~/thesis"], "keep": "3", "largest_mib": 10, "directory": "captures"}, []),
    ],
)
def test_settings_are_judged_before_the_node_is_read(args, codes):
    assert [refusal.code for refusal in capture.wrong_settings(args)] == codes


# A node between its installation and the end of its rebuild

NAME = "20261126T132501Z"
MARKER, DONE = "/etc/gpulab-installed-by", "/var/lib/gpulab/rebuild/done.json"


@pytest.fixture
def refused(tmp_path):
    """Return a function that tells whether a node with these files is refused; its captures are on this machine."""
    (tmp_path / "node07" / NAME).mkdir(parents=True)

    def refused(**contents):
        action = object.__new__(capture.ActionModule)
        files = {MARKER: contents.get("marker"), DONE: contents.get("done")}
        action._read_parts = lambda parts: [
            None if files[path] is None else part_of((files[path], 0o644), start, size) for path, start, size in parts
        ]
        try:
            action.refuse_half_rebuilt("node07", tmp_path)
        except Refusal as refusal:
            return refusal.code
        return None

    return refused


def test_a_system_that_has_not_its_capture_back_does_not_take_its_place(refused):
    """Else the next night's capture would be the newest, of an empty system; and a reinstall would begin from it."""
    marker = f'{{"plan": "0123", "capture": "{NAME}", "host": "node07"}}'.encode()
    assert refused(marker=marker) == "R078"
    assert refused(marker=marker, done=b'{"capture": "x"}') is None


@pytest.mark.parametrize("marker", [None, b"", b"[]", b"broken", b'{"capture": "20200101T000000Z"}'])
def test_any_other_system_is_captured(refused, marker):
    assert refused(marker=marker) is None
