"""Secrets are encrypted before they touch a disk, and of an archive only what gpulab packs is taken."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from ansible.parsing.vault import VaultSecretsContext
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import secrets

from .captured import CANARY, SECRETS

PLACE = Path("captures/node07/20261126T132500Z/secrets.vault")


def refused(call, *arguments):
    with pytest.raises(Refusal) as caught:
        call(*arguments)
    return caught.value


@pytest.mark.parametrize("kind", ["vault", "age"])
def test_secrets_come_back_as_they_were(kind, request):
    cipher = request.getfixturevalue(kind)
    packed = cipher.pack(SECRETS)
    assert CANARY not in packed
    assert cipher.unpack(packed, PLACE) == SECRETS


def test_a_large_secret_comes_back(age):
    given = {"/root/key": os.urandom(3 << 20)}
    assert age.unpack(age.pack(given), PLACE) == given


def test_ansible_vault_and_tar_open_the_archive(vault, tmp_path):
    archive, password = tmp_path / "secrets.vault", tmp_path / "password"
    archive.write_bytes(vault.pack(SECRETS))
    password.write_text("correct horse")
    argv = ["ansible-vault", "decrypt", "--vault-password-file", password, "--output", tmp_path / "tar", archive]
    subprocess.run(argv, check=True, capture_output=True)
    done = subprocess.run(["tar", "--list", "--file", tmp_path / "tar"], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["index.json", *map(str, range(len(SECRETS)))]


# how to encrypt


def test_without_a_password_or_a_recipient_nothing_is_encrypted(monkeypatch):
    monkeypatch.setattr(VaultSecretsContext, "_current", None)
    refusal = refused(secrets.cipher_for, "node07", [])
    assert refusal.code == "R007"
    assert "node07" in refusal.cause


def test_with_no_password_in_the_run_nothing_is_encrypted(vault_password):
    vault_password()
    assert refused(secrets.cipher_for, "node07", []).code == "R007"


@pytest.mark.usefixtures("vault_password")
def test_a_vault_password_is_enough():
    assert secrets.cipher_for("node07", []).name == "secrets.vault"


@pytest.mark.usefixtures("vault_password")
def test_recipients_count_before_the_vault_password(age_key):
    assert secrets.cipher_for("node07", [age_key[0]]).name == "secrets.age"


def test_the_vault_id_to_encrypt_with_is_honoured(vault_password, monkeypatch):
    vault_password(lab="one", backup="two")
    monkeypatch.setattr("ansible.constants.DEFAULT_VAULT_ENCRYPT_IDENTITY", "backup")
    packed = secrets.Vault("node07").pack(SECRETS)
    vault_password(backup="two")
    assert secrets.Vault("node07").unpack(packed, PLACE) == SECRETS
    vault_password(lab="one")
    assert refused(secrets.Vault("node07").unpack, packed, PLACE).code == "R006"


@pytest.mark.usefixtures("vault_password")
def test_a_vault_id_that_the_run_does_not_have_is_refused(monkeypatch):
    monkeypatch.setattr("ansible.constants.DEFAULT_VAULT_ENCRYPT_IDENTITY", "backup")
    assert refused(secrets.cipher_for, "node07", []).code == "R007"


@pytest.mark.usefixtures("age_key")
@pytest.mark.parametrize("recipient", ["age1nonsense", "--output=x", "wei@example.org", ""])
def test_a_recipient_that_age_does_not_take_is_refused(recipient):
    assert refused(secrets.cipher_for, "node07", [recipient]).code == "R007"


@pytest.fixture
def watched_age(tmp_path, monkeypatch):
    """Put a program before age that notes its arguments and environment; return the notes."""
    notes, program = tmp_path / "notes", tmp_path / "bin/age"
    program.parent.mkdir()
    real = shutil.which("age")
    program.write_text(f'#!/bin/sh\necho "$@" >>{notes}\nenv >>{notes}\nexec {real} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    notes.touch()
    return notes


def test_age_gets_secrets_by_no_argument(age, watched_age):
    age.unpack(age.pack(SECRETS), PLACE)
    noted = watched_age.read_bytes()
    assert b"--recipient=age1" in noted
    assert b"--decrypt" in noted
    assert CANARY not in noted


def test_a_private_key_among_the_recipients_is_given_to_no_program(age_key, watched_age):
    private = Path(age_key[1]).read_text(encoding="utf-8").splitlines()[-1]
    assert private.startswith("AGE-SECRET-KEY-")
    refusal = refused(secrets.cipher_for, "node07", [age_key[0], private])
    assert refusal.code == "R007"
    assert private not in str(refusal)
    assert watched_age.read_bytes() == b""


def test_age_that_is_not_installed_is_refused(age_key, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    refusal = refused(secrets.cipher_for, "node07", [age_key[0]])
    assert refusal.code == "R007"
    assert "not installed" in refusal.cause


def test_age_that_hangs_is_refused(age, monkeypatch, tmp_path):
    program = tmp_path / "age"
    program.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(secrets, "DEADLINE", 0.2)
    assert refused(age.pack, SECRETS).code == "R007"


# how to decrypt


def test_another_password_is_refused(vault, vault_password):
    packed = vault.pack(SECRETS)
    vault_password(default="wrong")
    assert refused(secrets.Vault("node07").unpack, packed, PLACE).code == "R006"


def test_without_the_private_key_age_is_not_asked(age, watched_age):
    packed = age.pack(SECRETS)
    blind = secrets.cipher_of("node07", "secrets.age")
    assert not blind.readable
    watched_age.write_text("")
    assert refused(blind.unpack, packed, PLACE).code == "R006"
    assert watched_age.read_bytes() == b""


def test_the_name_of_an_archive_says_how_to_read_it(age, age_key, vault):
    assert secrets.cipher_of("node07", "secrets.age", age_key[1]).unpack(age.pack(SECRETS), PLACE) == SECRETS
    assert secrets.cipher_of("node07", "secrets.vault").unpack(vault.pack(SECRETS), PLACE) == SECRETS


@pytest.mark.parametrize("kind", ["vault", "age"])
def test_a_turned_byte_anywhere_is_refused(kind, request):
    cipher = request.getfixturevalue(kind)
    packed = cipher.pack({"/etc/shadow": CANARY})
    step = 97 if kind == "vault" else 41
    for place in range(0, len(packed), step):
        turned = bytearray(packed)
        turned[place] ^= 1
        refusal = refused(cipher.unpack, bytes(turned), PLACE)
        assert refusal.code == "R006", place
        assert CANARY.decode() not in str(refusal)


@pytest.mark.parametrize("kind", ["vault", "age"])
def test_a_truncated_archive_is_refused(kind, request):
    cipher = request.getfixturevalue(kind)
    packed = cipher.pack(SECRETS)
    for length in [*range(40), len(packed) // 2, len(packed) - 2]:
        assert refused(cipher.unpack, packed[:length], PLACE).code == "R006", length


def member(name, data=CANARY, kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    info.size = len(data) if kind in {tarfile.REGTYPE, tarfile.CONTTYPE} else 0
    return info, data


def index(*paths, data=CANARY):
    listed = [{"path": path, "sha256": hashlib.sha256(data).hexdigest()} for path in paths]
    return member("index.json", json.dumps(listed).encode())


def tar(*members):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def test_an_archive_that_holds_together_is_taken(vault):
    packed = vault.encrypt(tar(index("/a", "/b"), member("0"), member("1")))
    assert vault.unpack(packed, PLACE) == {"/a": CANARY, "/b": CANARY}


@pytest.mark.parametrize(
    "members",
    [
        [index("/a"), member("../../etc/cron.d/x")],
        [index("/a"), member("/etc/cron.d/x")],
        [index("/a"), member("0", kind=tarfile.SYMTYPE, link="/etc/shadow")],
        [index("/a"), member("0", kind=tarfile.LNKTYPE, link="index.json")],
        [index("/a"), member("0", kind=tarfile.CHRTYPE)],
        [index("/a"), member("0", kind=tarfile.BLKTYPE)],
        [index("/a"), member("0", kind=tarfile.FIFOTYPE)],
        [index("/a"), member("0", kind=tarfile.DIRTYPE)],
        [index("/a"), member("0"), member("1")],
        [index("/a"), member("0"), member("0")],
        [index("/a"), member("0"), member("../x", kind=tarfile.SYMTYPE, link="/")],
        [index("/a", "/b"), member("0")],
        [index("/a"), member("0", b"another content")],
        [index("/a", "/a"), member("0"), member("1")],
        [index("/../a"), member("0")],
        [index("../a"), member("0")],
        [index("a"), member("0")],
        [member("0"), index("/a")],
        [member("index.json", b"{}")],
        [member("index.json", b"[1]"), member("0")],
        [member("index.json", b"no JSON"), member("0")],
        [member("index.json", kind=tarfile.SYMTYPE, link="0"), member("0")],
        [],
    ],
    ids=range(23),
)
def test_what_gpulab_does_not_pack_is_refused(members, vault):
    refusal = refused(vault.unpack, vault.encrypt(tar(*members)), PLACE)
    assert refusal.code == "R006"
    assert CANARY.decode() not in str(refusal)


def test_a_member_behind_the_end_of_the_archive_is_refused(vault):
    whole = tar(index("/a"), member("0"))
    assert refused(vault.unpack, vault.encrypt(whole + tar(member("1"))), PLACE).code == "R006"


def test_a_truncated_tar_is_refused(vault):
    whole = tar(index("/a"), member("0", CANARY))
    for length in (0, 100, 512, 700, 1024, 1300, 1540):
        assert refused(vault.unpack, vault.encrypt(whole[:length]), PLACE).code == "R006", length
