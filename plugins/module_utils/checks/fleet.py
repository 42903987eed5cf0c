# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare each node with the other nodes of the run that have the same GPUs, and name the one that stands out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.measurements.judging import rates_mean_something
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Result, ok, warn

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts

# With fewer nodes of a kind there is no majority to stand out from.
ENOUGH = 3
# A node whose GPUs are this much warmer than the median node's has a problem that the room has not.
WARMER_CELSIUS = 20
# A node slower than this share of the median node has a fault that the others have not.
SLOWER_SHARE = 0.85


def _warmer(value: float, usual: float) -> bool:
    return value > usual + WARMER_CELSIUS


def _slower(value: float, usual: float) -> bool:
    return value < SLOWER_SHARE * usual


@dataclass(frozen=True)
class Comparison:
    """What is compared. read returns a node's value, None where it has none: then the node is left out.

    Texts are compared with what most nodes have; numbers with the median, from which apart(value, median) tells them.
    """

    id: str
    proves: str
    read: Callable[[Facts], str | float | None]
    remediation: str
    source: str = "the other nodes of this run"
    apart: Callable[[float, float], bool] = _warmer
    unit: str | None = None


def compare(nodes: dict[str, Facts]) -> dict[str, list[Result]]:
    """Return, for each node, how it compares with the nodes that have the same GPUs."""
    results: dict[str, list[Result]] = {name: [] for name in nodes}
    kinds: dict[tuple[str, ...], list[str]] = {}
    for name, facts in nodes.items():
        models = tuple(sorted({str(gpu.get("device")) for gpu in facts.get("pci.gpus", [])}))
        kinds.setdefault(models, []).append(name)
    for members in kinds.values():
        for comparison in COMPARISONS:
            values = {name: comparison.read(nodes[name]) for name in members}
            known = {name: value for name, value in values.items() if value is not None}
            if len(known) >= ENOUGH:
                for name, result in _judge(comparison, known).items():
                    results[name].append(replace(result, id=comparison.id, source=comparison.source))
    return results


def _judge(comparison: Comparison, values: dict[str, str | float]) -> dict[str, Result]:
    """Return a result for each node; none where texts have no majority."""
    numbers = [value for value in values.values() if not isinstance(value, str)]
    if numbers:
        usual: str | float = median(numbers)
        apart = [name for name, value in values.items() if comparison.apart(float(value), float(usual))]
        rest = f"the median of {len(values)} nodes with these GPUs: {usual:g}"
    else:
        usual, held = Counter(values.values()).most_common(1)[0]
        if held * 2 <= len(values):
            return {}
        apart = [name for name, value in values.items() if value != usual]
        rest = f"{held} of {len(values)} nodes with these GPUs: {usual}"
    return {
        name: warn(f"{value}; {rest}", comparison.remediation, observed=value, expected=usual, unit=comparison.unit)
        if name in apart
        else ok("like the other nodes with these GPUs", value)
        for name, value in values.items()
    }


def _count(facts: Facts) -> str | None:
    gpus = facts.get("pci.gpus")
    return f"{len(gpus)} GPUs" if gpus else None


def _driver(facts: Facts) -> str | None:
    library = facts.get("driver.library")
    return f"driver {library}" if library else None


def _vbios(facts: Facts) -> str | None:
    versions = {gpu.get("vbios") for gpu in facts.get("nvml.gpus", [])} - {None}
    return f"VBIOS {', '.join(sorted(versions))}" if versions else None


def _mtu(facts: Facts) -> str | None:
    """Return the MTU of the fastest interfaces with an address."""
    found = [one for one in facts.get("network", []) if one.get("up") and one.get("ipv4") and one.get("speed_gbps")]
    most = max((one["speed_gbps"] for one in found), default=None)
    sizes = {one.get("mtu") for one in found if one["speed_gbps"] == most} - {None}
    return f"MTU {', '.join(map(str, sorted(sizes)))}" if sizes else None


def _temperature(facts: Facts) -> float | None:
    degrees = [gpu.get("temperature.gpu") for gpu in facts.get("nvml.gpus", [])]
    known = [value for value in degrees if value is not None]
    return median(known) if known else None


def _rate(test: str, key: str) -> Callable[[Facts], float | None]:
    """Return a reader of a rate that the active tests measured: the median of the node's GPUs."""

    def read(facts: Facts) -> float | None:
        if not rates_mean_something(facts):
            return None
        rates = [gpu.get(f"tests.{test}.{key}") for gpu in facts["measurements.gpus"]]
        known = [rate for rate in rates if rate is not None]
        return median(known) if known else None

    return read


def _peer_copies(facts: Facts) -> float | None:
    """Return the median rate of copies between GPUs that reach each other's memory."""
    pairs = facts.get("measurements.peer_copies.pairs", []) if rates_mean_something(facts) else []
    rates = [pair.get("gbs") for pair in pairs if pair.get("straight")]
    known = [rate for rate in rates if rate is not None]
    return median(known) if known else None


def _all_reduce(facts: Facts) -> float | None:
    return facts.get("measurements.all_reduce.all_reduce_gbs") if rates_mean_something(facts) else None


COMPARISONS = [
    Comparison("fleet-gpu-count", "as many GPUs as most nodes of its kind", _count, "check_seating"),
    Comparison("fleet-driver", "the same driver as most nodes of its kind", _driver, "install_driver"),
    Comparison("fleet-vbios", "the same VBIOS as most nodes of its kind", _vbios, "contact_support"),
    Comparison("fleet-mtu", "the same MTU as most nodes of its kind", _mtu, "check_network"),
    Comparison("fleet-temperature", "GPUs about as warm as those of the median node", _temperature, "check_cooling"),
    *(
        Comparison(f"fleet-{name}", f"{what} as fast as on the median node", read, remedy, apart=_slower, unit=unit)
        for name, what, read, remedy, unit in (
            ("copy-rate", "copies to the GPUs", _rate("copies", "to_device_gbs"), "check_seating", "GB/s"),
            ("memory-bandwidth", "memory", _rate("memory", "memory_gbs"), "contact_support", "GB/s"),
            ("matmul-bf16", "bf16 matrix products", _rate("matmul", "bf16_tflops"), "check_cooling", "TFLOPS"),
            ("matmul-fp16", "fp16 matrix products", _rate("matmul", "fp16_tflops"), "check_cooling", "TFLOPS"),
            ("peer-copies", "copies between the GPUs", _peer_copies, "contact_support", "GB/s"),
            ("all-reduce", "an all_reduce over the node's GPUs", _all_reduce, "contact_support", "GB/s"),
        )
    ),
]
