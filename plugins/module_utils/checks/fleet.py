# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare each node with the other nodes of the run, and name the one that stands out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Result, ok, warn

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts

# With fewer nodes of a kind there is no majority to stand out from.
ENOUGH = 3
SOURCE = "the other nodes of this run"


@dataclass(frozen=True)
class Comparison:
    """What is compared: id and proves as a check has them."""

    id: str
    proves: str
    source: str = SOURCE


def compare(nodes: dict[str, Facts]) -> dict[str, list[Result]]:
    """Return what makes each node differ from most nodes that have the same GPUs."""
    results: dict[str, list[Result]] = {name: [] for name in nodes}
    kinds: dict[tuple[str, ...], list[str]] = {}
    for name, facts in nodes.items():
        models = tuple(sorted({str(gpu.get("device")) for gpu in facts.get("pci.gpus", [])}))
        if models:
            kinds.setdefault(models, []).append(name)
    for members in kinds.values():
        if len(members) >= ENOUGH:
            for check, read in READERS.items():
                values = {name: read(nodes[name]) for name in members}
                for name, result in _outliers(values).items():
                    results[name].append(replace(result, id=check.id, source=SOURCE))
    return results


def _outliers(values: dict[str, str]) -> dict[str, Result]:
    """Return a result for each node; none when no value is held by more than half of them."""
    usual, held = Counter(values.values()).most_common(1)[0]
    if held * 2 <= len(values):
        return {}
    return {
        name: ok("as most nodes with these GPUs", value)
        if value == usual
        else warn(
            f"{value}; {held} of {len(values)} nodes with these GPUs: {usual}",
            "configure",
            observed=value,
            expected=usual,
        )
        for name, value in values.items()
    }


def _count(facts: Facts) -> str:
    return f"{len(facts.get('pci.gpus', []))} GPUs"


def _driver(facts: Facts) -> str:
    return f"driver {facts.get('driver.library') or 'none'}"


def _vbios(facts: Facts) -> str:
    return "VBIOS " + (", ".join(sorted({str(gpu.get("vbios")) for gpu in facts.get("nvml.gpus", [])})) or "unread")


READERS: dict[Comparison, Callable[[Facts], str]] = {
    Comparison("fleet-gpu-count", "as many GPUs as most nodes of its kind"): _count,
    Comparison("fleet-driver", "the same driver as most nodes of its kind"): _driver,
    Comparison("fleet-vbios", "the same VBIOS as most nodes of its kind"): _vbios,
}
COMPARISONS = list(READERS)
