"""Whether the content of a file is secret."""

import time

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture.confidential import holds_secret


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "deb https://li:s3cret@example.org/ stable",
        "https://abcdefghijklmnopqrstu@example.org/",
        "//registry/:_authToken=abc",
        "HF_TOKEN=abc",
        'export OPENAI_API_KEY="abc"',
        ' psk="abc"',
        'password = "abc"',
        "//nas/share /mnt cifs user=li,password=abc,noauto 0 0",
        "   POSTGRES_PASSWORD: abc",
        "Environment=WANDB_API_KEY=abc",
        "ExecStart=/usr/bin/x --token abc",
        "17 3 * * * root curl -u li:abc https://example.org/",
        '-H "Authorization: Bearer abcdefgh"',
        "ghp_abcdefghijklmnop0123",
        '{"auths": {"nvcr.io": {"auth": "abc"}}}',
        "StoragePass=abc",
        "bindpw abc",
        "ldap_default_authtok = abc",
        "aws_secret_access_key = abc",
        "rocommunity abc",
        "pass = abc",
        "machine example.org login li password abc",
    ],
)
def test_what_holds_a_secret(text):
    assert holds_secret(b"# first\n" + text.encode() + b"\n")


@pytest.mark.parametrize(
    "text",
    [
        "deb https://example.org/ stable",
        "passwd:         files systemd",
        "PasswordAuthentication yes",
        "password [success=1 default=ignore] pam_unix.so obscure use_authtok try_first_pass yescrypt",
        "account [success=1 new_authtok_reqd=done default=ignore] pam_unix.so",
        "PasswordAuthentication=no",
        "TOKEN=$1",
        "git@example.org:li/thesis.git",
    ],
)
def test_what_holds_none(text):
    assert not holds_secret(text.encode())


@pytest.mark.parametrize("text", [b"token", b"://a", b"\n", b"login a ", b"curl -u ", b"sk-"])
def test_no_content_makes_the_search_slow(text):
    started = time.process_time()
    holds_secret(text * (300_000 // len(text)))
    assert time.process_time() - started < 5
