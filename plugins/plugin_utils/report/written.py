# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""report.json: the document of a run without what it says again and again. docs/report.schema.json describes it.

What a result does not have is left out. Results that are the same but for their GPU are one, with all its GPUs. The
source of a result is that of its check. A report of schema 1 had all of it, and seven times the size.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import GpuId
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import Line
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.model import ReportedGpu
    from ansible_collections.gpulab.node.plugins.plugin_utils.report.model import Report, ReportedHost

SCHEMAS = (1, 2)


def text(report: Report) -> str:
    """Return what report.json holds, a line for each host."""
    whole = {name: value for name, value in report.items() if name != "hosts"}
    hosts = ",\n".join(json.dumps(_host(host), separators=(",", ":"), sort_keys=True) for host in report["hosts"])
    return f'{json.dumps(whole, indent=1, sort_keys=True)[:-2]},\n "hosts": [\n{hosts}\n ]\n}}\n'


def _host(host: ReportedHost) -> dict[str, Any]:
    """Return a host as report.json has it."""
    places = {_identity(gpu): place for place, gpu in enumerate(host["gpus"])}
    by_reason: dict[str, dict[str, Any]] = {}
    for entry in _of_all_gpus(host["not_for_this_machine"], places):
        check = entry.pop("id")
        by_reason.setdefault(json.dumps(entry), {**entry, "checks": []})["checks"].append(check)
    return {
        **host,
        "results": _of_all_gpus(host["results"], places),
        "not_for_this_machine": list(by_reason.values()),
    }


def _of_all_gpus(entries: Iterable[Mapping[str, Any]], places: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return entries without what they do not have; those that are the same but for their GPU are one.

    gpus has the places of the GPUs in the host's list; of one that is not there, what is known of it.
    """
    found: dict[str, dict[str, Any]] = {}
    for entry in entries:
        has = {
            name: value
            for name, value in entry.items()
            if name not in ("gpu", "source") and value is not None and (name, value) != ("remediation", "none")
        }
        shared = found.setdefault(json.dumps(has, sort_keys=True), has)
        if entry["gpu"]:
            shared.setdefault("gpus", []).append(places.get(_identity(entry["gpu"]), entry["gpu"]))
    return list(found.values())


def _identity(gpu: GpuId | ReportedGpu) -> str:
    return json.dumps([gpu["index"], gpu["uuid"], gpu["bus_id"]])


def lines(written: Mapping[str, Any]) -> dict[str, Line]:
    """Return what the history would have kept of the hosts of a report.json, of either schema, by their names."""
    dated: Any = written
    hosts: list[Any] = written["hosts"]
    if written["schema"] != 1:
        hosts = [{**host, "results": [*_of_each_gpu(host)]} for host in hosts]
    return {host["name"]: line(dated, host) for host in hosts}


def _of_each_gpu(host: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the results of a host, one for each of their GPUs."""
    for result in host["results"]:
        for place in result.get("gpus", [None]):
            gpu = host["gpus"][place] if isinstance(place, int) else place
            yield {**result, "gpu": gpu and {name: gpu[name] for name in ("index", "uuid", "bus_id")}}
