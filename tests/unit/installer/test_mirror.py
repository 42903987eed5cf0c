"""What Debian's installer needs of a mirror, asked of a mirror that is made for it."""

import lzma
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import mirror

KERNEL, NEWER = "6.1.0-50-amd64", "6.1.0-56-amd64"


def record(name, *, priority="optional", kernel=None, depends="", provides=""):
    fields = {
        "Package": name,
        "Priority": priority,
        "Kernel-Version": kernel,
        "Depends": depends,
        "Provides": provides,
        "Description": "a part\n which goes on",
        "Filename": f"pool/main/{name}.udeb",
    }
    return "".join(f"{key}: {value}\n" for key, value in fields.items() if value)


INDEX = [
    record("anna", priority="standard", depends="cdebconf-udeb (>= 0.1) | other"),
    record("libdebconf", provides="cdebconf-udeb"),
    record(f"kernel-image-{KERNEL}-di", priority="standard", kernel=KERNEL),
    record(f"sata-modules-{KERNEL}-di", priority="standard", kernel=KERNEL, depends=f"scsi-modules-{KERNEL}-di"),
    record(f"scsi-modules-{KERNEL}-di", kernel=KERNEL),
    record(f"sata-modules-{NEWER}-di", priority="standard", kernel=NEWER),
    record("games-udeb"),
    *(record(name) for name in mirror._FOR_A_DISK),  # noqa: SLF001 - what it asks for
]
NEEDED = len(INDEX) - 2  # not of the other kernel, and not what nothing depends on


@pytest.fixture
def served():
    """Return a function that serves an index and all packages but some; it returns the address and what was asked."""
    servers = []

    def serve(index=INDEX, missing=(), broken=()):
        asked = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                packed = lzma.compress("\n".join(index).encode())
                self.send_response(200)
                self.send_header("Content-Length", str(len(packed)))
                self.end_headers()
                self.wfile.write(packed)

            def do_HEAD(self):
                asked.append(self.path)
                name = self.path.rpartition("/")[2].removesuffix(".udeb")
                self.send_response(404 if name in missing else 500 if name in broken else 200)
                self.end_headers()

            def log_message(self, *_args):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/debian", asked

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def refusal(*args):
    with pytest.raises(Refusal) as refused:
        mirror.check(*args)
    return refused.value


def test_a_mirror_that_has_everything(served):
    address, asked = served()
    assert mirror.check(f"{address}/", "bookworm", KERNEL) == NEEDED
    assert asked[0] == "/debian/dists/bookworm/main/debian-installer/binary-amd64/Packages.xz"
    assert "/debian/pool/main/libdebconf.udeb" in asked  # by the name that it provides
    assert f"/debian/pool/main/scsi-modules-{KERNEL}-di.udeb" in asked  # as another one depends on it
    assert "/debian/pool/main/games-udeb.udeb" not in asked
    assert f"/debian/pool/main/sata-modules-{NEWER}-di.udeb" not in asked


def test_a_mirror_that_has_gone_on_to_a_newer_kernel(served):
    address, _asked = served()
    found = refusal(address, "bookworm", "6.1.0-47-amd64")
    assert found.code == "R050"
    assert f"has the kernel 6.1.0-47-amd64, and {address} has modules for {KERNEL}, {NEWER} only" in str(found)


def test_a_mirror_without_some_packages(served):
    address, _asked = served(missing={"anna", f"scsi-modules-{KERNEL}-di"})
    found = refusal(address, "bookworm", KERNEL)
    assert found.code == "R051"
    assert f"does not have 2 of the {NEEDED} packages" in str(found)
    assert f"anna, scsi-modules-{KERNEL}-di" in str(found)


def test_a_list_without_a_package_that_is_needed(served):
    address, _asked = served([one for one in INDEX if "grub-installer" not in one])
    found = refusal(address, "bookworm", KERNEL)
    assert (found.code, "grub-installer" in str(found)) == ("R051", True)


def test_a_mirror_that_fails(served):
    address, _asked = served(broken={"anna"})
    assert refusal(address, "bookworm", KERNEL).code == "R052"


def test_no_mirror_at_all(monkeypatch):
    monkeypatch.setattr(mirror.download, "PAUSE", 0)
    found = refusal("http://127.0.0.1:9/debian", "bookworm", KERNEL)
    assert found.code == "R052"
    assert "Packages.xz cannot be read" in str(found)


def test_the_version_of_a_kernel(tmp_path):
    data = bytearray(0x3000)
    data[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", data, 0x20E, 0x1000)
    data[0x1200:0x1220] = b"6.1.0-50-amd64 (debian-kernel@x)"
    (tmp_path / "linux").write_bytes(data)
    assert mirror.kernel_version(tmp_path / "linux") == KERNEL


@pytest.mark.parametrize("content", [b"", b"\x7fELF" * 1000, None])
def test_what_is_no_kernel(tmp_path, content):
    if content is not None:
        (tmp_path / "linux").write_bytes(content)
    with pytest.raises(Refusal) as refused:
        mirror.kernel_version(tmp_path / "linux")
    assert refused.value.code == "R052"
