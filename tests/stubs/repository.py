"""APT repositories out of stub packages: index, sums and signature. Signing needs gpg and gpg-agent."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deb import Package, build

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


def write_packages(root: Path, pool: str, packages: Iterable[Package]) -> bytes:
    """Write the packages below root in the directory pool; return their index, whose paths begin at root."""
    (root / pool).mkdir(parents=True, exist_ok=True)
    records = []
    for package in packages:
        deb = build(package)
        (root / pool / package.file_name).write_bytes(deb)
        records.append(
            f"{package.control()}Filename: {pool}/{package.file_name}\nSize: {len(deb)}\nSHA256: {sha256(deb)}\n"
        )
    return "\n".join(records).encode()


def write_release(directory: Path, origin: dict[str, str], indices: dict[str, bytes], home: str | None) -> None:
    """Write indices below a directory, and the Release that names them, signed by the key in home if there is one."""
    lines = [f"{name}: {value}" for name, value in origin.items()]
    lines += [time.strftime("Date: %a, %d %b %Y %H:%M:%S UTC", time.gmtime()), "SHA256:"]
    for name, packages in indices.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        for path, content in {name: packages, f"{name}.gz": gzip.compress(packages, mtime=0)}.items():
            (directory / path).write_bytes(content)
            lines.append(f" {sha256(content)} {len(content)} {path}")
    release = directory / "Release"
    release.write_text("\n".join(lines) + "\n")
    if home:
        gpg(home, "--clearsign", "--output", str(directory / "InRelease"), str(release))
        release.unlink()


@contextmanager
def signing_key(name: str) -> Iterator[str]:
    """Make a key on the spot; give the directory that has it, for as long as it is needed."""
    # Short enough for the agent's socket; the agent takes that away itself, in the meantime.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        gpg(home, "--passphrase", "", "--quick-generate-key", f"{name} <stub@example.org>", "ed25519", "sign", "never")
        yield home
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], check=True)


def public_key(home: str) -> bytes:
    """Return the key, armored."""
    return gpg(home, "--armor", "--export")


def fingerprint(home: str) -> str:
    """Return the fingerprint of the key, as gpg computes it."""
    listing = gpg(home, "--list-keys", "--with-colons").decode().splitlines()
    return next(line.split(":")[9] for line in listing if line.startswith("fpr"))


def gpg(home: str, *arguments: str) -> bytes:
    """Run gpg with a home of its own; return what it prints."""
    argv = ["gpg", "--homedir", home, "--batch", "--quiet", *arguments]
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout


def sha256(content: bytes) -> str:
    """Return the sum that an index names."""
    return hashlib.sha256(content).hexdigest()
