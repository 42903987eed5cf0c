#!/usr/bin/env python3
"""Bare Debian 12 nodes to GPU nodes by site.yml, against plain apt-get installs of the same packages on their twins.

What the ratio holds gpulab to is what it adds to downloads, unpacking and DKMS. Node and twin take turns, for a machine
that others share is now faster and now slower. The twins are in favour: mirrors and caches know the packages already,
and they are given the package sources beforehand, and authorities to reach them.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))
from laboratory import Lab, Node

ROUNDS = ("first", "second")
NODES = [
    {"name": f"{way}-{turn}", "release": "bookworm", "gpu": "rtx4090-2", "groups": ["workstations"]}
    for turn in ROUNDS
    for way in ("site", "apt")
]
SOURCES = ("etc/apt", "etc/ssl/certs", "usr/local/share/ca-certificates")
LISTED = "dpkg-query --show --showformat='${db:Status-Status} ${Package}=${Version}\n' | sed -n 's/^installed //p'"
INSTALL = "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends {packages}"
SECONDS = 3600


def measure(lab: Lab) -> dict[str, float]:
    """Return the seconds of each turn of both ways, and the ratio of what they took."""
    site: dict[str, float] = {}
    apt: dict[str, float] = {}
    for turn in ROUNDS:
        node, twin = lab.node(f"site-{turn}"), lab.node(f"apt-{turn}")
        before = set(node.run(LISTED).split())
        run = lab.play("site.yml", "-l", f"site-{turn}", timeout=SECONDS)
        assert run.rc == 0, f"site.yml failed; see {run.log}"
        site[f"site.yml, {turn} (s)"] = run.seconds
        new = sorted(set(node.run(LISTED).split()) - before)
        copy(node, twin)
        started = time.monotonic()
        twin.run(INSTALL.format(packages=" ".join(new)), SECONDS)
        apt[f"apt-get install, {turn} (s)"] = time.monotonic() - started
    return {**site, **apt, "packages": len(new), "ratio": sum(site.values()) / sum(apt.values())}


def copy(source: Node, target: Node) -> None:
    """Give a node the package sources of another one, and the authorities that it trusts."""
    archive = subprocess.run(
        ["docker", "exec", source.container, "tar", "-C", "/", "-c", *SOURCES], check=True, capture_output=True
    ).stdout
    subprocess.run(["docker", "exec", "-i", target.container, "tar", "-C", "/", "-x"], check=True, input=archive)


def main() -> None:
    """Start nodes that are the same, measure, remove them."""
    lab = Lab("gpulab-bench", print)
    lab.up(NODES)
    try:
        for name, value in measure(lab).items():
            print(f"   {name:34} {value:.2f}", flush=True)
    finally:
        lab.down()


if __name__ == "__main__":
    main()
