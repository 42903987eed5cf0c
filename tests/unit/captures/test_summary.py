"""What a capture says to people."""

import json
from pathlib import Path

from ansible_collections.gpulab.node.plugins.plugin_utils.capture import summary
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import Manifest

from unit.capture import hardware
from unit.captures import captured
from unit.filled import typed

MANIFEST = {
    "host": "node07",
    "seconds": 12.4,
    "files": [captured.entry("/etc/shadow", secret=True), captured.entry("/etc/fstab")],
    "bins": {"package": {"files": 3, "bytes": 2000}, "captured": {"files": 2, "bytes": 10}},
    "remainder": [],
    "acknowledged": [],
    "sections": {"disks": {"root": {"source": "overlay"}, "container": "docker"}},
}


def lines(**further):
    return summary.result(typed({**MANIFEST, **further}, Manifest), Path("/c/node07/20261126T021500Z"))["lines"]


def test_it_says_where_the_capture_is_and_what_is_in_it():
    assert lines()[:4] == [
        "node07: captured to /c/node07/20261126T021500Z in 12 s, 2 files, 1 of them only in the encrypted archive",
        "  3  2 kB  of packages, unchanged",
        "  2  10 B  captured",
        "  nothing is left over",
    ]


def test_what_a_reinstall_would_lose_is_listed_with_a_remedy_the_largest_first():
    left = [
        {"path": "/opt/a", "files": 1, "bytes": 1, "owner": "root", "why": ""},
        {
            "path": "/opt/\x1b[31m\udcff",
            "files": 2,
            "bytes": 5_000_000,
            "owner": "li",
            "why": "too large",
        },
    ]
    said = lines(remainder=left)
    at = said.index("  LEFT OVER: 3 files, 5 MB. A reinstall would lose them:")
    assert said[at + 2].split() == [r"/opt/\x1b[31m\udcff", "2", "5", "MB", "li", "too", "large"]
    assert said[at + 3].split() == ["/opt/a", "1", "1", "B", "root"]
    assert "capture_acknowledged" in said[at + 4]


def test_a_name_that_is_not_utf_8_does_not_disturb_what_shows_the_run():
    left = [{"path": "/opt/\udcff", "files": 1, "bytes": 1, "owner": "root", "why": ""}]
    told = summary.result(typed({**MANIFEST, "remainder": left}, Manifest), None)
    assert told["remainder"][0]["path"] == r"/opt/\udcff"
    json.dumps(told, ensure_ascii=False).encode("utf-8")


def test_a_long_list_is_cut_and_says_so():
    left = [{"path": f"/{n}", "files": 1, "bytes": 1, "owner": "root", "why": ""} for n in range(summary.MOST + 3)]
    assert "    and 3 more; the manifest has all" in lines(remainder=left)


def test_a_file_without_a_name_is_named():
    one = {"path": "/srv/x", "bytes": 4096, "program": "sleep", "process": 7}
    assert "  sleep (process 7) writes to /srv/x, 4 kB, which is deleted: it ends with the process" in lines(
        open_deleted=[one]
    )


def test_in_check_mode_nothing_is_said_to_be_written():
    assert summary.result(typed(MANIFEST, Manifest), None)["lines"][0].startswith("node07: would be captured in 12 s")


def test_damage_of_the_capture_before_is_shown():
    found = summary.result(typed(MANIFEST, Manifest), Path("/c"), ["files/etc/fstab is missing or was changed"])
    assert found["lines"][1] == "  the capture before: files/etc/fstab is missing or was changed"
    assert found["damage"] == ["files/etc/fstab is missing or was changed"]


def test_a_long_path_does_not_spread_the_table():
    left = [{"path": "/srv" + "/d" * 2000 + "/end", "files": 1, "bytes": 1, "owner": "root", "why": ""}]
    (line,) = [line for line in lines(remainder=left) if "/srv" in line]
    assert len(line) < 120
    assert "..." in line
    assert "/d/end " in line


def test_what_the_lab_gives_up_does_not_stand_against_a_reinstall(tmp_path):
    disks = hardware.encrypted_root().read(tmp_path)
    manifest = typed({**MANIFEST, "sections": {"disks": disks}}, Manifest)
    assert any("GPULAB-R080" in line for line in summary.result(manifest, None)["lines"])
    assert not any("stands against" in line for line in summary.result(manifest, None, allow=["unencrypted"])["lines"])
