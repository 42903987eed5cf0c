"""What differs between two captures, as data and in words; of secrets, nothing but that they changed."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import compare, compared_text

from .captured import entry, manifest

SHA256 = {"1": "1" * 64, "2": "2" * 64}
OWN = "own @ git+https://example.org/own"
ZONES = "/usr/share/zoneinfo"
SECTIONS = {
    "identity": {"hostname": "node07", "timezone": "Europe/Berlin"},
    "users": [
        {"name": "wei", "uid": 1000, "groups": ["docker", "video"], "password": "set"},
        {"name": "ada", "uid": 1001, "groups": [], "password": "set"},
    ],
    "unnamed": [{"kind": "user", "id": 4242, "of": None}],
    "packages": [
        {"name": "libc6", "version": "2.36", "architecture": "amd64"},
        {"name": "libc6", "version": "2.36", "architecture": "i386"},
        {"name": "vim", "version": "9.0", "architecture": "amd64"},
    ],
    "holds": ["linux-image-amd64", "vim"],
    "cron": [
        {"path": "/etc/cron.d/backup", "user": "root", "schedule": "0 3 * * *", "command": "/usr/local/bin/backup"},
        {"path": "/etc/cron.d/backup", "user": "root", "schedule": "0 4 * * *", "command": "/usr/local/bin/report"},
    ],
    "at": [{"user": "wei", "time": "12:00", "command": "train"}, {"user": "wei", "time": "12:00", "command": "train"}],
    "units": [{"path": "/etc/systemd/system/lab.service", "enabled": "enabled", "active": "active"}],
    "unit_states": {"ssh.service": "enabled"},
    "disks": {
        "disks": [
            {"path": "/dev/sda", "serial": "S1", "below": [{"path": "/dev/sda1", "uuid": "u1", "label": "root"}]},
            {"path": "/dev/sdb", "serial": "S2", "below": []},
        ],
        "filesystems": [{"mount": "/", "uuid": "u1", "used": 1000, "type": "ext4"}],
    },
    "environments": [
        {
            "path": "/home/wei/venv",
            "python": "3.11.2",
            "lock": ["numpy==1.26.4", f"{OWN}@abc", "torch==2.9.0"],
        },
        {
            "path": "/home/wei/conda",
            "lock": ["https://example.org/linux-64/numpy-1.26.4-py311h_0.conda#sha256:aa", "# pip einops==0.7.0"],
        },
    ],
    "baseline": {"result": "ok"},
    "gpulab": {"facts": {"temperature": 40}, "settings": {"cuda_default": "13.0"}},
}
FILES = [
    entry("/etc/fstab", b"x", sha256=SHA256["1"]),
    entry("/etc/motd", b"x", sha256=SHA256["1"]),
    entry("/etc/shadow", b"secret", secret=True, mode="0600"),
    entry("/etc/localtime", kind="link", target="/usr/share/zoneinfo/Europe/Berlin"),
]
REMAINDER = [{"path": "/opt/matlab", "files": 10, "bytes": 2000, "owner": "root", "why": "of nobody"}]


@pytest.fixture
def pair():
    """Return two manifests that are equal, to change the second one."""
    former = manifest({}, {}) | {"sections": SECTIONS, "files": FILES, "remainder": REMAINDER}
    later = copy.deepcopy(former) | {"made": "2026-11-27T13:25:00Z", "seconds": 9.0}
    return copy.deepcopy(former), later


def said(former, later, secrets=None):
    """Return the sentences about what differs."""
    document = compare.compare(former, later, secrets or {})
    json.dumps(asdict(document))
    return [compared_text.text(change) for change in document.changes]


def test_equal_captures_do_not_differ(pair):
    document = compare.compare(*pair, {"/etc/shadow": False})
    assert (document.changes, document.unknown) == ([], [])
    assert compared_text.lines(document) == [
        "node07: from 2026-11-26T13:25:00Z to 2026-11-27T13:25:00Z",
        "  nothing changed",
    ]


def change(sections, path, value):
    """Put a value at a path of keys and numbers; for a list, ADD and DROP say what happens."""
    *way, last = path
    for step in way:
        sections = sections[step]
    if value == "DROP":
        del sections[last]
    elif last == "ADD":
        sections.append(value)
    else:
        sections[last] = value


PACKAGE = {"name": "htop", "version": "3.2", "architecture": "amd64"}


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (["identity", "timezone"], "UTC", "timezone Europe/Berlin -> UTC"),
        (["users", "ADD"], {"name": "eve", "uid": 1002}, "user eve added"),
        (["users", 1], "DROP", "user ada gone"),
        (["users", 0, "uid"], 2001, "user wei: uid 1000 -> 2001"),
        (["users", 0, "groups", "ADD"], "sudo", "user wei: groups sudo added"),
        (["users", 0, "groups", 0], "DROP", "user wei: groups docker gone"),
        (["users", 0, "password"], "locked", "user wei: password set -> locked"),
        (["unnamed", 0], "DROP", "number without a name user 4242 gone"),
        (["packages", 1, "version"], "2.41", "package libc6 i386: version 2.36 -> 2.41"),
        (["packages", "ADD"], PACKAGE, "package htop amd64 added"),
        (["packages", 2], "DROP", "package vim amd64 gone"),
        (["holds", 0], "DROP", "hold on linux-image-amd64 gone"),
        (["holds", "ADD"], "cuda", "hold on cuda added"),
        (
            ["cron", 0, "schedule"],
            "0 5 * * *",
            "cron line /etc/cron.d/backup root /usr/local/bin/backup: schedule 0 3 * * * -> 0 5 * * *",
        ),
        (["cron", 1], "DROP", "cron line /etc/cron.d/backup root /usr/local/bin/report gone"),
        (["at", 1], "DROP", 'at job {"command": "train", "time": "12:00", "user": "wei"} gone'),
        (["units", 0, "enabled"], "disabled", "unit file /etc/systemd/system/lab.service: enabled enabled -> disabled"),
        (["unit_states", "ssh.service"], "masked", "unit ssh.service enabled -> masked"),
        (["disks", "disks", 1], "DROP", "disk S2 gone"),
        (["disks", "disks", 0, "path"], "/dev/sdc", "disk S1: path /dev/sda -> /dev/sdc"),
        (["disks", "disks", 0, "below", 0, "label"], "data", "disk S1: below u1 label root -> data"),
        (["disks", "filesystems", 0, "uuid"], "u2", "file system on /: uuid u1 -> u2"),
        (["disks", "filesystems", 0], "DROP", "file system on / gone"),
        (
            ["environments", 0, "lock", 0],
            "numpy==2.0.0",
            "environment /home/wei/venv: numpy==1.26.4 -> numpy==2.0.0",
        ),
        (["environments", 0, "lock", 2], "DROP", "environment /home/wei/venv: torch==2.9.0 gone"),
        (
            ["environments", 0, "lock", 1],
            f"{OWN}@def",
            f"environment /home/wei/venv: {OWN}@abc -> {OWN}@def",
        ),
        (
            ["environments", 1, "lock", 1],
            "# pip einops==0.8.0",
            "environment /home/wei/conda: # pip einops==0.7.0 -> # pip einops==0.8.0",
        ),
        (["environments", 0, "python"], "3.12.1", "environment /home/wei/venv: python 3.11.2 -> 3.12.1"),
        (["environments", 1], "DROP", "environment /home/wei/conda gone"),
        (["gpulab", "settings", "cuda_default"], "12.9", "settings: cuda_default 13.0 -> 12.9"),
    ],
)
def test_a_difference_is_said_in_words(path, value, expected, pair):
    former, later = pair
    change(later["sections"], path, value)
    assert said(former, later) == [expected]


def test_a_conda_package_is_one_whatever_its_build(pair):
    former, later = pair
    later["sections"]["environments"][1]["lock"][0] = (
        "https://example.org/linux-64/numpy-2.0.0-py311h_1.conda#sha256:bb"
    )
    (found,) = said(former, later)
    assert found.startswith("environment /home/wei/conda: https://")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["disks", "filesystems", 0, "used"], 2000),
        (["units", 0, "active"], "inactive"),
        (["baseline", "result"], "fail"),
        (["gpulab", "facts", "temperature"], 41),
    ],
)
def test_what_changes_by_itself_is_left_out(path, value, pair):
    former, later = pair
    change(later["sections"], path, value)
    assert said(former, later) == []


@pytest.mark.parametrize("name", ["used", "facts", "status", "links"])
def test_what_has_the_name_of_such_a_field_is_not_left_out(name, pair):
    former, later = pair
    change(later["sections"], ["users", "ADD"], {"name": name, "uid": 1002})
    assert said(former, later) == [f"user {name} added"]


@pytest.mark.parametrize(
    ("number", "field", "value", "expected"),
    [
        (0, "sha256", SHA256["2"], "file /etc/fstab: content changed"),
        (0, "mode", "0600", "file /etc/fstab: mode 0644 -> 0600"),
        (0, "owner", "wei", "file /etc/fstab: owner root -> wei"),
        (0, "immutable", True, "file /etc/fstab: immutable added: true"),
        (3, "target", f"{ZONES}/UTC", f"file /etc/localtime: target {ZONES}/Europe/Berlin -> {ZONES}/UTC"),
    ],
)
def test_what_changed_of_a_file_is_said(number, field, value, expected, pair):
    former, later = pair
    later["files"][number][field] = value
    assert said(former, later) == [expected]


def test_new_and_missing_files_are_said(pair):
    former, later = pair
    later["files"][1] = entry("/etc/new\n\udcff", b"x", sha256=SHA256["1"])
    assert said(former, later) == ["file /etc/motd gone", r"file /etc/new\n\udcff added"]


@pytest.mark.parametrize(("side", "change"), [(0, "added"), (1, "gone")])
def test_a_file_that_a_role_has_in_the_other_capture_did_not_go(pair, side, change):
    """One that was there before the role had a receipt; a capture does not hold what roles bring back."""
    pair[side]["files"] = [one for one in pair[side]["files"] if one["path"] != "/etc/motd"]
    for capture in pair:
        capture["sections"]["gpulab"]["receipts"] = {"base": []}
    assert said(*pair) == [f"file /etc/motd {change}"]
    for capture in pair:
        capture["sections"]["gpulab"]["receipts"]["base"] = ["file:/etc/motd"]
    assert said(*pair) == []


@pytest.mark.parametrize(
    ("bytes_", "expected"),
    [
        (3_000_000, "left over /opt/matlab: grew from 2 kB to 3 MB"),
        (0, "left over /opt/matlab: shrank from 2 kB to 0 B"),
    ],
)
def test_a_remainder_that_grew_is_said(bytes_, expected, pair):
    former, later = pair
    later["remainder"][0]["bytes"] = bytes_
    assert said(former, later) == [expected]


def test_a_new_remainder_is_said_with_its_size(pair):
    former, later = pair
    later["remainder"] = [{"path": "/opt/x", "files": 3, "bytes": 12_000, "owner": "li", "why": ""}]
    assert said(former, later) == [
        "left over /opt/matlab gone: 10 files, 2 kB",
        "left over /opt/x added: 3 files, 12 kB",
    ]


# secrets


def test_a_changed_secret_is_said(pair):
    assert said(*pair, {"/etc/shadow": True}) == ["file /etc/shadow: content changed"]
    assert said(*pair, {"/etc/shadow": False}) == []


def test_a_secret_that_nobody_can_read_is_unknown(pair):
    document = compare.compare(*pair, {})
    assert (document.changes, document.unknown) == ([], ["/etc/shadow"])
    assert compared_text.lines(document)[-1].endswith("whether the content changed of /etc/shadow")


def test_a_secret_with_another_size_has_changed_whoever_can_read_it(pair):
    former, later = pair
    later["files"][2]["size"] += 1
    assert said(former, later) == ["file /etc/shadow: content changed"]
    assert compare.compare(former, later, {}).unknown == []


def test_a_file_that_is_secret_now_is_said(pair):
    former, later = pair
    del later["files"][0]["sha256"]
    later["files"][0] |= {"secret": True, "mode": "0600"}
    assert said(former, later) == [
        "file /etc/fstab: mode 0644 -> 0600",
        "file /etc/fstab: content changed",
        "file /etc/fstab: secret added: true",
    ]


# what people see


def test_a_long_section_is_cut_and_a_long_value_too(pair):
    former, later = pair
    later["sections"]["holds"] = [f"package{number}" for number in range(100)]
    later["sections"]["identity"]["timezone"] = "x" * 500
    document = compare.compare(former, later, {})
    lines = compared_text.lines(document)
    assert "    and 62 more" in lines
    assert len([line for line in lines if "hold on" in line]) == 40
    assert max(map(len, lines)) < 200
    assert len([one for one in document.changes if one.section == "holds"]) == 102


def test_lines_are_by_section(pair):
    former, later = pair
    later["sections"]["users"][0]["uid"] = 1
    later["sections"]["holds"].pop()
    assert compared_text.lines(compare.compare(former, later, {"/etc/shadow": False}))[1:] == [
        "  users:",
        "    user wei: uid 1000 -> 1",
        "  holds:",
        "    hold on vim gone",
    ]


def test_no_escape_code_reaches_the_terminal(pair):
    former, later = pair
    later["sections"]["users"][0]["gecos"] = "\x1b[2Jevil\n\x07"
    (found,) = said(former, later)
    assert found.isprintable()


def test_a_list_that_nothing_names_is_compared_as_a_set(pair):
    former, later = pair
    former["kept"] = [{"a": 1}, {"a": 2}]
    later["kept"] = [{"a": 2}, {"a": 3}]
    assert said(former, later) == ['kept {"a": 1} gone', 'kept {"a": 3} added']


def test_a_part_that_nobody_could_read_before_is_said(pair):
    former, later = pair
    former["sections"]["packages"] = None
    later["sections"]["packages"] = []
    assert said(former, later) == ["package null -> []"]


def test_engines_are_known_by_their_programs():
    engines = [[{"program": "docker", "images": [{"id": one, "names": [one]}]}] for one in "ab"]
    former, later = (manifest({}, {}, sections={"containers": {"engines": one}}) for one in engines)
    found = compare.compare(former, later, {}).changes
    assert {tuple(one.subject[:3]) for one in found} == {("engines", "docker", "images")}
