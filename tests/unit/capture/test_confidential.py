"""Whether a file is secret, by its name or by what is in it; and what is hidden of such a text where it is shown."""

from __future__ import annotations

import re
import time

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture.confidential import BLOCK, is_secret
from ansible_collections.gpulab.node.plugins.module_utils.core import commands, secret_texts, shown
from ansible_collections.gpulab.node.plugins.module_utils.core.secret_forms import FORMS

from .secret_cases import FILE, FURTHER, HARMLESS, SECRET, token

TEXTS = [
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
    "send bearer abcdefgh12345678 to it",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_that_holds_a_secret(text):
    assert is_secret(FILE, b"# first\n" + text.encode() + b"\n")


@pytest.mark.parametrize(("path", "text"), {**SECRET, **FURTHER}.values(), ids={**SECRET, **FURTHER})
def test_a_file_that_is_secret(path, text):
    assert is_secret(path, text.encode("latin-1"))


@pytest.mark.parametrize(("path", "text"), HARMLESS.values(), ids=HARMLESS)
def test_a_file_that_holds_none(path, text):
    assert not is_secret(path, text.encode())
    assert shown.masked(text) == text


@pytest.mark.parametrize("before", [0, 10, BLOCK - 60, BLOCK - 10, BLOCK - 3, BLOCK, 2 * BLOCK - 12, 3 * BLOCK])
def test_a_secret_is_found_wherever_it_is_in_a_file(before):
    assert is_secret(FILE, b"\n" * before + f"{'gh' + 'p_'}{token(36)}\n".encode() + b"x" * 100)
    assert not is_secret(FILE, b"\n" * before + b"region = eu\n")


# Secrets that stand in a text like no other thing: hidden wherever gpulab shows one, in its own messages, too.
LIKE_NOTHING_ELSE = [
    name
    for name, (path, text) in SECRET.items()
    if any(form[4] and re.search(form[2], text, form[3] | re.MULTILINE) for form in FORMS)
]


def test_most_forms_are_hidden_in_output_too():
    assert len(LIKE_NOTHING_ELSE) >= 70
    assert sum(form[4] for form in FORMS) >= 55


@pytest.mark.parametrize("name", LIKE_NOTHING_ELSE)
def test_what_is_found_as_a_secret_is_hidden(name):
    text = SECRET[name][1]
    secrets = list(secret_texts.found(text))
    assert secrets
    said = shown.masked(f"before {text} after")
    assert not [secret for secret in secrets if secret in said]
    assert said.startswith("before ")
    assert set(secrets) <= set(shown.secrets({"text": text}))


# What a node starts by itself is in the manifest as text: commands, and variables of cron and containers.
COMMANDS = [
    line
    for path, text in {**SECRET, **FURTHER}.values()
    for line in text.splitlines()
    if "abc123" in line and path.startswith(("/etc/cron", "/etc/systemd", "/usr/local/bin", "/srv/app/compose"))
]


@pytest.mark.parametrize("line", COMMANDS)
def test_the_manifest_has_no_secret_of_a_command(line):
    assert "abc123" not in commands.shown(line)


@pytest.mark.parametrize("name", LIKE_NOTHING_ELSE)
def test_the_manifest_has_no_token_of_a_command(name):
    text = " ".join(SECRET[name][1].split())
    assert not [one for one in secret_texts.found(text) if one in commands.shown(f"run --wait {text}")]


def test_a_pattern_for_any_case_is_written_in_small_letters():
    """It is tried on a file's content in small letters."""
    for name, words, pattern, flags, _shown in FORMS:
        assert not flags or not re.search(r"(?<!\\)[A-Z](?!<hide)", pattern), name
        assert all(word == word.lower() for word in words), name


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[0])
def test_each_form_finds_something_that_no_other_name_would(form):
    """A form whose word is not in what its pattern finds would never be tried."""
    texts = [*TEXTS, *(text for _path, text in (*SECRET.values(), *FURTHER.values()))]
    found = [text for text in texts if re.search(form[2], text, form[3] | re.MULTILINE)]
    assert all(any(word in text.lower() for word in form[1]) for text in found)
    assert found or form[0] in UNTRIED


# Forms of scanners without a case here: their beginnings are as simple as those of the others.
UNTRIED = {
    "AWS Bedrock", "RubyGems", "Doppler", "Pulumi", "Sentry", "Notion", "Linear", "Postman", "Artifactory", "OpenShift",
    "Mailgun", "New Relic",
}  # fmt: skip


@pytest.mark.parametrize("text", [b"token", b"://a", b"\n", b"login a ", b"curl -u ", b"sk-", b"psk", b"docker login "])
def test_no_content_makes_the_search_slow(text):
    started = time.process_time()
    is_secret(FILE, text * (300_000 // len(text)))
    shown.masked(text.decode() * (300_000 // len(text)))
    assert time.process_time() - started < 5


def test_a_token_of_a_message_is_hidden():
    github = f"{'gh' + 'p_'}{token(36)}"
    assert shown.for_people(f"fatal: cannot use {github} here") == "fatal: cannot use *** here"
