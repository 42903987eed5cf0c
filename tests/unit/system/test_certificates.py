"""PEM bundles."""

import base64
import hashlib
import ssl

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.system.certificates import plan, split


def pem(der):
    return ssl.DER_cert_to_PEM_cert(der)


def fingerprint(der):
    return hashlib.sha256(der).hexdigest()


def test_a_bundle_is_split():
    first, second = b"first" * 40, b"second" * 40
    text = f"# a comment\n{pem(first)}\nsubject=x\n{pem(second)}{pem(first)}"
    assert split(text) == {fingerprint(first): pem(first), fingerprint(second): pem(second)}


def test_line_lengths_do_not_matter():
    der = b"der" * 50
    unfolded = f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(der).decode()}\n-----END CERTIFICATE-----\n"
    assert split(unfolded) == {fingerprint(der): pem(der)}


def test_what_is_not_base64_is_refused():
    with pytest.raises(ValueError, match="certificate block 1 is not base64"):
        split("-----BEGIN CERTIFICATE-----\nA=A\n-----END CERTIFICATE-----\n")


def test_nothing_in_nothing_out():
    assert split("no certificate here") == {}


@pytest.mark.parametrize(
    ("wanted", "ours", "trusted", "changes"),
    [
        pytest.param({"a": "A"}, {}, set(), ({"a": "A"}, []), id="new"),
        pytest.param({"a": "A"}, {}, {"a"}, ({}, []), id="trusted-without-us"),
        pytest.param({"a": "A"}, {"a": "A"}, set(), ({}, []), id="ours-already"),
        pytest.param({}, {"a": "A"}, {"b"}, ({}, ["a"]), id="no-longer-wanted"),
    ],
)
def test_plan(wanted, ours, trusted, changes):
    assert plan(wanted, ours, trusted) == changes
