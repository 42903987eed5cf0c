"""The rooms of plugins/module_utils and plugins/plugin_utils: their levels, who imports whom, and a picture of that."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PLUGINS = Path(__file__).parents[1] / "plugins"
PREFIX = "ansible_collections.gpulab.node.plugins."
# From the ground up: what is in each room. A room imports its own modules and those of lower levels; rooms of one level
# do not know each other. A file that is in no room is one of its own.
LEVELS: dict[str, tuple[dict[str, str], ...]] = {
    "module_utils": (
        {"core": "files, records, child processes, downloads, long steps, refusals"},
        {
            "accounts": "people's accounts: what they shall be, and the steps to that",
            "containers": "engines, their settings, and the networks between containers",
            "cuda": "toolkits, libraries, and what is left of others",
            "driver": "NVIDIA's driver: modules, DKMS, .run files, signatures",
            "environments": "venvs and conda environments, as they are built and as they are found",
            "installer": "what installs a node from memory, and judges before",
            "nvml": "what the driver says of the GPUs",
            "slurm": "what Slurm says and is asked",
            "storage": "disks, file systems, mounts, exports",
            "system": "kernels, boot, swap, accounts, the network",
        },
        {
            "bmc": "what the task that asks a BMC takes",
            "bundle": "whether a bundle is whole, and which one a node is to use",
            "gpu_settings": "power limits, clocks, ECC, MIG",
            "models": "the store of models and data sets, what comes into it, and its proof",
            "packages": "APT and DNF: repositories and transactions",
        },
        {"facts": "reading only, one reader a file"},
        {
            "checks": "what the proof judges, from recorded facts",
            "fence": "takes a node out of service, and brings it back",
            "monitoring": "what the collector reads for Prometheus",
            "receipts": "what a role left on the node, and whether it is still so",
        },
        {
            "active": "tests that use the GPUs, in a child process with a deadline",
            "capture": "what a node holds, for a rebuild",
            "diagnosis": "what explains why a program fails",
            "reading": "one look at a node, and the program for it that stays there",
            "slurm_node": "the programs that slurmd runs",
        },
        {
            "rebuild": "what a captured node gets back",
            "watch": "jobs of Slurm that end badly: seen, and told",
        },
    ),
    "plugin_utils": (
        {
            "core": "versions, paths on the controller, what identifies a run, how an action asks its module",
            "refusals": "all refusals",
        },
        {
            "bmc": "what a node's BMC says by Redfish or IPMI, and what it is asked to do",
            "bundle": "all that a lab without a network needs, in one folder",
            "catalog": "what works with what, and what is known of a board",
            "environment_files": "requirements, locks and environment.yml that people wrote",
            "facts": "the types of the facts, and whether facts have them",
            "history": "what earlier runs found on a host",
            "own_checks": "checks of a lab's own",
            "jupyter": "whether a hub can be set up on a node",
            "progress": "what a run shows: long steps, and why a task failed",
            "recording": "what a board says, for anybody to replay, without anybody's names",
            "rollout": "nodes changed one after the other, each behind a fence",
        },
        {
            "options": "every variable that an inventory may set",
            "pages": "the frame, the style and the script that all HTML pages have",
        },
        {
            "acceptance": "whether a cluster is as it should be, measured and signed",
            "advisories": "which node has which of NVIDIA's known holes",
            "plan": "from facts, settings and catalog to a plan, or to a refusal",
            "schedulers": "the nodes as files for Ray, SkyPilot and dstack",
            "usage": "who used the GPUs in a month",
        },
        {
            "peers": "what nodes of one run have to do with each other: names, shared builds, all_reduce",
            "preview": "what a run would change",
            "proof": "a node compared with its plan and its board",
        },
        {
            "capture": "what was captured of a node, kept on the controller, and how far its rebuild came",
            "diagnosis": "which record explains what a node shows",
            "report": "terminal, JSON, JUnit, Prometheus, HTML",
            "roles": "what each role says of itself, and which are due",
        },
        {
            "inventory_check": "the inventory, judged before any host is touched",
            "preflight": "a node, judged before its first change",
            "rebuild": "from a capture to what a new system gets",
        },
        {"installer": "images and media that a node is installed from"},
    ),
}


def rooms(half: str) -> dict[str, int]:
    """Return the level of each room."""
    return {room: level for level, named in enumerate(LEVELS[half], 1) for room in named}


def files(half: str) -> Iterator[tuple[str, Path]]:
    """Yield each file with the room that it is in."""
    for path in sorted((PLUGINS / half).rglob("*.py")):
        yield path.relative_to(PLUGINS / half).parts[0].removesuffix(".py"), path


def imported(path: Path) -> set[str]:
    """Return what a module imports of the collection, below plugins/, in dots."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PREFIX):
            module = node.module[len(PREFIX) :]
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def arrows(half: str) -> dict[str, set[str]]:
    """Return the other rooms of a half that each room imports."""
    found: dict[str, set[str]] = defaultdict(set)
    for room, path in files(half):
        names = {name.split(".")[1] for name in imported(path) if name.startswith(f"{half}.")}
        found[room] |= names - {room}
    return dict(found)


def picture() -> str:
    """Return the rooms of both halves with their arrows, the highest level first, as text of Markdown."""
    drawn = ("\n".join(_half(half)) for half in reversed(LEVELS))
    return "".join(f"\n```\n{lines}\n```\n" for lines in drawn) + "\n"


def _half(half: str) -> Iterator[str]:
    found = arrows(half)
    yield f"plugins/{half}"
    for level, named in sorted(enumerate(LEVELS[half], 1), reverse=True):
        yield f"{'─' * 3} {level} {'─' * 100}"
        for room, what in sorted(named.items()):
            yield f"{room:19}{what}"
            yield from [f"{'':19}└─▶ {', '.join(sorted(found[room]))}"] if found[room] else []
