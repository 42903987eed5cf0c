#!/usr/bin/env python3
"""Stand-ins for docker.com's packages: their names, relations and unit, and a daemon that runs no container.

    tests/stubs/docker_vendor.py DIRECTORY VERSION SYSTEM/SUITE...

writes their APT repositories (for ubuntu/noble, say), signed by a key made on the spot; DIRECTORY/fingerprint names it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import deb
import rpm
from repository import fingerprint, public_key, signing_key, write_packages, write_release

CLIENT = "#!/bin/sh\n# Stand-in for Docker's client.\n[ $1 != --version ] || echo Docker version {version}, build 0\n"
UNIT = """\
[Unit]
Description=Docker Application Container Engine (stand-in)

[Service]
ExecStart=/usr/bin/dockerd
ExecReload=/bin/kill -s HUP $MAINPID

[Install]
WantedBy=multi-user.target
"""
RIVALS = "containerd, runc"
START = "#!/bin/sh\nset -e\n[ $1 != configure ] || systemctl enable --quiet --now docker.service\n"
ORIGIN = {"Origin": "Docker", "Label": "Docker CE", "Architectures": "amd64", "Components": "stable"}


def daemon() -> str:
    """Return the text of the daemon."""
    return (Path(__file__).parent / "dockerd").read_text(encoding="utf-8")


def rpms(version: str, release: str) -> list[rpm.Package]:
    """Return the RPM packages of one version. As docker.com's, they start nothing."""
    rivals = ("Provides: runc", *(f"Conflicts: {rival}" for rival in RIVALS.split(", ")))
    files = {"/usr/bin/dockerd": daemon(), "/usr/lib/systemd/system/docker.service": UNIT}
    needs = ("Requires: docker-ce-cli", "Requires: containerd.io", "Conflicts: docker")
    return [
        rpm.Package("containerd.io", "2.2.1", release, tags=rivals),
        rpm.Package("docker-buildx-plugin", "0.30.1", release),
        rpm.Package("docker-compose-plugin", "5.0.1", release),
        rpm.Package("docker-ce-cli", version, release, 1, files={"/usr/bin/docker": CLIENT.format(version=version)}),
        rpm.Package("docker-ce", version, release, 3, tags=needs, files=files),
    ]


def debs(version: str, suite: str) -> list[deb.Package]:
    """Return the Debian packages of one version. As docker.com's, they start the daemon."""
    rivals = {"Provides": RIVALS, "Conflicts": RIVALS, "Replaces": RIVALS}
    files = {"/usr/bin/dockerd": daemon(), "/lib/systemd/system/docker.service": UNIT}
    needs = {"Depends": "docker-ce-cli, containerd.io, python3", "Conflicts": "docker.io", "Replaces": "docker.io"}
    return [
        deb.Package("containerd.io", f"2.2.1-1~{suite}", rivals),
        deb.Package("docker-buildx-plugin", f"0.30.1-1~{suite}", {}),
        deb.Package("docker-compose-plugin", f"5.0.1-1~{suite}", {}),
        deb.Package(
            "docker-ce-cli", f"5:{version}-1~{suite}", {}, files={"/usr/bin/docker": CLIENT.format(version=version)}
        ),
        deb.Package("docker-ce", f"5:{version}-1~{suite}", needs, files=files, scripts={"postinst": START}),
    ]


def main() -> None:
    """Write the repository of every suite, signed by one key."""
    root, version, *suites = sys.argv[1:]
    with signing_key("Stub of Docker") as home:
        for system, suite in (one.split("/") for one in suites):
            repository = Path(root, "linux", system)
            index = write_packages(repository, f"dists/{suite}/pool/stable/amd64", debs(version, suite))
            indices = {"stable/binary-amd64/Packages": index}
            write_release(repository / "dists" / suite, {**ORIGIN, "Suite": suite, "Codename": suite}, indices, home)
        Path(root, "key").write_bytes(public_key(home))
        Path(root, "fingerprint").write_text(fingerprint(home))


if __name__ == "__main__":
    main()
