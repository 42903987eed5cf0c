#!/usr/bin/env python3
"""Bare Debian 12 nodes to GPU nodes by site.yml, against plain apt-get installs of the same packages on their twins.

The nodes get what Debian has of the stack: the driver, and the CUDA toolkit that fits it. What the ratio holds gpulab
to is what it adds to downloads, unpacking and DKMS: facts, plan, settings, the reboot and the proof. A node whose time
does not count goes first: it tells which packages they are, and mirrors and caches know them from then on. The turns
are node, twin, twin, node: over all of them, a machine that grows slower or faster does so for both. The faster one of
each tells more where the machine is quiet in one turn and not in another: what others do on it only ever adds. The last
ratio leaves out what gpulab saves in the build of the driver: a build takes in it, in all turns, what it took in the
best of the twins'. How much of the processors the host gave to others is told, too. The twins are in favour: they are
given the package sources beforehand, and authorities to reach them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))
from laboratory import Lab, Node

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ["ahead", "site-first", "apt-first", "apt-second", "site-second"]
NODES = [{"name": name, "release": "bookworm", "gpu": "rtx4090-2", "groups": ["workstations"]} for name in NAMES]
WISHES = {"nvidia_driver_source": "distribution", "cuda_source": "distribution"}
SOURCES = ("etc/apt", "etc/ssl/certs", "usr/local/share/ca-certificates")
LISTED = "dpkg-query --show --showformat='${db:Status-Status} ${Package}=${Version}\n' | sed -n 's/^installed //p'"
# When dpkg began to configure the package that builds the driver, and when it had.
BUILD_LOGGED = "sed -En 's/ status (half-configured|installed) nvidia-kernel-dkms:.*//p' /var/log/dpkg.log"
INSTALL = "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends {packages}"
SECONDS = 3600


@dataclass(frozen=True)
class Turn:
    """What one way took in seconds, and the build of the driver in it."""

    seconds: float
    build: float


def measure(lab: Lab) -> None:
    """Take the turns; print how much longer the nodes took than the twins."""
    new, _ahead = provision(lab, "ahead")
    same_first, site_first = provision(lab, "site-first")
    apt = install(lab, "apt-first", new), install(lab, "apt-second", new)
    same_second, site_second = provision(lab, "site-second")
    different = set(new) ^ set(same_first) | set(new) ^ set(same_second)
    assert not different, f"not every node has these packages: {sorted(different)}"
    show("packages", len(new))
    site = site_first, site_second
    show("ratio, all turns", f"{sum(turn.seconds for turn in site) / sum(turn.seconds for turn in apt):.2f}")
    show("ratio, the faster turns", f"{least(site) / least(apt):.2f}")
    build = min(turn.build for turn in apt)
    show("ratio, the same with apt-get's builds", f"{(least_beside(site) + build) / (least_beside(apt) + build):.2f}")


def least(turns: tuple[Turn, ...]) -> float:
    """Return the seconds of the fastest turn."""
    return min(turn.seconds for turn in turns)


def least_beside(turns: tuple[Turn, ...]) -> float:
    """Return the least seconds that a turn took beside the build of the driver."""
    return min(turn.seconds - turn.build for turn in turns)


def provision(lab: Lab, name: str) -> tuple[list[str], Turn]:
    """Make a bare node a GPU node; return the packages that are new, with their versions, and what it took."""
    node = lab.node(name)
    before = set(node.run(LISTED).split())

    def play() -> None:
        run = lab.play("site.yml", "-l", name, "-e", json.dumps(WISHES), timeout=SECONDS)
        assert run.rc == 0, f"site.yml failed; see {run.log}"

    took = timed(name, node, play)
    return sorted(set(node.run(LISTED).split()) - before), took


def install(lab: Lab, name: str, packages: list[str]) -> Turn:
    """Install the packages on a bare node, from the sources of the node that went ahead; return what it took."""
    twin = lab.node(name)
    copy(lab.node("ahead"), twin)
    return timed(name, twin, lambda: twin.run(INSTALL.format(packages=" ".join(packages)), SECONDS))


def timed(name: str, node: Node, install: Callable[[], object]) -> Turn:
    """Install the driver and more on a bare node; return and print what that took."""
    ticks, started = processor_ticks(), time.monotonic()
    install()
    seconds = time.monotonic() - started
    spent = [after - before for before, after in zip(ticks, processor_ticks())]
    begun, ended = map(datetime.fromisoformat, node.run(BUILD_LOGGED).splitlines())
    build = (ended - begun).total_seconds()
    show(name, f"{seconds:.0f} s, {build:.0f} s of them the driver's build, {spent[7] / sum(spent):.1%} stolen")
    return Turn(seconds, build)


def processor_ticks() -> list[int]:
    """Return the ticks in which the processors did work of each kind; the eighth is what the host stole (proc(5))."""
    return [int(ticks) for ticks in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]


def show(what: str, figure: object) -> None:
    """Print a result."""
    print(f"   {what:38} {figure}", flush=True)


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
        measure(lab)
    finally:
        lab.down()


if __name__ == "__main__":
    main()
