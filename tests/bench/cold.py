#!/usr/bin/env python3
"""Bare Debian 12 nodes to GPU nodes by site.yml, against plain apt-get installs of the same packages on their twins.

The nodes get what Debian has of the stack: the driver, and the CUDA toolkit that fits it. What the ratio holds gpulab
to is what it adds to downloads, unpacking and DKMS: facts, plan, settings, the reboot and the proof. The turns are
node, twin, twin, node: a machine that others share is now faster and now slower, and so a drift weighs on both alike.
The twins are in favour: mirrors and caches know the packages already, and they are given the package sources
beforehand, and authorities to reach them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))
from laboratory import Lab, Node

NODES = [
    {"name": f"{way}-{turn}", "release": "bookworm", "gpu": "rtx4090-2", "groups": ["workstations"]}
    for turn in ("first", "second")
    for way in ("site", "apt")
]
WISHES = {"nvidia_driver_source": "distribution", "cuda_source": "distribution"}
SOURCES = ("etc/apt", "etc/ssl/certs", "usr/local/share/ca-certificates")
LISTED = "dpkg-query --show --showformat='${db:Status-Status} ${Package}=${Version}\n' | sed -n 's/^installed //p'"
INSTALL = "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends {packages}"
SECONDS = 3600


def measure(lab: Lab) -> dict[str, float]:
    """Return the seconds of each turn of both ways, and the ratio of what they took."""
    new, site_first = provision(lab, "first")
    apt_first = install(lab, "first", new)
    apt_second = install(lab, "second", new)
    same, site_second = provision(lab, "second")
    assert same == new, f"the second node has other packages: {sorted(set(same) ^ set(new))}"
    return {
        "site.yml, first (s)": site_first,
        "apt-get install, first (s)": apt_first,
        "apt-get install, second (s)": apt_second,
        "site.yml, second (s)": site_second,
        "packages": len(new),
        "ratio": (site_first + site_second) / (apt_first + apt_second),
    }


def provision(lab: Lab, turn: str) -> tuple[list[str], float]:
    """Make a bare node a GPU node; return the packages that are new, with their versions, and the seconds."""
    node = lab.node(f"site-{turn}")
    before = set(node.run(LISTED).split())
    run = lab.play("site.yml", "-l", f"site-{turn}", "-e", json.dumps(WISHES), timeout=SECONDS)
    assert run.rc == 0, f"site.yml failed; see {run.log}"
    return sorted(set(node.run(LISTED).split()) - before), run.seconds


def install(lab: Lab, turn: str, packages: list[str]) -> float:
    """Install the packages on a bare node, from the sources of the first node; return the seconds."""
    twin = lab.node(f"apt-{turn}")
    copy(lab.node("site-first"), twin)
    started = time.monotonic()
    twin.run(INSTALL.format(packages=" ".join(packages)), SECONDS)
    return time.monotonic() - started


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
