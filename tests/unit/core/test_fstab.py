"""The lines of /etc/fstab, as four readers take them: what is left out, written in octal, or ends with a slash."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.fstab import Line, parse


@pytest.mark.parametrize(
    ("text", "source", "mount", "kind", "options"),
    [
        ("UUID=1 /data ext4 noatime,nofail 0 2", "UUID=1", "/data", "ext4", ("noatime", "nofail")),
        ("  UUID=1\t/data/  xfs", "UUID=1", "/data", "xfs", ()),
        ("nas:/with\\040space /mnt/a\\011b", "nas:/with space", "/mnt/a\tb", "", ()),
        ("/swapfile none swap sw 0 0", "/swapfile", "none", "swap", ("sw",)),
    ],
)
def test_a_line(text, source, mount, kind, options):
    (line,) = parse(text)
    assert (line.source, line.mount, line.type, line.options) == (source, mount, kind, options)


def test_what_is_no_line_is_left_out():
    assert parse("# UUID=1 /data ext4\n\n   # a comment\n  #/dev/sdb /x ext4\nword\n") == []


def test_swap_is_known_by_what_it_is():
    assert [line.place for line in parse("/swapfile none swap\nUUID=1 /data/ xfs")] == ["/swapfile", "/data"]


def test_fields_that_may_be_left_out_are_written_where_another_follows():
    assert str(Line(("UUID=1", "/data")).with_(options=["ro"])) == "UUID=1 /data auto ro"
