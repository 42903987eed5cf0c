"""APT sources: what Debian's archive lacks, and nothing of anybody else's."""

from dataclasses import replace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_sources import (
    Source,
    missing,
    origin,
    parse,
    render,
)

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


def signed_by(keyring):
    return (("Signed-By", keyring),)


def test_one_line_sources():
    assert parse("/etc/apt/sources.list", ONE_LINE, "amd64") == [
        Source("/etc/apt/sources.list", "http://mirror.example/debian", "bookworm", ("main", "contrib")),
        Source(
            "/etc/apt/sources.list",
            "https://vendor.example/debian",
            "bookworm",
            ("main",),
            (("Architectures", "amd64"), *signed_by("/usr/share/keyrings/vendor.gpg")),
        ),
    ]


def test_deb822_sources():
    found = parse("/etc/apt/sources.list.d/debian.sources", DEB822, "amd64")
    assert [source.suite for source in found] == ["trixie", "trixie-updates"]
    assert {source.signed_by for source in found} == {"/usr/share/keyrings/debian-archive-keyring.gpg"}


def test_what_each_suite_lacks():
    file, keyring = "/etc/apt/sources.list.d/debian.sources", "/usr/share/keyrings/debian-archive-keyring.gpg"
    assert missing(parse(file, DEB822, "amd64"), ["main", "contrib"]) == [
        Source(file, "http://mirror.example/debian", suite, ("contrib",), signed_by(keyring))
        for suite in ("trixie", "trixie-updates")
    ]


def test_components_that_gpulab_declares_for_another_role_count():
    """Without Signed-By, a file of gpulab's own does not look like the distribution's; twice makes apt complain."""
    sources = [
        Source("/etc/apt/sources.list", "http://mirror.example/debian", "bookworm", ("main",)),
        Source("/etc/apt/sources.list.d/gpulab-x.sources", "http://mirror.example/debian/", "bookworm", ("contrib",)),
    ]
    assert [source.components for source in missing(sources, ["contrib", "non-free"])] == [("non-free",)]


def test_components_may_stand_in_several_files():
    sources = [
        Source("/etc/apt/sources.list", "http://mirror.example/debian/", "bookworm", ("main",)),
        Source("/etc/apt/sources.list", "http://mirror.example/debian", "bookworm", ("contrib",)),
    ]
    assert missing(sources, ["main", "contrib"]) == []


@pytest.mark.parametrize(
    ("file", "options"),
    [
        pytest.param("/etc/apt/sources.list", signed_by("/etc/apt/keyrings/vendor.asc"), id="the-installers-file"),
        pytest.param("/etc/apt/sources.list.d/vendor.list", (), id="another-file"),
        pytest.param(
            "/etc/apt/sources.list.d/vendor.sources", signed_by("/usr/share/keyrings/vendor.gpg"), id="another-key"
        ),
    ],
)
def test_a_vendors_repository_is_left_alone(file, options):
    vendor = Source(file, "https://vendor.example/debian", "bookworm", ("main",), options)
    assert missing([vendor], ["non-free"]) == []


RING = "/usr/share/keyrings/debian-archive-keyring.gpg"
VENDORS = {
    "flat": "deb [trusted=yes] file:/srv/updates ./",
    "flat, with the distribution's key": f"deb [signed-by={RING}] file:/srv/updates ./",
    "flat, at the top": "deb https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/ /",
    "components of its own": "deb https://download.docker.com/linux/debian bookworm stable",
}


@pytest.mark.parametrize("line", VENDORS.values(), ids=VENDORS)
def test_a_vendors_line_in_the_installers_file_is_left_alone(line):
    assert missing(parse("/etc/apt/sources.list", line, "amd64"), ["contrib"]) == []


LAMBDA = "deb http://archive.lambdalabs.com/ubuntu jammy main"  # NVIDIA/nvidia-container-toolkit#170
BESIDE_A_VENDOR = {
    "the archive's host": ("deb http://archive.ubuntu.com/ubuntu jammy main universe", ""),
    "a country's host": ("deb http://de.archive.ubuntu.com/ubuntu jammy main universe", ""),
    "the archive's key": (f"deb [signed-by={RING}] http://mirror.example/ubuntu jammy main universe", ""),
    "the Release file of a mirror": ("deb http://mirror.example/ubuntu jammy main universe", "Ubuntu"),
}


@pytest.mark.parametrize(("archive", "told"), BESIDE_A_VENDOR.values(), ids=BESIDE_A_VENDOR)
def test_a_vendor_with_main_and_no_key_is_told_from_the_archive(archive, told):
    own, vendor = parse("/etc/apt/sources.list", f"{archive}\n{LAMBDA}", "amd64")
    (lack,) = missing([replace(own, origin=told), replace(vendor, origin="Lambda Labs")], ["restricted"])
    assert lack.uri == own.uri


def test_a_mirror_beside_the_archives_own_host_is_left_to_it():
    """Hetzner's images declare both; the components come from one of them."""
    text = "deb http://mirror.hetzner.com/ubuntu jammy main\ndeb http://archive.ubuntu.com/ubuntu jammy main\n"
    (lack,) = missing(parse("/etc/apt/sources.list", text, "amd64"), ["restricted"])
    assert lack.uri == "http://archive.ubuntu.com/ubuntu"


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("http://mirror.example/debian/", "mirror.example_debian_dists_bookworm_InRelease"),
        ("https://user:pw@mirror.example:8080/a_b", "mirror.example:8080_a%5fb_dists_bookworm_InRelease"),
    ],
)
def test_the_release_file_is_called_as_apt_calls_it(uri, name):
    assert Source("f", uri, "bookworm", ("main",)).release_files[0] == name


def test_the_release_file_of_a_flat_repository_is_beside_its_packages():
    flat = Source("f", "https://v.example/apt/x86_64/", "/", ())
    assert flat.release_files[0] == "v.example_apt_x86%5f64_InRelease"


@pytest.mark.parametrize(("text", "found"), [("Suite: x\nOrigin: Lambda Labs\n", "Lambda Labs"), ("", "")])
def test_the_publisher_is_read_from_the_release_file(text, found):
    assert origin(text) == found


MIRROR = "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\nComponents: main\n"
ARCHIVES = {
    "the keyring of one release": (
        "sources.list",
        f"deb [signed-by={RING.replace('keyring.', 'bookworm-stable.')}] http://mirror.example/debian bookworm main",
    ),
    "a mirror that signs again": (
        "sources.list.d/debian.sources",
        f"{MIRROR}Signed-By: /etc/apt/keyrings/mirror.asc\n",
    ),
    "components that stand alone": (
        "sources.list",
        "deb http://mirror.example/debian bookworm main\ndeb http://mirror.example/debian bookworm non-free",
    ),
}


@pytest.mark.parametrize(("file", "text"), ARCHIVES.values(), ids=ARCHIVES)
def test_the_archive_is_known(file, text):
    (lack,) = missing(parse(f"/etc/apt/{file}", text, "amd64"), ["contrib"])
    assert (lack.uri, lack.components) == ("http://mirror.example/debian", ("contrib",))


KEY = ("-----BEGIN PGP PUBLIC KEY BLOCK-----", ".", "mDMEZ", "-----END PGP PUBLIC KEY BLOCK-----")
OPTIONS = {
    "none": ("sources.list", "deb http://mirror.example/debian bookworm main", {}),
    "a snapshot": (
        "sources.list",
        "deb [ check-valid-until=no trusted=yes ] http://mirror.example/debian bookworm main",
        {"Check-Valid-Until": "no", "Trusted": "yes"},
    ),
    "lists": (
        "sources.list",
        "deb [arch=amd64,i386 lang+=de,fr target-=DEP-11] http://mirror.example/debian bookworm main",
        {"Architectures": "amd64 i386", "Languages-Add": "de fr", "Targets-Remove": "DEP-11"},
    ),
    "deb822": (
        "sources.list.d/debian.sources",
        f"{MIRROR}Trusted: yes\nby-hash: no\n",
        {"Trusted": "yes", "By-Hash": "no"},
    ),
    "the key inside": (
        "sources.list.d/debian.sources",
        "\n ".join([f"{MIRROR}Signed-By:", *KEY]),
        {"Signed-By": "\n".join(["", *KEY])},
    ),
}


@pytest.mark.parametrize(("file", "text", "options"), OPTIONS.values(), ids=OPTIONS)
def test_what_is_missing_keeps_the_options_of_the_archive(file, text, options):
    written = render(missing(parse(f"/etc/apt/{file}", text, "amd64"), ["contrib", "non-free"]))
    (read,) = parse("x.sources", written, "amd64")
    assert (read.uri, read.suite, read.components) == (
        "http://mirror.example/debian",
        "bookworm",
        ("contrib", "non-free"),
    )
    assert dict(read.options) == options


def test_a_disc_is_no_archive():
    disc = "deb cdrom:[Debian GNU/Linux 12.5.0 _Bookworm_ - Official amd64 NETINST]/ bookworm main"
    assert parse("/etc/apt/sources.list", disc, "amd64") == []


def test_nothing_is_written_where_nothing_is_missing():
    assert render([]) == ""
