"""Fingerprints of OpenPGP keys: gpg's own, a node's, the standard's, and what is no key."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.packages import openpgp
from hypothesis import given
from hypothesis import strategies as st

from .openpgp_keys import VERSION_6, VERSION_6_FINGERPRINT

KEYRINGS = sorted(Path("/usr/share/keyrings").glob("*.gpg"))


def by_gpg(*arguments):
    """Return the fingerprints of the primary keys that gpg shows."""
    listing = subprocess.run(["gpg", "--with-colons", *arguments], check=True, capture_output=True, text=True).stdout
    # Records of a key: pub, its revokers, its fpr, and the same for each subkey.
    keys = listing.split("\npub:")
    return [re.search(r"^fpr:(?:[^:]*:){8}([^:]*):", key, re.MULTILINE)[1] for key in keys if "\nfpr:" in key]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return a gpg home with an RSA and an Ed25519 key, made here."""
    path = tmp_path_factory.mktemp("gpg")
    path.chmod(0o700)
    gpg = ["gpg", "--homedir", str(path), "--batch", "--quiet", "--passphrase", ""]
    for name, algorithm in (("one", "rsa2048"), ("two", "ed25519")):
        subprocess.run([*gpg, "--quick-generate-key", name, algorithm, "sign", "never"], check=True)
    yield path
    subprocess.run(["gpgconf", "--homedir", str(path), "--kill", "gpg-agent"], check=True)
    shutil.rmtree(path, ignore_errors=True)  # the agent takes its sockets away itself, in the meantime


@pytest.mark.parametrize("armor", [[], ["--armor"]], ids=["binary", "armored"])
def test_fingerprints_are_those_of_gpg(home, armor):
    gpg = ["gpg", "--homedir", str(home), *armor, "--export"]
    exported = subprocess.run(gpg, check=True, capture_output=True).stdout
    found = openpgp.fingerprints(exported)
    assert len(found) == 2
    assert found == by_gpg("--homedir", str(home), "--list-keys")


def test_a_secret_key_is_no_public_one(home):
    gpg = ["gpg", "--homedir", str(home), "--batch", "--passphrase", "", "--export-secret-keys", "one"]
    exported = subprocess.run(gpg, check=True, capture_output=True).stdout
    with pytest.raises(ValueError, match="secret"):
        openpgp.fingerprints(exported)


@pytest.mark.skipif(not KEYRINGS, reason="this machine has no keyrings of a distribution")
@pytest.mark.parametrize("keyring", KEYRINGS, ids=lambda path: path.stem)
def test_keyrings_of_this_machine_read_as_by_gpg(keyring):
    assert openpgp.fingerprints(keyring.read_bytes()) == by_gpg("--show-keys", str(keyring))


def test_version_6_and_headers_above_the_armor():
    assert openpgp.fingerprints(VERSION_6.encode()) == [VERSION_6_FINGERPRINT]
    commented = VERSION_6.replace("BLOCK-----\n\n", "BLOCK-----\nComment: no part of it\n\n", 1)
    assert openpgp.fingerprints(f"Some text.\n{commented}".encode()) == [VERSION_6_FINGERPRINT]


def test_all_blocks_of_a_text_count():
    """Nobody hides a second key behind the first."""
    assert openpgp.fingerprints((VERSION_6 * 2).encode()) == [VERSION_6_FINGERPRINT] * 2


BODY = b"\x04" + bytes(9)
UNUSABLE = {
    "nothing": (b"", "no public key"),
    "a web page": (b"<html>404</html>", "format"),
    "a signature": (b"\xc2\x01\x04", "no public key"),
    "a secret key": (b"\xc5\x0a" + BODY, "secret"),
    "version 3": (b"\xc6\x01\x03", "version 3"),
    "an empty key": (b"\xc6\x00", "version 0"),
    "cut off": (b"\xc6\x0b" + BODY, "cut off"),
    "cut off after its length": (b"\xc6\xff\x00", "cut off"),
    "no length": (b"\x9b" + BODY, "no length"),
    "in parts": (b"\xc6\xe1" + BODY, "parts"),
    "too long": (b"\xc6\xff\x00\x01\x00\x00\x04" + bytes(0xFFFF), "impossible length"),
    "an armored signature": (b"-----BEGIN PGP SIGNATURE-----\n", "no armored public key"),
    "armor without its end": (VERSION_6[:300].encode(), "no armored public key"),
    "damaged armor": (VERSION_6.replace("GY4d", "!Y4d").encode(), "damaged"),
}


@pytest.mark.parametrize(("data", "why"), UNUSABLE.values(), ids=UNUSABLE)
def test_what_cannot_be_used_says_why(data, why):
    with pytest.raises(ValueError, match=why):
        openpgp.fingerprints(data)


@pytest.mark.parametrize(
    "packet",
    [b"\xc6\x0a" + BODY, b"\xc6\xff\x00\x00\x00\x0a" + BODY, b"\x98\x0a" + BODY, b"\x99\x00\x0a" + BODY],
    ids=["new, one octet", "new, five octets", "old, one octet", "old, two octets"],
)
def test_every_form_of_length_gives_the_same_key(packet):
    assert openpgp.fingerprints(packet) == [hashlib.sha1(b"\x99\x00\x0a" + BODY).hexdigest().upper()]  # noqa: S324


@given(st.binary(max_size=80))
def test_any_octets_are_a_key_or_refused(data):
    try:
        assert openpgp.fingerprints(data)
    except ValueError:
        return
