"""Make images of work of busybox, as OCI layouts in /mnt/stick, and push one into a registry.

python3 work_images.py [ADDRESS AUTHORITY]: ADDRESS is where the registry has an image, AUTHORITY certificates.
Prints a digest a line: tools (a manifest), arm, large, bomb, newer, and more, a list of Docker's for the registry.
The image "tools" has all that an image must not bring to a node: setuid programs, devices, ways out.
"""

import gzip
import hashlib
import io
import json
import shutil
import ssl
import sys
import tarfile
import urllib.request
from pathlib import Path

STICK = Path("/mnt/stick")
APPLETS = ["sh", "true", "id", "cat", "ls", "env", "sleep", "touch", "grep", "echo", "stat"]
OCI, DOCKER = "application/vnd.oci.image", "application/vnd.docker"
BUSYBOX = Path("/bin/busybox").read_bytes()


def blob(data):
    """Put data into the layout; return its digest."""
    name = hashlib.sha256(data).hexdigest()
    path = STICK / "blobs/sha256" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return f"sha256:{name}"


def add(archive, name, data=None, **more):
    """Add a member; more are its attributes."""
    member = tarfile.TarInfo(name)
    member.mode, member.size = 0o755, len(data or b"")
    for key, value in more.items():
        setattr(member, key, value)
    archive.addfile(member, io.BytesIO(data or b""))


def layer(text, *, evil=False, megabytes=0):
    """Return a layer with a few programs, a text, and what else is asked for."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        add(archive, "bin", type=tarfile.DIRTYPE)
        add(archive, "bin/busybox", BUSYBOX)
        for applet in APPLETS:
            add(archive, f"bin/{applet}", type=tarfile.LNKTYPE, linkname="bin/busybox")
        add(archive, "words", text.encode(), mode=0o600, uid=1000)
        if evil:
            add(archive, "root/id", BUSYBOX, mode=0o6777)
            add(archive, "disk", type=tarfile.BLKTYPE, mode=0o666, devmajor=254, devminor=0)
            add(archive, "etc", type=tarfile.DIRTYPE)
            add(archive, "etc/shadow", type=tarfile.SYMTYPE, linkname="/etc/shadow")
            add(archive, "out", type=tarfile.SYMTYPE, linkname="../../../../../../etc")
            add(archive, "out/evil", b"evil")
            add(archive, "../../../../../../../../etc/evil2", b"evil")
            add(archive, "open", type=tarfile.DIRTYPE, mode=0o777)
        if megabytes:
            add(archive, "large", bytes(megabytes << 20))
    return stream.getvalue()


def image(data, architecture, form, kinds):
    """Return the digest of an image with a layer, in OCI's or in Docker's form, and the blobs that it names."""
    given = gzip.compress(data, 1, mtime=0) if "gzip" in kinds[1] else data
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Env": ["PATH=/bin", "GREETING=hello $HOME", "LD_LIBRARY_PATH=/compat"], "WorkingDir": "/open"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(data).hexdigest()}"]},
    }
    text = json.dumps(config).encode()
    parts = [(blob(text), len(text)), (blob(given), len(given))]
    (config_part, layer_part) = [
        {"mediaType": kind, "digest": digest, "size": size} for kind, (digest, size) in zip(kinds, parts)
    ]
    manifest = {"schemaVersion": 2, "mediaType": form, "config": config_part, "layers": [layer_part]}
    return blob(json.dumps(manifest).encode()), [digest for digest, _size in parts]


def oci(data, architecture="amd64", *, packed=False):
    """Return the digest of an image in OCI's form."""
    kinds = (f"{OCI}.config.v1+json", f"{OCI}.layer.v1.tar{'+gzip' if packed else ''}")
    return image(data, architecture, f"{OCI}.manifest.v1+json", kinds)[0]


class Registry:
    """Where a registry has an image."""

    def __init__(self, address, authority):
        """Trust an authority."""
        self._address, self._context = address, ssl.create_default_context(cafile=authority)

    def _send(self, method, address, data=b"", kind="application/octet-stream"):
        """Send data; return where the answer leads to."""
        request = urllib.request.Request(address, data, {"Content-Type": kind}, method=method)  # noqa: S310
        with urllib.request.urlopen(request, context=self._context) as answer:  # noqa: S310
            return answer.headers.get("Location")

    def push(self, data):
        """Push an image in Docker's form, and a list with it, as hubs have them; return the list's digest."""
        kind = f"{DOCKER}.distribution.manifest.v2+json"
        kinds = (f"{DOCKER}.container.image.v1+json", f"{DOCKER}.image.rootfs.diff.tar.gzip")
        digest, parts = image(data, "amd64", kind, kinds)
        for part in parts:
            place = self._send("POST", f"{self._address}/blobs/uploads/")
            self._send("PUT", f"{place}&digest={part}", (STICK / "blobs/sha256" / part[7:]).read_bytes())
        manifest = (STICK / "blobs/sha256" / digest[7:]).read_bytes()
        self._send("PUT", f"{self._address}/manifests/{digest}", manifest, kind)
        platform = {"architecture": "amd64", "os": "linux"}
        entry = {"mediaType": kind, "size": len(manifest), "digest": digest, "platform": platform}
        form = f"{DOCKER}.distribution.manifest.list.v2+json"
        text = json.dumps({"schemaVersion": 2, "mediaType": form, "manifests": [entry]}).encode()
        listed = f"sha256:{hashlib.sha256(text).hexdigest()}"
        self._send("PUT", f"{self._address}/manifests/{listed}", text, form)
        return listed


def main(arguments):
    """Make all of them."""
    shutil.rmtree(STICK, ignore_errors=True)
    made = [
        oci(layer("the tools\n", evil=True)),
        oci(layer("the tools\n"), "arm64"),
        oci(layer("large\n", megabytes=600)),
        oci(layer("bomb\n", megabytes=300), packed=True),
        oci(layer("the newer tools\n")),
    ]
    if arguments:
        made.append(Registry(*arguments).push(layer("from the registry\n")))
    sys.stdout.write("".join(f"{digest}\n" for digest in made))


if __name__ == "__main__":
    main(sys.argv[1:])
