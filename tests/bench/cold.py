#!/usr/bin/env python3
"""A bare Debian 12 node to a GPU node by site.yml, against one plain apt-get install of the same packages on its twin.

What the ratio holds gpulab to is what it adds to downloads, unpacking and DKMS. The twin comes second, so that mirrors
and caches are in its favour. It is given the package sources beforehand, and authorities to reach them.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))
from laboratory import Lab, Node

NODES = [
    {"name": name, "release": "bookworm", "gpu": "rtx4090-2", "groups": ["workstations"]} for name in ("site", "apt")
]
SOURCES = ("etc/apt", "etc/ssl/certs", "usr/local/share/ca-certificates")
LISTED = "dpkg-query --show --showformat='${db:Status-Status} ${Package}=${Version}\n' | sed -n 's/^installed //p'"
INSTALL = "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends {packages}"
SECONDS = 3600


def measure(lab: Lab) -> dict[str, float]:
    """Return the seconds of both ways, and their ratio."""
    provisioned, twin = lab.node("site"), lab.node("apt")
    before = set(provisioned.run(LISTED).split())
    run = lab.play("site.yml", "-l", "site", timeout=SECONDS)
    assert run.rc == 0, f"site.yml failed; see {run.log}"
    new = sorted(set(provisioned.run(LISTED).split()) - before)
    copy(provisioned, twin)
    started = time.monotonic()
    twin.run(INSTALL.format(packages=" ".join(new)), SECONDS)
    plain = time.monotonic() - started
    return {
        "site.yml (s)": run.seconds,
        "apt-get install (s)": plain,
        "packages": len(new),
        "ratio": run.seconds / plain,
    }


def copy(source: Node, target: Node) -> None:
    """Give a node the package sources of another one, and the authorities that it trusts."""
    archive = subprocess.run(
        ["docker", "exec", source.container, "tar", "-C", "/", "-c", *SOURCES], check=True, capture_output=True
    ).stdout
    subprocess.run(["docker", "exec", "-i", target.container, "tar", "-C", "/", "-x"], check=True, input=archive)


def main() -> None:
    """Start two nodes that are the same, measure, remove them."""
    lab = Lab("gpulab-bench", print)
    lab.up(NODES)
    try:
        for name, value in measure(lab).items():
            print(f"   {name:34} {value:.2f}", flush=True)
    finally:
        lab.down()


if __name__ == "__main__":
    main()
