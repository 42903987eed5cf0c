"""What a check says of a bundle that something happened to on its way; tests/unit/bundle/faults.yml has the cases."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.bundle.folder import SUMS, Folder, faults
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle import folder
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.keys import Keys

ROOT = Path(__file__).parents[3]
FAULTS = yaml.safe_load((Path(__file__).parent / "faults.yml").read_text())
FILES = {
    "apt/debian/dists/trixie/InRelease": "Origin: Debian\n",
    "apt/debian/pool/hello_1_amd64.deb": "a package\n",
    "files/uv.whl": "uv\n",
    "pypi/files/click-8.0-py3-none-any.whl": "a wheel\n",
    "pypi/simple/click/index.html": "an index\n",
}


@pytest.fixture
def bundle(tmp_path):
    keys = Keys(tmp_path / "keys")
    keys.make()
    for name, text in FILES.items():
        path = tmp_path / "bundle" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    folder.write_sums(tmp_path / "bundle")
    folder.sign(tmp_path / "bundle", keys.signing)
    return tmp_path / "bundle"


def wrong(bundle, signers):
    """Return what is wrong with a bundle by the list that it has."""
    place = Folder(bundle)
    return faults(place, place.read(SUMS) or b"", signers)


def test_a_whole_bundle_has_no_fault(bundle):
    assert wrong(bundle, (bundle.parent / "keys" / "allowed_signers").read_text()) == []


@pytest.mark.parametrize("case", FAULTS, ids=[case["name"] for case in FAULTS])
def test_all_faults_are_said_at_once(bundle, case):
    subprocess.run(["sh", "-ec", case["do"]], cwd=bundle, check=True)
    found = wrong(bundle, (bundle.parent / "keys" / "allowed_signers").read_text())
    assert [refusal.code for refusal in found] == case["codes"]
    said = "\n".join(map(str, found))
    assert [text for text in case["told"] if text not in said] == []


def test_a_bundle_of_which_nobody_says_who_may_sign_it_is_refused(bundle):
    assert [one.code for one in wrong(bundle, "")] == ["B003"]


@pytest.mark.slow
def test_the_playbook_says_so_and_fails(bundle):
    """playbooks/bundle_verify.yml, for somebody who has no keys, only the file that says who may sign."""
    signers = bundle.parent / "keys/allowed_signers"
    settings = {"bundle_directory": str(bundle), "bundle_signers": str(signers)}
    call = ["ansible-playbook", "playbooks/bundle_verify.yml", "-i", "localhost,", "-e", json.dumps(settings)]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "5 files, whole and signed" in done.stdout) == (0, True), done.stdout
    (bundle / "files/uv.whl").unlink()
    (bundle / "pypi/simple/click/index.html").write_text("evil")
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert all(text in done.stdout for text in ("GPULAB-B004", "GPULAB-B005", "files/uv.whl", "click/index.html"))


def test_the_private_keys_are_for_their_owner_only_and_are_made_once(tmp_path):
    keys = Keys(tmp_path / "keys")
    keys.make()
    modes = {path.name: path.stat().st_mode & 0o077 for path in (tmp_path / "keys").iterdir()}
    assert (modes["signing"], modes["apt.asc"]) == (0, 0)
    before = keys.fingerprint()
    keys.make()
    assert keys.fingerprint() == before


def test_a_folder_with_anything_else_is_refused(tmp_path):
    folder.check_is_bundle(tmp_path / "missing")
    folder.check_is_bundle(tmp_path)
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(Refusal, match=r"B001 .*thesis"):
        folder.check_is_bundle(tmp_path)
    (tmp_path / folder.RECORD).touch()
    folder.check_is_bundle(tmp_path)
