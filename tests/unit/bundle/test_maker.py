"""A bundle of a stand-in archive and a stand-in package index, made by real APT, uv, gpg and ssh-keygen."""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import shutil
import sys
import threading
import time
import zipfile
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.bundle.folder import SUMS, Folder, faults
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments.venv import Wanted as WantedEnvironment
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_repository import Repository
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_sources import Source
from ansible_collections.gpulab.node.plugins.module_utils.packages.plan import Wishes
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle import fetching, folder, sbom, wheels
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.apt_root import System, Wanted
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.hosts import Captured, Host
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.keys import Keys
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.maker import Maker, Refused
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.wheels import Asked, Uv

sys.path.append(str(Path(__file__).parents[2] / "stubs"))
from deb import Package
from repository import public_key, signing_key, write_packages, write_release

pytestmark = pytest.mark.slow
MADE = datetime(2026, 11, 28, tzinfo=timezone.utc)
KEYRING = "/usr/share/keyrings/stand-in.asc"
VENDORS = "/etc/apt/keyrings/gpulab-vendor.asc"
STATUS = (  # of a node that has one package already
    "Package: libthere\nStatus: install ok installed\nVersion: 1\nArchitecture: amd64\nMaintainer: x\n"
    "Description: x\n\n"
)
DISTRIBUTION = [
    Package("tool", "1", {"Depends": "libthere, libnew", "Recommends": "extra"}),
    Package("libthere", "1", {}),
    Package("libnew", "1~rc1+b2", {}),
    Package("extra", "1", {}),
    Package("driver", "9", {}),
    Package("linux-headers-cloud-amd64", "6.1-2", {"Source": "linux"}),
    Package("linux-image-cloud-amd64", "6.1-2", {"Source": "linux"}),
]
VENDOR = [
    Package("driver", "1", {"Depends": "libdriver (= 1)"}),
    Package("libdriver", "1", {}),
    Package("libnew", "7", {}),
]


class Ranged(http.server.SimpleHTTPRequestHandler):
    """Serves files, from where a client asks; tells what it was asked."""

    asked: ClassVar[list] = []

    def do_GET(self):  # noqa: D102 - the name is http.server's
        self.asked.append((self.path, self.headers.get("Range")))
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        data, start = path.read_bytes(), re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        rest = data[int(start[1]) :] if start else data
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.send_header("Content-Range", f"bytes {len(data) - len(rest)}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        self.wfile.write(rest)

    def log_message(self, *_arguments):  # noqa: D102
        pass


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a directory that is served, with the archive of a distribution, a vendor's flat one, and an index."""
    top = tmp_path_factory.mktemp("served")
    with signing_key("distribution") as home:
        index = write_packages(top / "debian", "pool/main", DISTRIBUTION)
        origin = {"Origin": "Debian", "Label": "Debian", "Suite": "stable", "Codename": "trixie", "Components": "main"}
        origin["Valid-Until"] = "Sat, 01 Jan 2050 00:00:00 UTC"
        write_release(top / "debian/dists/trixie", origin, {"main/binary-amd64/Packages": index}, home)
        (top / "debian.asc").write_bytes(public_key(home))
    with signing_key("vendor") as home:
        index = write_packages(top / "vendor", ".", VENDOR)
        write_release(top / "vendor", {"Origin": "Vendor", "Label": "Vendor, drivers"}, {"Packages": index}, home)
        (top / "vendor.asc").write_bytes(public_key(home))
    for name, files in {
        "needs": ["py3-none-any", "cp313-cp313-win_amd64"],
        "small": ["cp313-cp313-manylinux_2_17_x86_64"],
    }.items():
        (top / "simple" / name).mkdir(parents=True)
        requires = "Requires-Dist: small\n" if name == "needs" else ""
        links = []
        for tag in files:
            wheel = top / "simple" / name / f"{name}-1.0-{tag}.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                archive.writestr(
                    f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}"
                )
                archive.writestr(
                    f"{name}-1.0.dist-info/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n"
                )
                archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            links.append(f'<a href="{wheel.name}#sha256={digest}">{wheel.name}</a>')
        (top / "simple" / name / "index.html").write_text("\n".join(links))
    return top


@pytest.fixture(scope="module")
def address(place):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Ranged, directory=place)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def host(place, address):
    """Return a function that makes a host which asks for these packages, and for an environment."""
    vendor = address.replace("127.0.0.1", "localhost")  # priorities go by host
    repository = Repository("vendor", f"{vendor}/vendor", "/", (), "", ("driver",))
    sources = (
        Source("a.sources", f"{address}/debian", "trixie", ("main",), (("Signed-By", KEYRING),)),
        Source("b.sources", f"{vendor}/vendor", "/", (), (("Signed-By", VENDORS),)),
    )
    keyrings = ((KEYRING, (place / "debian.asc").read_bytes()), (VENDORS, (place / "vendor.asc").read_bytes()))
    system = System(("amd64",), sources, keyrings, repository.preferences(""))

    def made(*present, packages=("needs",), name="node1"):
        settings = {"UV_DEFAULT_INDEX": (place / "simple").as_uri(), "UV_FIND_LINKS": "", "UV_INDEX": ""}
        environment = WantedEnvironment("vision", "3.13", tuple(packages))
        asked = Asked(name, environment, "", "x86_64", "2.41", settings)
        wanted = tuple(Wanted(Wishes(present=(wish,), hold=(wish.partition("=")[0],))) for wish in present)
        return Host(name, system, STATUS.encode(), wanted, (asked,) if packages else (), (), "", (repository,))

    return made


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    keys = Keys(tmp_path_factory.mktemp("bundle") / "keys")
    keys.make()
    return keys


@pytest.fixture
def make(tmp_path, keys):
    """Return a function that makes a bundle for hosts."""

    def done(*hosts, directory=tmp_path / "bundle"):
        (directory / folder.WORK).mkdir(parents=True, exist_ok=True)
        maker = Maker(hosts, directory / folder.WORK)
        maker.uv = Uv(directory / folder.WORK, Path(shutil.which("uv")))
        contents = maker.contents("x86_64", lambda machine: machine)
        maker.fetch(directory, fetching.missing(directory, contents.all_files()))
        maker.write(directory, contents, keys, MADE, "1.1.0")
        return directory

    return done


def names(bundle):
    return {path.name for path in [*bundle.rglob("*.deb"), *bundle.rglob("*.whl")]}


def test_it_has_what_apt_and_uv_take_and_nothing_else(make, host, keys):
    bundle = make(host("tool", "driver"))
    assert names(bundle) == {
        *(
            "tool_1_amd64.deb",
            "libthere_1_amd64.deb",
            "libnew_1~rc1+b2_amd64.deb",
        ),  # recommended packages are not taken
        *("driver_1_amd64.deb", "libdriver_1_amd64.deb"),  # the vendor's, by its priority, though it is older
        *("needs-1.0-py3-none-any.whl", "small-1.0-cp313-cp313-manylinux_2_17_x86_64.whl"),
    }
    assert faults(Folder(bundle), (bundle / SUMS).read_bytes(), keys.signers.read_text()) == []
    release = next(bundle.glob("apt/*/debian/dists/trixie/Release")).read_text()
    assert "Origin: Debian\nLabel: Debian\nSuite: stable\n" in release
    assert "Valid-Until" not in release
    components = json.loads((bundle / "sbom.cdx.json").read_text())["components"]
    assert len(components) == len(names(bundle))
    assert not (bundle / folder.WORK).exists()
    of_host = json.loads((bundle / "bundle.json").read_text())["hosts"]["node1"]
    assert [source["release"] for source in of_host["sources"]] == ["o=Debian,l=Debian", "o=Vendor,l=Vendor? drivers"]
    assert of_host["wishes"] == ["driver", "tool"]


def test_what_a_rebuild_brings_back_is_in_it_and_what_nobody_has_any_more_is_said(make, host, tmp_path):
    asked = host("tool")
    environment = asked.environments[0]
    gone = replace(environment, wanted=WantedEnvironment("captured-1", "3.13", ("needs==7",)))
    own = {"/home/ada/venv": environment, "/home/ada/old": gone}
    had = Captured(("extra", "nosuch"), own)
    maker = Maker([replace(asked, environments=(), captured=had)], tmp_path)
    maker.uv = Uv(tmp_path, Path(shutil.which("uv")))
    lacking = maker.contents("x86_64", lambda machine: machine).lacking
    assert lacking[0] == "nosuch of the capture of node1: no package source has it"
    assert lacking[1].startswith("/home/ada/old of the capture of node1: ")
    bundle = make(replace(asked, environments=(), captured=had))
    assert {"extra_1_amd64.deb", "needs-1.0-py3-none-any.whl"} <= names(bundle)
    of_host = json.loads((bundle / "bundle.json").read_text())["hosts"]["node1"]
    assert (of_host["wishes"], of_host["environments"]) == (["extra", "tool"], {})


def test_the_headers_of_a_kernel_bring_no_newer_kernel(make, host):
    kernel = STATUS.replace("libthere", "linux-image-cloud-amd64").replace(
        "Version: 1", "Source: linux\nVersion: 6.1-1"
    )
    asked = replace(host("linux-headers-cloud-amd64", packages=()), status=(STATUS + kernel).encode())
    assert names(make(asked)) == {"linux-headers-cloud-amd64_6.1-2_amd64.deb"}


def test_two_bundles_of_the_same_are_equal_but_for_signatures(make, host, tmp_path):
    first, second = (make(host("tool", "driver"), directory=tmp_path / name) for name in ("first", "second"))
    names = list(folder.listed(first))
    assert names == list(folder.listed(second))
    differing = [name for name in names if (first / name).read_bytes() != (second / name).read_bytes()]
    assert {Path(name).name for name in differing} <= {"InRelease"}


def test_a_second_one_fetches_only_what_is_wrong_or_missing_and_goes_on_where_it_was_cut_off(make, host):
    bundle = make(host("tool"))
    there = next(bundle.rglob("tool_1_amd64.deb"))
    whole = there.read_bytes()
    there.unlink()
    digest = hashlib.sha256(whole).hexdigest()
    (bundle / folder.WORK / "parts").mkdir(parents=True)
    (bundle / folder.WORK / "parts" / digest).write_bytes(whole[:20])
    other = next(bundle.rglob("libnew*.deb"))
    other.write_bytes(b"X" + other.read_bytes()[1:])
    Ranged.asked.clear()
    make(host("tool"))
    assert there.read_bytes() == whole
    fetched = {Path(path).name: from_where for path, from_where in Ranged.asked if path.endswith(".deb")}
    assert fetched == {"tool_1_amd64.deb": "bytes=20-", "libnew_1~rc1%2Bb2_amd64.deb": "bytes=0-"}


def test_what_no_host_gets_any_more_goes(make, host):
    make(host("tool", "driver"))
    assert not {"driver_1_amd64.deb", "needs-1.0-py3-none-any.whl"} & names(make(host("tool", packages=())))


def test_all_that_cannot_be_had_is_said_at_once_and_nothing_is_fetched(make, host, tmp_path):
    with pytest.raises(Refused) as said:
        make(host("tool", "nosuch", name="node1"), host("tool=7", "neither", packages=["unknown"], name="node2"))
    told = [str(refusal) for refusal in said.value.refusals]
    assert [refusal.code for refusal in said.value.refusals] == ["B010", "B010"]
    assert "node1" in told[0]
    assert "nosuch" in told[0]
    assert all(name in told[1] for name in ("node2", "tool", "7", "neither"))
    assert names(tmp_path / "bundle") == set()


def test_an_environment_that_has_no_wheel_for_the_machine_is_refused(make, host, place):
    text = "needs==1.0 --hash=sha256:" + hashlib.sha256(next(place.rglob("*win_amd64.whl")).read_bytes()).hexdigest()
    wanted = host("tool")
    (asked,) = wanted.environments
    object.__setattr__(asked.wanted, "lock", text)
    with pytest.raises(Refused, match=r"B011 .*vision of node1.* needs"):
        make(wanted)


def test_a_key_that_does_not_sign_a_source_stops_it(make, host, place):
    wanted = host("tool", packages=())
    foreign = (place / "vendor.asc").read_bytes()
    object.__setattr__(wanted.system, "keyrings", ((KEYRING, foreign), (VENDORS, foreign)))
    with pytest.raises(Refused, match=r"B010 .*(?:signature|public key|signed|verif)"):
        make(wanted)


def test_a_source_whose_release_is_expired_stops_it(make, host, place, address):
    with signing_key("distribution") as home:
        index = (place / "debian/dists/trixie/main/binary-amd64/Packages").read_bytes()
        gone = {
            "Origin": "Debian",
            "Suite": "old",
            "Components": "main",
            "Valid-Until": "Sat, 01 Jan 2022 00:00:00 UTC",
        }
        write_release(place / "debian/dists/old", gone, {"main/binary-amd64/Packages": index}, home)
        key = public_key(home)
    wanted = host("tool", packages=())
    source = Source("a.sources", f"{address}/debian", "old", ("main",), (("Signed-By", KEYRING),))
    object.__setattr__(wanted.system, "sources", (source,))
    object.__setattr__(wanted.system, "keyrings", ((KEYRING, key),))
    with pytest.raises(Refused, match=r"B010 .*expired"):
        make(wanted)


def test_a_bundle_with_a_hole_is_not_signed(make, host, monkeypatch, tmp_path):
    def lose(directory, *_contents):
        next(directory.rglob("libdriver_1_amd64.deb")).unlink()

    monkeypatch.setattr(sbom, "write", lose)  # the last that is written before the proof
    with pytest.raises(Refusal, match=r"B012 .*node1 .*driver: libdriver_1_amd64.deb is missing"):
        make(host("driver", packages=()))
    assert not (tmp_path / "bundle" / folder.SUMS).exists()


def test_a_wheel_that_is_missing_is_a_hole_too(make, host, monkeypatch):
    monkeypatch.setattr(wheels, "write_index", lambda *_contents: None)
    with pytest.raises(Refusal, match=r"B012 .*the environment vision"):
        make(host("tool"))


def test_too_little_space_is_refused(tmp_path):
    with pytest.raises(Refusal, match=r"B002"):
        fetching.check_space(tmp_path / "new", [fetching.File("a", "b", 1 << 60, "0")])


def test_a_file_of_no_index_is_as_large_as_its_server_says(address, place):
    file = fetching.File("files/x", f"{address}/debian.asc", 0, "0")
    assert fetching.with_size(file).size == len((place / "debian.asc").read_bytes())
    gone = fetching.File("files/y", f"{address}/nothing", 0, "0")
    assert fetching.with_size(gone) == gone


def test_files_of_the_same_content_do_not_take_each_others_part(tmp_path, monkeypatch):
    """Two models of one family have the same configuration; they come at the same time."""
    (tmp_path / "source").write_bytes(b"config")
    digest = hashlib.sha256(b"config").hexdigest()
    files = [fetching.File(f"files/{number}", (tmp_path / "source").as_uri(), 0, digest) for number in range(4)]
    save = fetching.download.save

    def slowly(*arguments):
        save(*arguments)
        time.sleep(0.2)

    monkeypatch.setattr(fetching.download, "save", slowly)
    fetching.fetch(tmp_path, files)
    assert fetching.missing(tmp_path, files) == []


def test_what_has_another_sha256_than_its_index_says_never_gets_its_name(tmp_path, address):
    wrong = fetching.with_size(fetching.File("files/x", f"{address}/debian.asc", 0, "0" * 64))
    gone = fetching.File("files/y", f"{address}/nothing", 1, "1" * 64)
    with pytest.raises(Refusal, match=r"B020 2 files .*files/x .*another SHA-256 .*files/y"):
        fetching.fetch(tmp_path, [wrong, gone])
    assert not (tmp_path / "files").exists()
