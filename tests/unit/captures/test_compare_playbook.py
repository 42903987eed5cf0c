"""playbooks/capture_compare.yml, on the controller alone: the node that it names does not exist."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from .captured import CANARY, FILES, SECRETS, capture

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
CHANGED = {**SECRETS, "/etc/shadow": b"root:" + CANARY + b"-SHADOW:1::\n"}  # as long as before
TIMES = ("2026-11-25T00:00:00Z", "2026-11-26T00:00:00Z", "2026-11-27T00:00:00Z")


@pytest.fixture
def play(tmp_path):
    """Return what runs the playbook for node07, and returns (exit status, output, comparison)."""

    def run(*arguments, hosts=("node07",), **variables):
        inventory, documents = tmp_path / "inventory.yml", tmp_path / "documents"
        away = {host: {"ansible_host": "127.0.0.1", "ansible_port": 1} for host in hosts}
        inventory.write_text(
            yaml.safe_dump({"gpu-nodes": {"children": {"workstations": {"hosts": away}}}}), encoding="utf-8"
        )
        variables = {"capture_directory": str(tmp_path / "captures"), "capture_documents": str(documents), **variables}
        argv = [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, "playbooks/capture_compare.yml"]
        done = subprocess.run(
            [*argv, "-vvv", "-e", json.dumps(variables), *arguments],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        path = documents / "node07.json"
        return done.returncode, done.stdout + done.stderr, json.loads(path.read_text()) if path.exists() else None

    return run


@pytest.fixture
def three(tmp_path, vault):
    """Write three captures; the secret changes before the last one, and a file before the second."""
    capture(tmp_path / "captures", vault, {}, made=TIMES[0])
    capture(tmp_path / "captures", vault, made=TIMES[1])
    capture(tmp_path / "captures", vault, secrets=CHANGED, made=TIMES[2])
    return tmp_path / "captures/node07"


def password(tmp_path, text="correct horse"):
    (tmp_path / "password").write_text(text, encoding="utf-8")
    return f"--vault-password-file={tmp_path / 'password'}"


@pytest.mark.usefixtures("three")
def test_the_newest_two_are_compared_and_a_secret_only_changed(play, tmp_path):
    status, output, found = play(password(tmp_path))
    assert status == 0, output
    assert (found["former"], found["later"]) == TIMES[1:]
    assert [one["subject"] for one in found["changes"]] == [["/etc/shadow", "content"]]
    assert "file /etc/shadow: content changed" in output
    assert CANARY.decode() not in output + json.dumps(found)


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("given", ["none", "wrong"])
def test_without_the_password_the_secrets_are_unknown(given, play, tmp_path):
    status, output, found = play(*([password(tmp_path, given)] if given == "wrong" else []))
    assert status == 0, output
    assert found["changes"] == []
    assert sorted(found["unknown"]) == sorted(SECRETS)


@pytest.mark.usefixtures("three")
def test_a_capture_without_a_signature_is_told_and_a_forged_one_refused(play, tmp_path):
    signed = tmp_path / "captures/node07/20261126T000000Z/SHA256SUMS.hmac"
    signed.write_text("0" * 64)
    status, output, _found = play()
    assert status != 0
    assert "GPULAB-R086" in output
    signed.unlink()
    status, output, found = play()
    assert status == 0, output
    assert "20261126T000000Z has no signature" in output
    assert (found["former"], found["later"]) == TIMES[1:]


@pytest.mark.usefixtures("three")
def test_two_that_are_named_are_compared(play):
    status, output, found = play(capture_former="20261125T000000Z", capture_later="20261126T000000Z")
    assert status == 0, output
    assert (found["former"], found["later"]) == TIMES[:2]
    assert sorted(one["subject"][0] for one in found["changes"]) == sorted(FILES)
    assert "surrogates not allowed" not in output  # names that are not UTF-8 do not disturb what shows the run


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("variables", "what"),
    [
        ({"capture_former": "20261124T000000Z"}, "has no capture 20261124T000000Z"),
        ({"capture_later": "../node08"}, "has no capture"),
        ({"capture_later": "20261125T000000Z"}, "has no capture before 20261125T000000Z"),
    ],
)
def test_a_capture_that_is_not_there_is_refused(variables, what, play):
    status, output, found = play(**variables)
    assert status == 2
    assert "GPULAB-R001" in output
    assert what in " ".join(output.split())
    assert found is None


@pytest.mark.usefixtures("three")
def test_a_host_without_captures_is_refused_and_the_other_is_shown(play):
    status, output, found = play(hosts=("node07", "node08"))
    assert status == 2
    assert "GPULAB-R001 node08 has no capture" in " ".join(output.split())
    assert found


def test_a_damaged_capture_is_refused(play, three):
    shutil.rmtree(three / "20261126T000000Z/files")
    status, output, found = play()
    assert status == 2
    assert "GPULAB-R006" in output
    assert found is None


@pytest.mark.usefixtures("three")
def test_a_document_that_cannot_be_written_is_refused(play, tmp_path):
    (tmp_path / "documents").write_text("a file")
    status, output, _none = play(capture_documents=str(tmp_path / "documents/below"))
    assert status == 2
    assert "GPULAB-R022" in output


def test_with_a_private_key_secrets_of_age_are_compared(play, tmp_path, age, age_key):
    capture(tmp_path / "captures", age, made=TIMES[1])
    capture(tmp_path / "captures", age, secrets=CHANGED, made=TIMES[2])
    _status, output, found = play(capture_age_identity=age_key[1])
    assert [one["subject"] for one in found["changes"]] == [["/etc/shadow", "content"]]
    assert found["unknown"] == []
    assert CANARY.decode() not in output
    assert play()[2]["unknown"] == sorted(SECRETS, key=list(SECRETS).index)
