"""Which gates a run has, and in which order: those of make test, all of them, or those that a change touches."""

from __future__ import annotations

import ast
import re
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[1]
# Minutes of those that take longer than others in make test, on a machine of two cores where three gates run at a time.
MINUTES = {
    "lab-test": 30,
    "nvidia_repository": 30,
    "two_kernels": 16,
    "life": 16,
    "rebuild": 15,
    "jupyter": 15,
    "unit-slow": 25,
    "capture": 12,
    "cluster-test": 12,
    "conda": 12,
    "container_toolkit": 12,
    "environments": 12,
    "export": 10,
    "watch": 20,
    "slurm": 12,
    "monitoring": 10,
    "monitoring_server": 10,
    "network": 10,
    "nvidia_runfile": 10,
    "rollout-test": 10,
    "offline-test": 12,
    "vm-arm64": 75,
    "vm-boot_once": 2,
    "vm-disks": 11,
    "vm-gone": 30,
    "vm-installer": 30,
    "vm-installer_arm64": 35,
    "vm-media": 25,
    "vm-quotas": 20,
    "vm-rdma": 25,
    "vm-reinstall": 120,
    "vm-roots": 110,
    "vm-secure_boot": 45,
    "vm-starved": 20,
    "vm-storage": 25,
    "vm-vm": 30,
}
SMALL = 12  # minutes of a machine that make test has in turn
OTHER_MINUTES, FIRST_MINUTES = 7, 15  # of any other, and of the first three, beside the lab
# Too long for make test: three build Debian's driver, as the lab does; cuda_distribution downloads 5 GB, across_nodes,
# acceptance and acceptance_slurm PyTorch, cuda_wheels NVIDIA's compiler; cuda takes a quarter of an hour,
# nvidia_ubuntu half an hour.
TOO_LONG = {
    "nvidia_driver",
    "nvidia_desktop",
    "secure_boot",
    "cuda_distribution",
    "cuda_wheels",
    "across_nodes",
    "acceptance",
    "acceptance_slurm",
    "cuda",
    "nvidia_ubuntu",
}
# These have not been seen whole since the roles changed. One that make test-full has seen can come in turn again.
UNSEEN = {"nvidia_rpm"}
FULL_ONLY = TOO_LONG | UNSEEN
# Their other nodes are left to make test-full.
ONE_NODE = {
    "nvidia_repository": ("LAB_NODES=debian13",),
    "two_kernels": ("LAB_NODES=debian13",),
    "container_toolkit": ("LAB_NODES=debian13",),
    "nightly": ("LAB_NODES=debian12",),
    "rebuild": ("LAB_NODES=debian13",),
}
# A node of each host type has its life in turn.
LIVES = ("workstation", "shared", "training", "inference")
# Each make test has these. The others come in turn: the day of the commit tells which are first, so that each is among
# the first A_DAY once a week. One is begun only where it will have ended after END minutes.
ALWAYS = ("lab-test", "life", "unit-slow")
END, A_DAY = 30, 5
# Check mode and a second run are shown by a third of the scenarios in each make test; of which, the day decides.
SHORT, TURNS = "SCENARIO_SEQUENCE=[create, prepare, converge, verify, side_effect, destroy]", 3
# Every scenario makes use of these.
EVERYWHERE = re.compile(r"lab/|tests/sim/|molecule/resources/c|\.config/molecule/|requirements|ansible\.cfg|Makefile")
# What only a rollout over several nodes shows.
ROLLOUT = re.compile(
    r"(plugins|roles|playbooks)/.*(fence|rollout)|playbooks/tasks/|tests/lab/(test_rollout|rollouts|laboratory)"
)
# What only a node whose network is cut shows.
OFFLINE = re.compile(r"(plugins|roles|playbooks)/.*(bundle|rebuild)|tests/lab/test_offline")
# What only a whole life of a node shows: that a capture knows all of it, that it comes back, and that it goes away.
LIFE = re.compile(r"(plugins|roles|playbooks)/.*(capture|rebuild|remove|receipts)")


@dataclass(frozen=True)
class Gate:
    """A make target with its arguments. minutes: its time limit."""

    name: str
    minutes: int
    target: str
    arguments: tuple[str, ...] = ()

    @property
    def takes(self) -> int:
        """Return how many minutes it usually takes."""
        return MINUTES.get(self.name, OTHER_MINUTES)


def target(name: str, minutes: int) -> Gate:
    """Return the gate of a make target of this name."""
    return Gate(name, minutes, name)


FIRST = (target("lint", 20), target("unit", 30), target("sanity", 20))
OTHERS = (
    target("lab-test", 75),
    target("unit-slow", 45),
    target("rollout-test", 30),
    target("offline-test", 45),
    target("site", 20),
)
FULL_TARGETS = (
    target("pylint", 20),
    target("kill-test", 120),
    target("accident-test", 30),
    target("share-test", 60),
    target("slurm-test", 60),
    target("cuda-builds", 60),
    target("cluster-test", 60),
)


def scenarios() -> list[str]:
    """Return the molecule scenarios by name."""
    return sorted(path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml"))


def machines() -> list[Gate]:
    """Return the gates of the machines in QEMU: each is a file of tests/vm."""
    names = sorted(path.stem.removeprefix("test_") for path in (ROOT / "tests/vm").glob("test_*.py"))
    found = [Gate(f"vm-{name}", 30, "test-vm", (f"MACHINE={name}",)) for name in names]
    return [replace(gate, minutes=max(gate.minutes, 3 * gate.takes)) for gate in found]


def scenario(name: str, *arguments: str) -> Gate:
    """Return the gate of a scenario."""
    return Gate(name, 60, "molecule", (f"SCENARIO=-s {name}", *arguments))


def of_test(day: int) -> list[Gate]:
    """Return the gates of make test that follow the first ones; day: that of the commit, since 1970."""
    lab, slow, *others = OTHERS
    life = scenario("life", f"LAB_NODES={LIVES[day % len(LIVES)]}")
    turn = [*others, *(gate for gate in machines() if gate.takes <= SMALL)]
    for number, name in enumerate(sorted(set(scenarios()) - FULL_ONLY - {life.name})):
        turn.append(scenario(name, *ONE_NODE.get(name, ()), *((SHORT,) if (day + number) % TURNS else ())))
    start = day * A_DAY % len(turn)
    turn = [*turn[start:], *turn[:start]]
    longest, *others = longest_first(turn[:A_DAY])
    return [lab, slow, longest, life, *others, *turn[A_DAY:]]


def of_full() -> list[Gate]:
    """Return the gates of make test-full that follow the first ones."""
    return longest_first([*OTHERS, *map(scenario, scenarios()), *machines(), *FULL_TARGETS])


def named(names: Iterable[str]) -> list[Gate]:
    """Return whole gates by their names."""
    known = {gate.name: gate for gate in [*FIRST, *of_full()]}
    return longest_first([known[name] for name in names])


def longest_first(gates: list[Gate]) -> list[Gate]:
    """Return the gates with the longest ones first, so that none runs on alone at the end."""
    return sorted(gates, key=lambda gate: -gate.takes)


def changed_since(base: str) -> list[str]:
    """Return the files that differ from where the checkout left a branch, new ones too."""
    start = git("merge-base", base, "HEAD").strip()
    return git("diff", "--name-only", start).split() + git("ls-files", "--others", "--exclude-standard").split()


def day_of(commit: str) -> int:
    """Return on which day a commit was made, counted from 1970 in UTC."""
    return int(git("show", "--no-patch", "--format=%ct", commit)) // 86400


def git(*arguments: str) -> str:
    """Return what git prints."""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def touched(paths: Iterable[str]) -> list[str]:
    """Return the names of the gates, beside the first ones, that a change of these files concerns."""
    paths = [path for path in paths if not path.startswith(("docs/", "changelogs/", "tests/unit/"))]
    reached = users(paths)
    found = {path.split("/")[1] for path in reached if re.match(r"(molecule|roles)/", path)}
    known = found & set(scenarios())
    everywhere = "plan" in found or any(EVERYWHERE.match(path) for path in paths)  # every role takes part of the plan
    if everywhere:
        known = set(scenarios()) - FULL_ONLY
    if everywhere or found - known or any(re.match(r"playbooks/|site\.yml|tests/lab/", path) for path in paths):
        known.add("lab-test")  # it runs the playbooks, and the roles that no scenario is named after
    if any(ROLLOUT.match(path) for path in paths):
        known.add("rollout-test")
    if any(OFFLINE.match(path) for path in paths):
        known.add("offline-test")
    if any(LIFE.match(path) for path in paths):
        known.add("life")
    if any(re.match(r"plugins/|playbooks/|tests/sim/", path) for path in paths):
        known.add("unit-slow")
    known |= {f"vm-{found[1]}" for path in paths if (found := re.match(r"tests/vm/test_(\w+)\.py", path))}
    return [gate.name for gate in named(known)]


def users(paths: Iterable[str]) -> set[str]:
    """Return these files, and those that make use of them, directly or through others."""
    reached, news = set(paths), set(paths)
    while news:
        names = {name for path in news for name in known_as(path)}
        news = {path for path, found in mentioned().items() if path not in reached and names & found}
        reached |= news
    return reached


def known_as(path: str) -> set[str]:
    """Return the names by which other files make use of this one."""
    found = re.match(r"roles/(\w+)/|plugins/(?:action|filter|lookup|modules)/(\w+)\.", path)
    names = {f"gpulab.node.{found[1] or found[2]}"} if found else set()
    shared = set(Path(path).parts[2:]) if path.startswith(("tests/stubs/", "molecule/resources/")) else set()
    return names | shared | {path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")}


@cache
def mentioned() -> dict[str, set[str]]:
    """Return the names of other files in each file."""
    files = git("ls-files", "plugins", "roles", "molecule", "tests/stubs").split()
    return {path: mentions(path) for path in files if (ROOT / path).is_file()}


def mentions(path: str) -> set[str]:
    """Return the names of other files in this one: modules that it imports, roles and modules that it calls, stubs."""
    text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
    if path.endswith(".py") and path.startswith("plugins/"):
        imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.module]
        modules = [(node.module or "").rpartition("gpulab.node.")[2] for node in imports]
        return {*modules, *(f"{name}.{part.name}" for name, node in zip(modules, imports) for part in node.names)}
    stubs = re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)
    named = re.findall(r"gpulab\.node\.\w+|\b\w+\.(?:py|sh|yml)\b|(?<=\")\w+(?=\")", text)
    return {*named, *(f"{name}.py" for name in stubs)}
