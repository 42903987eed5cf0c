# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run's proof as one document, from which every format is made."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks import fleet, runner
from ansible_collections.gpulab.node.plugins.module_utils.checks.measurements.judging import rates_mean_something
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import SEVERITIES, Declared, Facts, count, worst
from ansible_collections.gpulab.node.plugins.module_utils.checks.remedies import REMEDIES
from ansible_collections.gpulab.node.plugins.plugin_utils.core.gpulab_version import version
from ansible_collections.gpulab.node.plugins.plugin_utils.history import falls, trends
from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import compared, line, together
from ansible_collections.gpulab.node.plugins.plugin_utils.history.memory import Memory, Settings
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import host_types

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Result, ResultRecord
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import Comparison, Line
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.model import ReportedGpu
    from ansible_collections.gpulab.node.plugins.plugin_utils.report.model import (
        GatheredHost,
        Report,
        ReportedHost,
        SharedFinding,
        TrendOf,
    )

SCHEMA = 2
UNKNOWN: ReportedGpu = {
    "index": None,
    "model": None,
    "device": None,
    "uuid": None,
    "serial": None,
    "bus_id": None,
    "vbios": None,
    "memory_mib": None,
    "pcie": None,
    "power_limit_watts": None,
    "temperature_celsius": None,
    "ecc": None,
    "last_xid": None,
    "xids": None,
    "ecc_corrected": None,
    "ecc_uncorrected": None,
    "remapped_rows": None,
    "replays": None,
    "rates": None,
}
RATES = ("_gbs", "_tflops")
FINDINGS = ("fail", "warn", "unknown", "info")


def build(hosts: dict[str, GatheredHost], created: str, seconds: float | None = None) -> Report:
    """Return the document of a run of hosts, by their names.

    created is the time of the run, ISO 8601 in UTC, seconds how long the run took until then, None where nobody looked.
    """
    compared = fleet.compare({name: Facts(host["facts"]) for name, host in hosts.items() if host["facts"]})
    entries = [_host(name, host, compared.get(name, [])) for name, host in sorted(hosts.items())]
    used = {result["remediation"] for entry in entries for result in entry["results"]}
    return {
        "schema": SCHEMA,
        "created": created,
        "gpulab": version(),
        "seconds": seconds,
        "verdict": worst(entry["verdict"] for entry in entries),
        "counts": count(result for entry in entries for result in entry["results"]),
        "checks": {
            **{check.id: {"proves": check.proves, "source": check.source} for check in runner.checks()},
            **{known.id: {"proves": known.proves, "source": known.source} for known in fleet.COMPARISONS},
        },
        "remedies": {remedy: REMEDIES[remedy] for remedy in sorted(used)},
        "changes": None,
        "trends": [],
        "hosts": entries,
    }


def with_history(report: Report, earlier: Callable[[str], Sequence[Line]], memory: Memory | None = None) -> Report:
    """Return the document with what is new and gone since earlier lines of the history, and what gets worse.

    earlier returns the lines of a host, the latest last. One host after the other is asked for, as the lines of all of
    a large lab would take a gigabyte of memory. memory then keeps what is to be remembered of the hosts' rates.
    """
    worse: list[TrendOf] = []
    fell: list[falls.Fall] = []
    known: Counter[falls.Board] = Counter()
    comparisons: dict[str, Comparison | None] = {}
    memory = memory or Memory(None, Settings())
    lines = {host["name"]: line(report, host) for host in report["hosts"]}
    proven = memory.proven(lines.values())
    for name, last in lines.items():
        before = earlier(name)
        state = proven.follow(name, last, before)
        fell += falls.falls(name, state, last, memory.promised(state), known)
        worse += [{"host": name, **found} for found in trends.trends([*before, last])]
        comparisons[name] = compared(name, last, before)
    worse += [{"host": name, **found} for name, found in falls.told(fell, known)]
    remedies = {found["remediation"]: REMEDIES[found["remediation"]] for found in worse}
    return {
        **report,
        "changes": together(comparisons.keys(), comparisons),
        "trends": worse,
        "remedies": dict(sorted({**report["remedies"], **remedies}.items())),
    }


def _host(name: str, host: GatheredHost, compared: list[Result]) -> ReportedHost:
    facts = Facts(host["facts"] or {})
    state, detail = _state(host)
    results = host["results"] + [result.as_dict() for result in compared]
    return {
        "name": name,
        "state": state,
        "detail": detail,
        "verdict": worst(result["severity"] for result in results) if state == "verified" else "fail",
        "counts": count(results),
        "groups": sorted(host["groups"]),
        "level": host["verify"].get("declared", Declared()).get("level"),
        **host["run"],
        "simulated": facts.get("simulated") or None,
        **host_types.shown(host["plan"], host["groups"]),
        "system": facts.get("system.name"),
        "boot": facts.get("system.boot_id", "")[:8] or None,
        "kernel": facts.get("system.kernel"),
        "driver": facts.get("nvml.driver_version") or facts.get("driver.library"),
        "cuda": [str(toolkit.get("version") or toolkit["prefix"]) for toolkit in facts.get("cuda.toolkits", [])],
        "environments": [_environment(environment) for environment in facts.get("environments", [])],
        "rates": _rates_of_all(facts),
        "gpus": inventory(facts),
        "results": results,
        "not_for_this_machine": host["not_for_this_machine"],
    }


def _state(host: GatheredHost) -> tuple[str, str | None]:
    """Return (state, detail): verified, unreachable, or failed before it could be judged."""
    if host["results"] or host["not_for_this_machine"]:
        return "verified", None
    for task in (host["reading"], host["verify"]):
        if task.get("unreachable"):
            return "unreachable", str(task.get("msg", ""))
        if task.get("failed"):
            return "failed", str(task.get("msg", ""))
    return "failed", "no result: it failed or became unreachable earlier in this run"


def inventory(facts: Facts) -> list[ReportedGpu]:
    """Return one record for each GPU of a node: NVML's where it answers, else what the PCI bus shows."""
    xids: dict[str, dict[str, int]] = {}
    for event in facts.get("kernel_log.events", []):
        if event.get("xid") is not None:
            seen = xids.setdefault(str(event.get("bus_id")), {})
            # the one that came last is the last one
            seen[str(event["xid"])] = seen.pop(str(event["xid"]), 0) + event.get("count", 1)
    rates = _rates(facts)
    listed = [_gpu(gpu, xids, rates) for gpu in facts.get("nvml.gpus", [])]
    return listed or [
        {**UNKNOWN, "model": gpu.get("device"), "device": gpu.get("device"), "bus_id": gpu.get("address")}
        for gpu in facts.get("pci.gpus", [])
    ]


def _gpu(gpu: Facts, xids: dict[str, dict[str, int]], rates: dict[str, dict[str, float]]) -> ReportedGpu:
    """Return what the inventory says of a GPU that NVML lists."""
    if "error" in gpu.data:
        return {**UNKNOWN, "index": gpu.data.get("index"), "model": f"no answer: {gpu.data['error']}"}
    seen = xids.get(str(gpu.get("bus_id")), {})
    return {
        "index": gpu.get("index"),
        "model": gpu.get("name"),
        "device": gpu.get("device"),
        "uuid": gpu.get("uuid"),
        "serial": gpu.get("serial"),
        "bus_id": gpu.get("bus_id"),
        "vbios": gpu.get("vbios"),
        "memory_mib": gpu.get("memory_mib.total"),
        "pcie": _pcie(gpu),
        "power_limit_watts": gpu.get("power_mw.enforced_limit", 0) // 1000 or None,
        "temperature_celsius": gpu.get("temperature.gpu"),
        "ecc": gpu.get("ecc.mode.enabled"),
        "last_xid": int([*seen][-1]) if seen else None,
        "xids": seen,
        "ecc_corrected": gpu.get("ecc.aggregate.corrected"),
        "ecc_uncorrected": gpu.get("ecc.aggregate.uncorrected"),
        "remapped_rows": _remapped(gpu),
        "replays": gpu.get("pcie.replays"),
        "rates": rates.get(str(gpu.get("uuid")), {}),
    }


def _remapped(gpu: Facts) -> int | None:
    """Return how many rows of the GPU's memory were replaced; None where the board has no such counter."""
    rows = [gpu.get(f"remapped_rows.{cause}") for cause in ("corrected", "uncorrected")]
    known = [number for number in rows if number is not None]
    return sum(known) if known else None


def _rates(facts: Facts) -> dict[str, dict[str, float]]:
    """Return what the active tests measured on each GPU, by UUID; those of simulated GPUs mean nothing."""
    if not rates_mean_something(facts):
        return {}
    return {
        str(gpu.get("uuid")): {
            rate: value
            for test in gpu["tests"].data.values()
            for rate, value in test.items()
            if rate.endswith(RATES) and value is not None
        }
        for gpu in facts["measurements.gpus"]
    }


def _rates_of_all(facts: Facts) -> dict[str, float]:
    """Return what was measured over all GPUs of the node, and over nodes."""
    found = {}
    for test in ("all_reduce", "nodes_all_reduce") if rates_mean_something(facts) else ():
        value = facts.get(f"measurements.{test}.{test}_gbs")
        if value is not None:
            found[f"{test}_gbs"] = value
    return found


def _environment(environment: Facts) -> str:
    """Return an environment with its framework: torch (pytorch 2.13.0)."""
    framework, name = environment.get("expected.framework"), environment["name"]
    version_of = environment.get("answer.version") or environment.get("expected.version")
    return f"{name} ({' '.join(filter(None, (framework, version_of)))})" if framework else str(name)


def _pcie(gpu: Facts) -> str | None:
    width = gpu.get("pcie.width")
    return f"gen {gpu.get('pcie.generation')} of {gpu.get('pcie.max_generation')}, x{width}" if width else None


def findings(results: list[ResultRecord]) -> list[SharedFinding]:
    """Return what a person must look at, the gravest first; one finding names all of its GPUs."""
    grouped: dict[tuple[str, ...], SharedFinding] = {}
    for result in results:
        if result["severity"] in FINDINGS:
            about = result["id"], result["severity"], result["summary"]
            seen = result["reason"], result["observed"], result["expected"]
            entry = grouped.setdefault((*about, *map(str, seen)), {**result, "gpus": []})
            if result["gpu"]:
                entry["gpus"].append(result["gpu"])
    return sorted(grouped.values(), key=lambda entry: -SEVERITIES.index(entry["severity"]))
