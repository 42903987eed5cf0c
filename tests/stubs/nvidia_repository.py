#!/usr/bin/env python3
"""Make a stand-in for NVIDIA's APT repositories: their layout, package names and signing, and next to nothing inside.

    tests/stubs/nvidia_repository.py DIRECTORY VERSION...

The driver's user space is empty. The kernel module is real C, built by the node's DKMS for the node's kernel. Beside
the driver there are two packages that no node may take: a libc6 newer than any, and one altered after it was indexed.
The key is made on the spot; DIRECTORY/fingerprint names it. Needs gpg and gpg-agent.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from deb import Package, build

# Where NVIDIA has each system's packages, and what its key is called there.
REPOSITORIES = {
    "compute/cuda/repos/debian12/x86_64": "3bf863cc.pub",
    "compute/cuda/repos/debian13/x86_64": "8793F200.pub",
}
MODULE = """\
#include <linux/module.h>
static int __init stub_init(void) {{ return 0; }}
static void __exit stub_exit(void) {{ }}
module_init(stub_init);
module_exit(stub_exit);
MODULE_DESCRIPTION("Stand-in for NVIDIA's kernel module");
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION("{version}");
"""
DKMS = """\
PACKAGE_NAME="nvidia"
PACKAGE_VERSION="{version}"
BUILT_MODULE_NAME[0]="nvidia"
DEST_MODULE_LOCATION[0]="/updates/dkms"
AUTOINSTALL="yes"
"""
UNIT = "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
# What the real pinning package does: a record that holds every package of the driver at one version.
PINNING = "Package: libcuda1 libnvidia-* nvidia-*\nPin: version {version}-*\nPin-Priority: 1000\n"


def driver(version: str) -> list[Package]:
    """Return the packages of one driver version, with the dependencies that matter to APT."""
    full = f"{version}-1"

    def package(name: str, needs: str = "", **parts: dict[str, str]) -> Package:
        depends = ", ".join(f"{need} (= {full})" if need != "dkms" else need for need in needs.split())
        return Package(name, full, {"Depends": depends}, **parts)

    source = f"/usr/src/nvidia-{version}"
    return [
        Package(
            f"nvidia-driver-pinning-{version}",
            "1.0-1",
            {"Provides": "nvidia-driver-pinning", "Conflicts": "nvidia-driver-pinning"},
            files={"/etc/apt/preferences.d/nvidia-driver-pinning": PINNING.format(version=version)},
        ),
        package(
            "nvidia-kernel-open-dkms",
            "dkms nvidia-kernel-support",
            files={
                f"{source}/dkms.conf": DKMS.format(version=version),
                f"{source}/Makefile": "obj-m := nvidia.o\n",
                f"{source}/nvidia.c": MODULE.format(version=version),
            },
            scripts={
                "postinst": f'#!/bin/sh\nset -e\n/usr/lib/dkms/common.postinst nvidia {version} "" x86_64 "$2"\n',
                "prerm": f"#!/bin/sh\ndkms remove -m nvidia -v {version} --all || :\n",
            },
        ),
        package("nvidia-kernel-support"),
        package("nvidia-driver-cuda", "libcuda1 libnvidia-ml1 nvidia-modprobe nvidia-persistenced"),
        package("libcuda1", "libnvidia-ptxjitcompiler1"),
        package("libnvidia-ptxjitcompiler1"),
        package("libnvidia-ml1"),
        package("nvidia-modprobe"),
        package("nvidia-persistenced", files={"/lib/systemd/system/nvidia-persistenced.service": UNIT}),
    ]


def main() -> None:
    """Build the packages once, and index and sign them for every system."""
    root = Path(sys.argv[1])
    altered = Package("nvidia-altered", "1.0-1", {})
    packages = [package for version in sys.argv[2:] for package in driver(version)]
    packages += [altered, Package("libc6", "99.0-1", {})]
    debs = {package.file_name: build(package) for package in packages}
    index = "\n".join(
        f"{package.control()}Filename: ./{package.file_name}\nSize: {len(debs[package.file_name])}\n"
        f"SHA256: {sha256(debs[package.file_name])}\n"
        for package in packages
    )
    debs[altered.file_name] = debs[altered.file_name][:-1] + b"!"
    with tempfile.TemporaryDirectory() as home:  # short enough for the agent's socket
        make_key(home)
        for path, key in REPOSITORIES.items():
            repository = root / path
            repository.mkdir(parents=True)
            for name, deb in debs.items():
                (repository / name).write_bytes(deb)
            write_index(repository, index.encode(), home)
            (repository / key).write_bytes(gpg(home, "--armor", "--export"))
        (root / "fingerprint").write_text(fingerprint(home))
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], check=True)


def write_index(repository: Path, packages: bytes, home: str) -> None:
    """Write and sign the index of a flat repository."""
    indices = {"Packages": packages, "Packages.gz": gzip.compress(packages, mtime=0)}
    lines = ["Origin: NVIDIA", "Label: NVIDIA CUDA", "Architecture: amd64"]
    lines += [time.strftime("Date: %a, %d %b %Y %H:%M:%S UTC", time.gmtime()), "SHA256:"]
    for name, content in indices.items():
        (repository / name).write_bytes(content)
        lines.append(f" {sha256(content)} {len(content)} {name}")
    release = repository / "Release"
    release.write_text("\n".join(lines) + "\n")
    gpg(home, "--clearsign", "--output", str(repository / "InRelease"), str(release))
    release.unlink()


def make_key(home: str) -> None:
    """Make the key that signs everything."""
    gpg(
        home,
        "--passphrase",
        "",
        "--quick-generate-key",
        "Stub of NVIDIA <stub@example.org>",
        "ed25519",
        "sign",
        "never",
    )


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


if __name__ == "__main__":
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    main()
