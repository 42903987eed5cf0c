#!/usr/bin/env python3
"""Make a stand-in for Ubuntu's archive: its layout, names and signing, and nothing inside: ubuntu_archive.py DIRECTORY.

Its component restricted has the server driver with modules for one kernel; in their place there is a file of text. In
the suite that ends in -updates there is a newer driver, with modules for a newer kernel.
DIRECTORY/key.asc is the key, made on the spot.
"""

from __future__ import annotations

import sys
from pathlib import Path

from deb import Package
from nvidia_repository import UNIT
from repository import public_key, signing_key, write_packages, write_release

VERSIONS = {"jammy": "22.04", "noble": "24.04", "resolute": "26.04"}
BRANCH = "595"
SUITES = {"": ("595.91.07", "6.8.0-51"), "-updates": ("595.95.01", "6.8.0-60")}  # version and kernel


def driver(system: str, version: str, kernel: str) -> list[Package]:
    """Return the packages of the server driver for one Ubuntu, with the dependencies that matter to APT."""
    full, modules = f"{version}-0ubuntu0.{system}.1", f"linux-modules-nvidia-{BRANCH}-server-open"

    def package(name: str, *needs: str, version: str = full, **files: dict[str, str]) -> Package:
        fields = {"Depends": ", ".join(needs), "Maintainer": "Stub of the Ubuntu Kernel Team <stub@example.org>"}
        return Package(name, version, fields, **files)

    def own(name: str) -> str:
        return f"{name}-{BRANCH}-server"

    return [
        package(own("nvidia-headless-no-dkms") + "-open", own("libnvidia-compute"), own("nvidia-compute-utils")),
        package(own("nvidia-utils"), own("libnvidia-compute")),
        package(own("libnvidia-compute"), own("nvidia-kernel-common")),
        package(own("nvidia-kernel-common")),
        package(own("nvidia-compute-utils"), files={"/lib/systemd/system/nvidia-persistenced.service": UNIT}),
        *(
            package(f"{modules}-{series}", f"{modules}-{kernel}-generic", version=f"{kernel}.52")
            for series in ("generic", f"generic-hwe-{system}")
        ),
        package(
            f"{modules}-{kernel}-generic",
            f"{own('nvidia-kernel-common')} (>= {version})",
            version=f"{kernel}.52",
            files={f"/lib/modules/{kernel}-generic/kernel/nvidia-{BRANCH}srv-open/nvidia.ko": "stub\n"},
        ),
    ]


def main() -> None:
    """Write the archive of every Ubuntu, signed by one key."""
    root = Path(sys.argv[1])
    with signing_key("Stub of Ubuntu") as home:
        for codename, system in VERSIONS.items():
            for ending, (version, kernel) in SUITES.items():
                suite = f"{codename}{ending}"
                origin = {"Origin": "Ubuntu", "Label": "Ubuntu", "Suite": suite, "Codename": codename}
                packages = driver(system, version, kernel)
                indices = {
                    "main/binary-amd64/Packages": b"",
                    "restricted/binary-amd64/Packages": write_packages(root, f"pool/{suite}", packages),
                }
                release = {**origin, "Architectures": "amd64", "Components": "main restricted"}
                write_release(root / "dists" / suite, release, indices, home)
        (root / "key.asc").write_bytes(public_key(home))


if __name__ == "__main__":
    main()
