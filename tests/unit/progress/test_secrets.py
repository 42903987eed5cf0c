"""No secret and no escape code reaches the operator, whoever shows the run and however much is shown."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import shown
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

from .test_progress import environment, run  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow

FIRST, SECOND = "canary'\"one", "canary'\"two"


@pytest.mark.parametrize("callback", ["gpulab.node.progress", "ansible.builtin.default"])
def test_no_secret_is_shown_at_any_verbosity_and_in_no_diff(environment, callback):  # noqa: F811 - the fixture
    home = Path(environment["ANSIBLE_HOME"])
    for name in ("proxy", "profile", "block"):
        (home / name).unlink(missing_ok=True)
    for canary in (FIRST, SECOND):  # the second run has the first secret in what the files hold before
        extra = f"@{home / 'extra.json'}"
        (home / "extra.json").write_text(f'{{"canary": "{canary}"}}'.replace("'\"", "'\\\""), encoding="utf-8")
        said = run(environment, "secrets.yml", "-vvv", "--diff", "-e", extra, ANSIBLE_STDOUT_CALLBACK=callback)
        assert "proxy.example:3128" in said
        assert "canary" not in said
        assert "GPULAB-H061" in said
    assert 'canary\'"%22"two' in (home / "proxy").read_text(encoding="utf-8")
    assert stat.S_IMODE((home / "proxy").stat().st_mode) == 0o600
    assert stat.S_IMODE((home / "profile").stat().st_mode) == 0o644


def test_no_escape_code_reaches_the_terminal(environment):  # noqa: F811 - the fixture
    (Path(environment["ANSIBLE_HOME"]) / "extra.json").write_text('{"canary": "secret-word"}', encoding="utf-8")
    said = run(environment, "secrets.yml", "-e", f"@{environment['ANSIBLE_HOME']}/extra.json")
    assert "name of the node" in said
    assert not set("\x1b\x07\x9b") & set(said)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Debian\x1b[2J\x1b[31m 12", "Debian 12"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b", "ab"),
        ("a\x9b31mb", "a31mb"),
        ("a\rb\bc\x00\x7f", "abc"),
        ("first\r\nsecond\tthird", "first\nsecond\tthird"),
        ("name\u202egnp.exe", "namegnp.exe"),
        ("Größe 1", "Größe 1"),
        ("\x1b", ""),
    ],
)
def test_text_is_plain_without_what_steers_a_terminal(text, plain):
    assert shown.plain(text) == plain


def test_facts_are_plain_down_to_their_names():
    assert shown.plain_values({"a\x1b[1m": ["b\x07", {"c": 1}]}) == {"a": ["b", {"c": 1}]}


@pytest.mark.parametrize(
    "address",
    [
        "http://user:canary@host:1/a",
        "http://canary@host/",
        "git+https://user:can@canary@host/a",
        "https://conda.example/t/canary-canary/channel",
        "https://a.example/b?x=1&token=canary&y=2",
        "http://user:'\"canary\"'@host",
        "ssh://git:canary@host/a",
    ],
)
def test_what_is_secret_in_an_address_is_masked_wherever_a_refusal_shows_it(address):
    assert "canary" not in shown.masked(f"before {address} after")
    assert "canary" not in str(refuse("H061", name="a", url=address, detail="\x1b[31mno"))
    assert "\x1b" not in str(refuse("H061", name="a", url=address, detail="\x1b[31mno"))


@pytest.mark.parametrize(
    "address",
    [
        "https://a.example:8080/b@c",
        "user@host",
        "http://a/t/ab/c",
        "ssh://[::1]:22/",
        "git+ssh://git@github.com/a/b@main",  # what a remedy repeats has to be what the file has
    ],
)
def test_what_is_no_secret_stays(address):
    assert shown.masked(address) == address
