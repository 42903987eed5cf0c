"""The mounts and the swap that the kernel tells of: odd names, lines that are cut off, places mounted over."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import (
    Mount,
    Swap,
    every_mount,
    holding,
    mounts,
    swaps,
    unescaped,
)

ROOT = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
OVER = "23 22 8:2 /sub / ro - xfs /dev/sda2 rw\n"
DATA = "24 22 8:3 / /data rw - ext4 /dev/sda3 rw\n"
HEADER = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


@pytest.mark.parametrize(
    ("line", "mount"),
    [
        pytest.param(
            ROOT, Mount("/", "/dev/sda1", "ext4", "8:1", frozenset({"rw", "relatime"}), "/"), id="optional-field"
        ),
        pytest.param(
            r"41 1 0:52 / /mnt/my\040disk rw,noatime - nfs server:/a\040b\134c rw,vers=4.2",
            Mount("/mnt/my disk", r"server:/a b\c", "nfs", "0:52", frozenset({"rw", "noatime", "vers=4.2"})),
            id="octal",
        ),
        pytest.param(
            "41 1 0:52 /.snap /mnt/数据\u00a0a\u2028b ro - btrfs /dev/sdb",
            Mount("/mnt/数据\u00a0a\u2028b", "/dev/sdb", "btrfs", "0:52", frozenset({"ro"}), "/.snap"),
            id="spaces-that-only-unicode-knows",
        ),
        pytest.param(
            "41 1 0:52 / /mnt rw - autofs  rw", Mount("/mnt", "", "autofs", "0:52", frozenset({"rw"})), id="no-source"
        ),
    ],
)
def test_a_mount(line, mount):
    assert every_mount(line) == mounts(line) == [mount]


@pytest.mark.parametrize(
    "line", ["", "41 1 0:52 / /mnt rw", "41 1 0:52 / /mnt - ext4 /dev/sda1", "41 1 - ext4", ROOT[:-20]]
)
def test_a_line_that_is_cut_off_is_no_mount(line):
    assert every_mount(f"{line}\n{DATA}") == every_mount(DATA)


def test_a_later_mount_hides_an_earlier():
    assert [mount.device for mount in every_mount(ROOT + OVER)] == ["8:1", "8:2"]
    (seen,) = mounts(ROOT + OVER)
    assert (seen.type, seen.root, seen.read_only, seen.waits) == ("xfs", "/sub", True, False)


@pytest.mark.parametrize(
    ("path", "device"),
    [("/", "8:2"), ("/data", "8:3"), ("/data/set", "8:3"), ("/database", "8:2"), ("/home", "8:2")],
)
@pytest.mark.parametrize("parse", [every_mount, mounts])
def test_the_mount_of_a_path(parse, path, device):
    assert holding(path, parse(ROOT + DATA + OVER)).device == device


def test_no_mount_holds_a_path_where_none_is_known():
    assert holding("/home", mounts(DATA)) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (HEADER + "/dev/sda3 partition 16777212 2048 -2\n", {"/dev/sda3": Swap(16383, 2)}),
        (HEADER + "/a\\040b file 1048576 2048 -3\n", {"/a b": Swap(1024, 2)}),
        (HEADER + "/数据 file 2048 0 -3\n/cut file 20\n/odd file x 1 -2\n", {"/数据": Swap(2, 0)}),
        (HEADER, {}),
        ("", {}),
    ],
)
def test_swaps(text, found):
    assert swaps(text) == found


@pytest.mark.parametrize(("field", "meant"), [(r"a\040b\011c", "a b\tc"), (r"\134040", r"\040"), (r"\08", r"\08")])
def test_octal_is_resolved_once(field, meant):
    assert unescaped(field) == meant
