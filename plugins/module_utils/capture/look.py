# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that a capture says of a node, but for the contents of files. Nothing is changed."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture import (
    backups,
    bins,
    containers,
    disks,
    environments,
    homes,
    jobs,
    leaves,
    people,
    software,
    system,
)
from ansible_collections.gpulab.node.plugins.module_utils.capture.listed import BuiltModules, Runfile, Toolkits
from ansible_collections.gpulab.node.plugins.module_utils.capture.owned import Packages
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import Count, Deleted
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.gpulab import Gpulab, Lock
from ansible_collections.gpulab.node.plugins.module_utils.capture.walk import Captured, Walk, Wishes
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import mounts
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import masked
from ansible_collections.gpulab.node.plugins.module_utils.environments import venv
from ansible_collections.gpulab.node.plugins.module_utils.facts import system as facts_system
from ansible_collections.gpulab.node.plugins.module_utils.packages.host import BROUGHT
from ansible_collections.gpulab.node.plugins.module_utils.receipts import store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.asked import Asked
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

DEEPEST = 10_000  # directories in each other, at most
DMI = "/sys/class/dmi/id"
_DELETED = " (deleted)"
_IN_MEMORY = ("/memfd:", "/dev/", "/run/", "/proc/", "/SYSV", "/[aio]")


def look(node: Node, asked: Asked) -> dict[str, Any]:
    """Return the manifest's parts that the node knows: machine, sections, files, bins, kept, remainder, and more."""
    sys.setrecursionlimit(DEEPEST)
    storage = disks.read(node)
    packages = Packages(node)
    engines = containers.read(node)
    backed_up = backups.read(node, asked.receipts)
    items = store.items(node)
    rules = wishes(node, asked, items)
    rules.covers += [(bins.LOCK, lambda path, _status: engines.covers(path)), (bins.RECEIPT, backed_up.covers)]
    places = {mount.place for mount in mounts(node.text("/proc/self/mountinfo"))}
    walk = Walk(node, packages, rules, partial(environments.at, node=node))
    found = walk.run(storage.walked, places)
    return {
        "machine": machine(node),
        "sections": {
            **asdict(system.read(node)),
            **asdict(people.read(node, found.owners, found.groups)),
            **asdict(jobs.read(node, packages.__contains__)),
            **asdict(software.read(node)),
            "disks": asdict(storage),
            "environments": list(map(asdict, found.environments)),
            "containers": {"engines": list(map(asdict, engines.engines))},
            "gpulab": asdict(Gpulab(items, list(_locks(node, items)), _brought(node))),
        },
        "files": found.files,
        "bins": {name: asdict(Count(found.counts[name], found.sizes[name])) for name in bins.BINS},
        "kept": [asdict(one) for one in storage.filesystems if not one.on_root_disk],
        "receipts": backed_up.records,
        "remainder": list(map(asdict, found.remainder)),
        "open_deleted": list(map(asdict, _open_deleted(node))),
    }


def wishes(node: Node, asked: Asked, items: dict[str, list[str]]) -> Wishes:
    """Return what decides about the bins of paths, but for engines and backups; items are those of the receipts."""
    left = leaves.rules(asked.leaves, items)
    keys = [path for line in disks.crypttab(node.text(disks.CRYPTTAB)) for path in line.files]
    return Wishes(
        rules=[*((path, Captured("credentials", secret=True)) for path in keys), *_rules(asked, left)],
        acknowledged=[(_below(one.path), one.reason) for one in asked.acknowledged],
        homes=homes.of_people(node),
        gpulab=left,
        covers=[
            *((bins.GPULAB, one.covers) for one in (Toolkits(node), Runfile(node))),
            (bins.CACHE, BuiltModules(node).covers),
        ],
        largest=asked.largest,
    )


def _rules(asked: Asked, left: list[tuple[str, str]]) -> Iterator[tuple[str, Captured | str]]:
    """Yield which patterns are captured, and which nobody misses, and why: the first that fits counts."""
    yield from ((_below(path), Captured("paths")) for path in asked.paths)
    yield from _captured(asked, secret=True)
    yield from ((pattern, one.reason) for one in asked.ephemeral for pattern in one.patterns)
    yield from _captured(asked, secret=False)
    yield from ((pattern, Captured("gpulab")) for pattern, fate in left if fate == leaves.CAPTURED)


def _captured(asked: Asked, *, secret: bool) -> Iterator[tuple[str, Captured]]:
    for one in asked.captured:
        if one.secret == secret:
            yield from ((pattern, Captured(one.section, secret)) for pattern in one.patterns)


def _below(path: str) -> str:
    return f"{path.rstrip('/')}/**"


def machine(node: Node) -> dict[str, Any]:
    """Return what tells this machine from others: {dmi_uuid, dmi_serial, product, system}; empty where it is silent."""
    return {
        "dmi_uuid": node.text(f"{DMI}/product_uuid"),
        "dmi_serial": node.text(f"{DMI}/product_serial"),
        "product": node.text(f"{DMI}/product_name"),
        "system": facts_system.read(node),
    }


def _brought(node: Node) -> list[str]:
    """Return the packages that gpulab's transactions brought; none where the record is damaged, which they say."""
    try:
        names: list[str] = records.read(node.path(str(BROUGHT)), list[str], [])
    except Refusal:
        return []
    return names


def _locks(node: Node, receipts: dict[str, list[str]]) -> Iterator[Lock]:
    """Yield the lock of each Python environment that gpulab made."""
    items = sorted({item for one in receipts.values() for item in one if item.startswith("environment:")})
    for path in (item.partition(":")[2] for item in items):
        text = (node.data(f"{path}/{venv.LOCK}") or b"").decode("utf-8", "replace")
        if text:
            yield Lock(path, masked(text))


def _open_deleted(node: Node) -> Iterator[Deleted]:
    """Yield the files that programs write to though they have no name any more: they end with the program."""
    seen = set()
    for process in filter(str.isdigit, node.names("/proc")):
        for number in node.names(f"/proc/{process}/fd"):
            target = node.link(f"/proc/{process}/fd/{number}") or ""
            if not target.endswith(_DELETED) or target.startswith(_IN_MEMORY):
                continue
            try:
                status = node.path(f"/proc/{process}/fd/{number}").stat()
            except OSError:
                continue
            if status.st_size and (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                program = node.text(f"/proc/{process}/comm")
                yield Deleted(target[: -len(_DELETED)], status.st_size, program, int(process))
