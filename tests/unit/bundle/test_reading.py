"""The bundle that a node is to use, in a folder and from a server: what is said of it before anything is taken."""

from __future__ import annotations

import http.server
import json
import re
import subprocess
import threading
from functools import partial

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.bundle import reading
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle import folder
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.keys import Keys

FILES = {
    "apt/d/dists/trixie/InRelease": "Origin: Debian\n",
    "apt/d/pool/hello_1_amd64.deb": "a package\n",
    "keys/apt.asc": "key\n",
    "pypi/files/click-8.0-py3-none-any.whl": "a wheel\n",
}
RECORD = {"schema": 1, "gpulab": "9.9", "made_at": "2026-11-28T00:00:00Z", "hosts": {"node1": {}}}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files."""

    def log_message(self, *_arguments):
        """Say nothing."""


@pytest.fixture
def made(tmp_path):
    """Return a function that makes a bundle with this record and returns who may sign it."""
    keys = Keys(tmp_path / "keys")
    keys.make()

    def make(**record):
        top = tmp_path / "bundle"
        for name, text in {**FILES, "bundle.json": json.dumps({**RECORD, **record})}.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text(text)
        folder.write_sums(top)
        folder.sign(top, keys.signing)
        return keys.signers.read_text()

    return make


@pytest.fixture(params=["folder", "server"])
def bundle(request, tmp_path):
    """Return the path of the bundle, or its address."""
    if request.param == "folder":
        yield str(tmp_path / "bundle")
        return
    handler = partial(Quiet, directory=tmp_path / "bundle")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def codes(refusals):
    return [refusal.code for refusal in refusals]


def in_use(digest, made_at):
    return f"# Written by gpulab\n# Bundle {digest} of {made_at}\n\nTypes: deb\n"


def test_the_list_that_was_signed_is_the_one_that_files_are_compared_with(made, tmp_path, monkeypatch):
    """A server that is asked twice may answer otherwise."""
    signers = made()
    signed = (tmp_path / "bundle" / reading.SUMS).read_bytes()
    (tmp_path / "bundle/keys/apt.asc").write_text("another key")
    folder.write_sums(tmp_path / "bundle")
    answers, read = [signed], reading.Folder.read
    monkeypatch.setattr(
        reading.Folder, "read", lambda place, name: (name == reading.SUMS and answers.pop()) or read(place, name)
    )
    _found, refusals = reading.read(str(tmp_path / "bundle"), signers, "", "")
    assert codes(refusals) == ["B004"]
    assert answers == []


@pytest.mark.parametrize("name", ["bundle.json", "keys/apt.asc"])
def test_what_is_taken_is_what_was_signed(made, tmp_path, monkeypatch, name):
    """A server may answer otherwise once all of it was compared."""
    signers = made()
    compare = reading.faults

    def changing(*given, **more):
        found = compare(*given, **more)
        with (tmp_path / "bundle" / name).open("a") as stream:
            stream.write(" ")
        return found

    monkeypatch.setattr(reading, "faults", changing)
    found, refusals = reading.read(str(tmp_path / "bundle"), signers, "", "")
    assert (found, codes(refusals)) == ({}, ["B004"])


def test_a_good_one_is_returned(made, bundle):
    found, refusals = reading.read(bundle, made(), "", "")
    assert refusals == []
    address = bundle if "://" in bundle else f"file://{bundle}"
    assert (found["address"], found["key"], found["hosts"]) == (address, "key\n", {"node1": {}})


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("printf X >> apt/d/dists/trixie/InRelease", "B004 .*trixie/InRelease"),
        ("rm apt/d/pool/hello_1_amd64.deb", "B005 .*hello_1_amd64.deb"),
        ("rm -r apt pypi", "B005 3 of 5 "),
        ("rm SHA256SUMS.sig", "B003 .*SHA256SUMS.sig"),
        ("rm SHA256SUMS", "B005 .*SHA256SUMS"),
    ],
)
def test_what_is_wrong_with_it_is_said(made, bundle, tmp_path, spoil, said):
    signers = made()
    subprocess.run(["sh", "-ec", spoil], cwd=tmp_path / "bundle", check=True)
    found, refusals = reading.read(bundle, signers, "", "")
    assert (found, len(refusals)) == ({}, 1)
    assert re.search(said, str(refusals[0]))


def test_a_byte_of_a_package_on_a_stick_is_found(made, tmp_path):
    signers = made()
    (tmp_path / "bundle/apt/d/pool/hello_1_amd64.deb").write_text("b package\n")
    assert codes(reading.read(str(tmp_path / "bundle"), signers, "", "")[1]) == ["B004"]


@pytest.mark.parametrize(
    ("record", "used", "code"),
    [
        ({"made_at": "2126-01-01T00:00:00Z"}, "", "B015"),
        ({"schema": 2}, "", "B008"),
        ({}, "2026-11-29T00:00:00Z", "B009"),
    ],
)
def test_one_that_is_not_for_now_is_refused(made, bundle, record, used, code):
    signers = made(**record)
    known = in_use("0" * 64, used) if used else ""
    found, refusals = reading.read(bundle, signers, "", known)
    assert (found, codes(refusals)) == ({}, [code])


def test_the_one_in_use_is_not_looked_through_again(made, bundle, tmp_path):
    signers = made()
    digest = reading.read(bundle, signers, "", "")[0]["digest"]
    (tmp_path / "bundle/apt/d/pool/hello_1_amd64.deb").unlink()
    known = in_use(digest, RECORD["made_at"])
    assert reading.read(bundle, signers, "", known)[0]["digest"] == digest
    (tmp_path / "bundle/apt/d/dists/trixie/InRelease").write_text("Origin: Evil\n")  # by which APT verifies the rest
    assert codes(reading.read(bundle, signers, "", known)[1]) == ["B004"]


def test_one_that_nobody_serves_is_refused():
    assert codes(reading.read("http://127.0.0.1:9", "", "", "")[1]) == ["B023"]


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    (refusal,) = reading.read(str(tmp_path / "none"), "", "", "")[1]
    assert (refusal.code, "no such folder on the node" in refusal.cause) == ("B023", True)
