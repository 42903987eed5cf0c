"""Nothing goes within a major version that users build on."""

import interface
import pytest

WRITTEN = set(interface.WRITTEN.read_text(encoding="utf-8").splitlines())


def test_what_the_release_has_is_still_there():
    assert sorted(WRITTEN - interface.interface()) == [], "docs/stability.md promises it until the next major version"


@pytest.mark.parametrize(
    "line",
    ["setting reboot_policy str never", "code H001", "tag cuda", "field report hosts", "check drift", "role cuda"],
)
def test_each_kind_is_written_down(line):
    assert line in WRITTEN
