# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the kernel takes the values of tuning_overrides: by catalog/kernel_values.yml, and by what the node has."""

from __future__ import annotations

import re
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.facts.limits import UNLIMITED
from ansible_collections.gpulab.node.plugins.module_utils.system.kernel_values import SYSCTL
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import overrides
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog, Record

VARIABLE = "tuning_overrides"
MOST_OPEN = "fs.nr_open"  # the kernel refuses a limit nofile above it
_NUMBER = re.compile(r"-?\d+")
_LARGEST = 2**64 - 1


def text(name: str, kind: str, value: Any, catalog: Catalog) -> str:
    """Return a value as it is written. Raises Refusal P050, P055 and P106 for what no node takes."""
    if kind == "sysctl" and not re.fullmatch(SYSCTL, name):
        raise refuse("P106", name=name, why="no sysctl is called", advice="Write its name, such as vm.swappiness.")
    written = " ".join(overrides.text(VARIABLE, name, value).split())
    record = next((one for one in catalog.kernel_values if fnmatchcase(name, one["name"])), None)
    if record and record.get("action"):
        advice = "Remove it. Where it is needed, run sysctl -w on the node."
        raise refuse("P106", name=name, why="starts an action and keeps no value", advice=advice)
    if record and not _fits(record, kind, written):
        raise refuse("P055", variable=VARIABLE, name=name, value=written, form=form(record, kind))
    return written


def check(name: str, kind: str, written: str, asked: Mapping[str, Any], catalog: Catalog) -> None:
    """Raise Refusal where this node does not take a value; asked are the facts about the names that are set."""
    of_node = asked.get(name)
    if kind == "limit":
        _check_open_files(name, written, asked)
    if of_node is None or kind not in ("sysctl", "knob"):
        return
    if kind == "sysctl" and not of_node["there"]:
        near = of_node["near"] or next(iter(get_close_matches(name, _known(catalog), 1)), None)
        advice = f"Did you mean {near}?" if near else "If a module of the kernel brings it, load that at every boot."
        raise refuse("P106", name=name, why="this node's kernel does not have", advice=advice)
    if kind == "sysctl" and not of_node["writable"]:
        raise refuse("P106", name=name, why="the kernel lets nobody change", advice="Remove it.")
    if of_node["words"] and written not in of_node["words"]:
        told = f"one of those of this node: {', '.join(of_node['words'])}"
        raise refuse("P055", variable=VARIABLE, name=name, value=written, form=told)
    listed = any(fnmatchcase(name, one["name"]) for one in catalog.kernel_values)
    fields = of_node["value"].split()
    if kind == "sysctl" and not listed and fields and all(map(_NUMBER.fullmatch, fields)):
        record = {"numbers": len(fields), "least": -_LARGEST, "most": _LARGEST}
        if not _fits(record, kind, written):
            told = f"{_count(len(fields))}, as it has now ({of_node['value']})"
            raise refuse("P055", variable=VARIABLE, name=name, value=written, form=told)


def form(record: Record, kind: str) -> str:
    """Return in words what a value has to be."""
    if "words" in record:
        return f"one of {', '.join(record['words'])}"
    parts = [f"{_count(record['numbers'])} from {record['least']} to {record['most']}"]
    if record.get("multiple"):
        parts.append(f"a multiple of {record['multiple']}")
    if record.get("rising"):
        parts.append("none less than the one before")
    if kind == "limit":
        parts.append("or SOFT:HARD, the soft one not above the hard one")
    if record.get("unlimited"):
        parts.append(f"or {UNLIMITED}")
    return ", ".join(parts)


def _count(numbers: int) -> str:
    return "a whole number" if numbers == 1 else f"{numbers} whole numbers"


def _fits(record: Record, kind: str, written: str) -> bool:
    if "words" in record:
        return written in record["words"]
    if record.get("text"):
        return bool(written)
    fields = written.split(":") if kind == "limit" else written.split()
    if len(fields) not in ((1, 2) if kind == "limit" else (record["numbers"],)):
        return False
    found = [_number(record, field) for field in fields]
    if any(number is None for number in found):
        return False
    rises = all(low <= high for low, high in zip(found, found[1:]))  # type: ignore[operator]
    return rises or not (record.get("rising") or kind == "limit")


def _number(record: Record, field: str) -> float | None:
    """Return a number of a value; None where it is none that the record takes."""
    if record.get("unlimited") and field == UNLIMITED:
        return float("inf")
    if not _NUMBER.fullmatch(field):
        return None
    number = int(field)
    return number if record["least"] <= number <= record["most"] and number % record.get("multiple", 1) == 0 else None


def _check_open_files(name: str, written: str, asked: Mapping[str, Any]) -> None:
    most = (asked.get(MOST_OPEN) or {}).get("value", "")
    if name == "nofile" and most.isdigit() and any(int(field) > int(most) for field in written.split(":")):
        told = f"at most {most}, which is {MOST_OPEN} of this node"
        raise refuse("P055", variable=VARIABLE, name=name, value=written, form=told)


def _known(catalog: Catalog) -> Sequence[str]:
    return [one["name"] for one in catalog.kernel_values if "." in one["name"] and "*" not in one["name"]]
