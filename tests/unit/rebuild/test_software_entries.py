"""Captured files of APT and jobs, put back as they were."""

import base64
import os

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import software_entries


def entry(path, data=None, mode="0644", **more):
    kind = "link" if "target" in more else "directory" if data is None else "file"
    names = {"owner": "nobody-of-this-name", "uid": os.getuid(), "group": "no-such-group", "gid": os.getgid()}
    content = {} if data is None else {"data": base64.b64encode(data).decode()}
    return {"path": path, "kind": kind, "mode": mode, **names, **content, **more}


ENTRIES = [
    entry("/etc/cron.d", mode="0750"),
    entry("/etc/cron.d/report", b"17 3 * * * root true\n", mode="0600"),
    entry("/etc/systemd/system/a.target.wants/a.service", target="/etc/systemd/system/a.service", mode="0777"),
]


@pytest.fixture
def root(tmp_path):
    software_entries.put(ENTRIES, tmp_path)
    return tmp_path


def test_all_kinds_come_back_with_their_modes(root):
    file = root / "etc/cron.d/report"
    assert file.read_bytes() == b"17 3 * * * root true\n"
    assert file.stat().st_mode & 0o7777 == 0o600
    assert (root / "etc/cron.d").stat().st_mode & 0o7777 == 0o750
    assert str((root / "etc/systemd/system/a.target.wants/a.service").readlink()) == "/etc/systemd/system/a.service"
    assert software_entries.differing(ENTRIES, root) == []
    assert not list(root.rglob("*.gpulab"))


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "etc/cron.d/report").write_text("edited"),
        lambda root: (root / "etc/cron.d/report").chmod(0o644),
        lambda root: (root / "etc/cron.d/report").unlink(),
        lambda root: (root / "etc/cron.d").chmod(0o755),
    ],
)
def test_each_difference_is_seen_and_repaired(root, change):
    change(root)
    (path,) = {one["path"] for one in software_entries.differing(ENTRIES, root)}
    assert path.startswith("/etc/cron.d")
    software_entries.put(software_entries.differing(ENTRIES, root), root)
    assert software_entries.differing(ENTRIES, root) == []


def test_a_link_that_leads_elsewhere_is_replaced_and_not_followed(root):
    link = root / "etc/systemd/system/a.target.wants/a.service"
    link.unlink()
    (root / "other").write_text("theirs")
    link.symlink_to(root / "other")
    software_entries.put(ENTRIES, root)
    assert software_entries.differing(ENTRIES, root) == []
    assert (root / "other").read_text() == "theirs"


def test_what_people_put_in_the_place_of_a_file_stays(root):
    (root / "etc/cron.d/report").unlink()
    (root / "etc/cron.d/report").mkdir()
    (root / "etc/cron.d/report/mine").write_text("x")
    with pytest.raises(OSError, match="not empty"):
        software_entries.put(ENTRIES, root)
    assert (root / "etc/cron.d/report/mine").read_text() == "x"


def test_an_owner_is_found_by_name_before_number():
    assert software_entries.owner({"owner": "root", "uid": 12345, "group": "no-such-group", "gid": 54321}) == (0, 54321)
