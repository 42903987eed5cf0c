"""Stand-ins for docker.com's RPM packages: their names, relations and unit, and a daemon that runs no container."""

from __future__ import annotations

from pathlib import Path

from rpm import Package

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


def docker(version: str, release: str) -> list[Package]:
    """Return the packages of one version. As docker.com's, they start nothing."""
    daemon = (Path(__file__).parent / "dockerd").read_text(encoding="utf-8")
    return [
        Package("containerd.io", "2.2.1", release, tags=("Provides: runc", "Conflicts: runc", "Conflicts: containerd")),
        Package("docker-buildx-plugin", "0.30.1", release),
        Package("docker-compose-plugin", "5.0.1", release),
        Package("docker-ce-cli", version, release, 1, files={"/usr/bin/docker": CLIENT.format(version=version)}),
        Package(
            "docker-ce",
            version,
            release,
            3,
            tags=("Requires: docker-ce-cli", "Requires: containerd.io", "Conflicts: docker"),
            files={"/usr/bin/dockerd": daemon, "/usr/lib/systemd/system/docker.service": UNIT},
        ),
    ]
