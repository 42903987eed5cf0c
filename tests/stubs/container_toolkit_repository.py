#!/usr/bin/env python3
"""Make a stand-in for NVIDIA's APT repository of the container toolkit: its layout, package names, units and signing.

    tests/stubs/container_toolkit_repository.py DIRECTORY VERSION...

Its programs are those of toolkit/: nvidia-ctk writes a real CDI specification of the node's device files, and
nvidia-container-runtime gives these to a container. The key is made on the spot; DIRECTORY/fingerprint names it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from deb import Package
from repository import fingerprint, public_key, signing_key, write_packages, write_release

REPOSITORY, KEY = "libnvidia-container/stable/deb/amd64", "libnvidia-container/gpgkey"
ORIGIN = {"Origin": "NVIDIA", "Label": "NVIDIA Container Toolkit", "Architecture": "amd64"}
PROGRAMS = Path(__file__).parent / "toolkit"
# As NVIDIA has them, less the condition on the modules of the running kernel: a container runs its host's.
SERVICE = """\
[Unit]
Description=Refresh NVIDIA CDI specification file (stand-in)
ConditionPathExists=/usr/bin/nvidia-ctk
After=multi-user.target

[Service]
Type=oneshot
Environment=NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/var/run/cdi/nvidia.yaml
EnvironmentFile=-/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env
ExecStart=/usr/bin/nvidia-ctk cdi generate
RemainAfterExit=yes

[Install]
WantedBy=multi-user.target
"""
WATCH = """\
[Unit]
Description=Trigger CDI refresh on NVIDIA driver install / uninstall events (stand-in)

[Path]
PathChanged=/lib/modules/%v/modules.dep
PathChanged=/lib/modules/%v/modules.dep.bin
PathChanged=/usr/bin/nvidia-ctk

[Install]
WantedBy=multi-user.target
"""


def toolkit(version: str) -> list[Package]:
    """Return the packages of one version. Like NVIDIA's, they enable nothing on a node that systemd finds degraded."""
    full = f"{version}-1"
    return [
        Package(
            "nvidia-container-toolkit-base",
            full,
            {"Depends": "python3"},
            files={
                "/usr/bin/nvidia-ctk": program("nvidia-ctk", version),
                "/usr/bin/nvidia-container-runtime": program("nvidia-container-runtime", version),
                "/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env": "",
                "/lib/systemd/system/nvidia-cdi-refresh.service": SERVICE,
                "/lib/systemd/system/nvidia-cdi-refresh.path": WATCH,
            },
        ),
        Package("libnvidia-container1", full, {}),
        Package("libnvidia-container-tools", full, {"Depends": f"libnvidia-container1 (>= {full})"}),
        Package(
            "nvidia-container-toolkit",
            full,
            {"Depends": f"libnvidia-container-tools (>= {full}), nvidia-container-toolkit-base (= {full})"},
        ),
    ]


def program(name: str, version: str) -> str:
    """Return the text of a program of this version."""
    return (PROGRAMS / name).read_text(encoding="utf-8").replace("@VERSION@", version)


def main() -> None:
    """Write the repository, signed by a key of its own."""
    root = Path(sys.argv[1])
    packages = [package for version in sys.argv[2:] for package in toolkit(version)]
    with signing_key("Stub of NVIDIA") as home:
        index = write_packages(root / REPOSITORY, ".", packages)
        write_release(root / REPOSITORY, ORIGIN, {"Packages": index}, home)
        (root / KEY).write_bytes(public_key(home))
        (root / "fingerprint").write_text(fingerprint(home))


if __name__ == "__main__":
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    main()
