# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.usage: which month, what to ask of it, and the page of what was answered."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.core.hosts_action import HostsAction
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import REPORTS, place
from ansible_collections.gpulab.node.plugins.plugin_utils.usage import measured, page, slurm
from ansible_collections.gpulab.node.plugins.plugin_utils.usage.model import Source
from ansible_collections.gpulab.node.plugins.plugin_utils.usage.month import Month, month
from ansible_collections.gpulab.node.plugins.plugin_utils.usage.monthly import Lab, usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ARGUMENTS = {
    "month": {"type": "str"},
    "time_zone": {"type": "str", "default": "UTC"},
    "asked": {"type": "dict"},
    "controllers": {"type": "list", "elements": "str", "default": []},
    "server": {"type": "str"},
    "nodes": {"type": "list", "elements": "str", "default": []},
    "people": {"type": "list", "elements": "dict", "default": []},
    "names": {"type": "bool", "default": False},
    "price_kwh": {"type": "float"},
    "currency": {"type": "str", "default": ""},
    "directory": {"type": "path"},
}


class ActionModule(HostsAction):
    """Work on the controller, with what other hosts have registered."""

    spec = ARGUMENTS

    def for_hosts(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return the month and the questions; where they were asked, write the page and return lines."""
        if not arguments["asked"]:
            try:
                chosen = month(arguments["month"], arguments["time_zone"], datetime.now(timezone.utc))
            except Refusal as refusal:
                return failure([refusal])
            questions = {"slurm": slurm.questions(chosen), "prometheus": measured.questions(chosen)}
            return {"changed": False, "month": asdict(chosen), **questions}
        return {"changed": False, "lines": _written(arguments, variables["hostvars"])}


def _written(arguments: dict[str, Any], hostvars: Mapping[str, Any]) -> list[str]:
    """Write the page and its data; return lines for a terminal."""
    chosen = Month(**arguments["asked"]["month"])
    notes: list[str] = []
    jobs, sources = _jobs(arguments["controllers"], hostvars, notes)
    nodes, source = _measured(arguments["server"], hostvars, chosen, notes)
    lab = Lab(
        nodes=arguments["nodes"],
        groups={str(person.get("name")): person.get("groups") or () for person in arguments["people"]},
        names=arguments["names"],
        price_kwh=arguments["price_kwh"],
        currency=arguments["currency"],
    )
    silent = not all(known.known for known in sources)
    found = usage(chosen, lab, jobs, nodes, [*sources, source], notes, silent=silent)
    directory = Path(arguments["directory"] or REPORTS / "usage") / chosen.name
    data = json.dumps(asdict(found), indent=1) + "\n"
    return [
        *page.lines(found),
        place(str(directory / "usage.html"), page.page(found)),
        place(str(directory / "usage.json"), data),
    ]


def _answers(hostvars: Mapping[str, Any], host: str, variable: str) -> dict[str, Mapping[str, Any]]:
    """Return what a host answered, by the names of the questions; none where it was not reached."""
    registered = hostvars[host].get(variable) or {}
    return {result["item"]["key"]: result for result in registered.get("results", ())}


def _jobs(
    controllers: Sequence[str], hostvars: Mapping[str, Any], notes: list[str]
) -> tuple[list[slurm.Job] | None, list[Source]]:
    """Return the jobs of all controllers that say theirs, None where none does."""
    jobs: list[slurm.Job] = []
    sources: list[Source] = []
    for host in controllers:
        try:
            known, told = slurm.jobs(_answers(hostvars, host, "__usage_slurm"))
        except slurm.Unknown as unknown:
            sources.append(Source(f"Slurm on {host}", known=False, text=f"{unknown}; what its jobs held is in no sum"))
            continue
        jobs += known
        notes += [f"{host}: {line}" for line in told]
        sources.append(Source(f"Slurm on {host}", known=True, text=f"{len(known)} jobs held GPUs"))
    if not controllers:
        sources = [Source("Slurm", known=False, text="no controller in the inventory; what was held is not known")]
    return (jobs if any(source.known for source in sources) else None), sources


def _measured(
    server: str | None, hostvars: Mapping[str, Any], chosen: Month, notes: list[str]
) -> tuple[dict[str, measured.NodeMeasured] | None, Source]:
    """Return what Prometheus measured, None where it does not answer."""
    if not server:
        text = "no monitoring_server in the inventory, and usage_prometheus_url is not set; what was used is not known"
        return None, Source("Prometheus", known=False, text=text)
    name = f"Prometheus, asked from {server}"
    try:
        nodes, told = measured.measured(_answers(hostvars, server, "__usage_prometheus"), chosen)
    except measured.Silent as silent:
        return None, Source(name, known=False, text=f"{silent}; what was used is not known")
    notes += told
    return nodes, Source(name, known=bool(nodes), text=f"{len(nodes)} nodes were measured")
