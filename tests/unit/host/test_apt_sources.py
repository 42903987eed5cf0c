"""APT sources: what Debian's archive lacks, and nothing of anybody else's."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.apt_sources import Source, missing, parse, render

ONE_LINE = """
# a comment
deb http://mirror.example/debian bookworm main contrib   # trailing comment
deb [arch=amd64 signed-by=/usr/share/keyrings/vendor.gpg] https://vendor.example/debian bookworm main
deb-src http://mirror.example/debian bookworm main
not a source at all
"""

DEB822 = """\
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: trixie trixie-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

# switched off
Types: deb
URIs: http://mirror.example/debian
Suites: trixie-backports
Components: main
Enabled: no
"""


def test_one_line_sources():
    assert parse("/etc/apt/sources.list", ONE_LINE, "amd64") == [
        Source("/etc/apt/sources.list", "http://mirror.example/debian", "bookworm", ("main", "contrib"), ""),
        Source(
            "/etc/apt/sources.list",
            "https://vendor.example/debian",
            "bookworm",
            ("main",),
            "/usr/share/keyrings/vendor.gpg",
        ),
    ]


def test_deb822_sources():
    found = parse("/etc/apt/sources.list.d/debian.sources", DEB822, "amd64")
    assert [source.suite for source in found] == ["trixie", "trixie-updates"]
    assert {source.signed_by for source in found} == {"/usr/share/keyrings/debian-archive-keyring.gpg"}


def test_what_each_suite_lacks():
    sources = parse("/etc/apt/sources.list.d/debian.sources", DEB822, "amd64")
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    assert missing(sources, ["main", "contrib"]) == {
        ("http://mirror.example/debian", "trixie", keyring): ["contrib"],
        ("http://mirror.example/debian", "trixie-updates", keyring): ["contrib"],
    }


def test_components_that_gpulab_declares_for_another_role_count():
    """Without Signed-By, a file of gpulab's own does not look like the distribution's; twice makes apt complain."""
    sources = [
        Source("/etc/apt/sources.list", "http://mirror.example/debian", "bookworm", ("main",), ""),
        Source(
            "/etc/apt/sources.list.d/gpulab-x.sources", "http://mirror.example/debian/", "bookworm", ("contrib",), ""
        ),
    ]
    assert missing(sources, ["contrib", "non-free"]) == {("http://mirror.example/debian", "bookworm", ""): ["non-free"]}


def test_components_may_stand_in_several_files():
    sources = [
        Source("/etc/apt/sources.list", "http://mirror.example/debian/", "bookworm", ("main",), ""),
        Source("/etc/apt/sources.list", "http://mirror.example/debian", "bookworm", ("contrib",), ""),
    ]
    assert missing(sources, ["main", "contrib"]) == {}


@pytest.mark.parametrize(
    ("file", "signed_by"),
    [
        pytest.param("/etc/apt/sources.list.d/vendor.list", "", id="another-file"),
        pytest.param("/etc/apt/sources.list.d/vendor.sources", "/usr/share/keyrings/vendor.gpg", id="another-key"),
    ],
)
def test_a_vendors_repository_is_left_alone(file, signed_by):
    vendor = Source(file, "https://vendor.example/debian", "bookworm", ("main",), signed_by)
    assert missing([vendor], ["non-free"]) == {}


def test_render():
    lacks = {("http://mirror.example/debian", "bookworm", "/k.gpg"): ["contrib", "non-free"]}
    assert parse("x.sources", render(lacks), "amd64") == [
        Source("x.sources", "http://mirror.example/debian", "bookworm", ("contrib", "non-free"), "/k.gpg")
    ]
    assert render({}) == ""
