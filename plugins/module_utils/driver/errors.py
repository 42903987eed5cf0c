# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How grave an error of the kernel log is, and what helps: one judgement for proof, metrics and diagnosis."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.driver.known_errors import (
    LINES,
    NEWEST_XID,
    NVLINK5,
    RECOVERY,
    SWITCHES,
    XIDS,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

RECOVERY_XID, OFF_THE_BUS = 154, 79
NVLINK5_XIDS = range(144, 151)
# As "SAW_MVB Nonfatal XC0 i0 Link 05 (0x00000021 0x00000020 ...)": the unit, and the error status, the second number.
# The last words of this form count: before them stands the name of a program, which its user has chosen.
_NVLINK5 = re.compile(
    r".*\b(?P<unit>[A-Z]\w+) +(?P<gravity>Fatal|Nonfatal)\b(?:[^(]*\(0x[0-9a-f]+ (?P<status>0x[0-9a-f]+))?",
    re.IGNORECASE,
)
_RECOVERY = re.compile(r"action changed from .* to \w+ \((?P<action>[^)]*)\)")
_STATUS = len("0x00000000")
_GRAVE = ("info", "warn", "fail")  # rising


@dataclass(frozen=True)
class JudgedError:
    """How grave an error is (info, warn, fail), the word of its remedy, and what it means."""

    severity: str
    remedy: str
    meaning: str


def judged(event: Mapping[str, Any], boards: Collection[str] = ()) -> JudgedError:
    """Judge an event of facts.kernel_log; boards are the PCI ids of the node's GPUs, as 10de:2330."""
    kind, text = event["kind"], event.get("text") or ""
    if kind == "xid":
        return _xid(event["xid"], text)
    if kind in SWITCHES:
        severity, remedy, meaning = SWITCHES[kind]
        number = f" (SXid {event['xid']})" if event.get("xid") else ""
        return JudgedError(severity, remedy, meaning + number)
    known = LINES[kind]
    value = re.search(known["line"], text)
    meaning = known["meaning"].format(**value.groupdict() if value else {"value": "?"})  # a node may say anything
    if set(boards) & set(known.get("not_on", ())):
        return JudgedError("info", "none", f"{meaning}, as on every board of this model")
    return JudgedError(known["severity"], known["remedy"], meaning)


def parsed(event: Mapping[str, Any]) -> str:
    """Return what an event's text tells of its judgement, in words of the catalog and numbers: a text judged alike.

    All else of it may be anybody's: a program's name, a path.
    """
    kind, number, text = event["kind"], event["xid"], event["text"] or ""
    if kind == "xid" and number == RECOVERY_XID:
        named = _RECOVERY.search(text)
        return f"action changed from 0x0 to 0x0 ({named['action']})" if named and named["action"] in RECOVERY else ""
    if kind == "xid" and number in NVLINK5_XIDS:
        named = _NVLINK5.search(text)
        if named is None:
            return ""
        unit = named["unit"] if named["unit"] in NVLINK5 else "OTHER"
        status = f" (0x0 {named['status'].lower()})" if named["status"] and len(named["status"]) <= _STATUS else ""
        return f"{unit} {named['gravity'].capitalize()}{status}"
    value = re.search(LINES[kind]["line"], text) if kind in LINES else None
    figures = value.groupdict().values() if value else ()
    return value.group() if value and figures and all(re.fullmatch(r"\d{1,5}", one) for one in figures) else ""


def explains_start(event: dict[str, Any]) -> bool:
    """Tell whether an event says why the driver could not start a GPU."""
    return event.get("xid") == OFF_THE_BUS or bool(LINES.get(event["kind"], {}).get("why_not_started"))


def over_when_it_answers(event: dict[str, Any]) -> bool:
    """Tell whether an event is past once its GPU answers."""
    return bool(LINES.get(event["kind"], {}).get("over_when_it_answers"))


def _xid(number: int, text: str) -> JudgedError:
    if number not in XIDS:
        known = f"newer than the list of gpulab, which ends at {NEWEST_XID}" if number > NEWEST_XID else "of no list"
        return JudgedError("warn", "contact_support", f"XID {number}, {known}")
    severity, remedy, meaning = XIDS[number]
    if number in NVLINK5_XIDS:
        severity, remedy, meaning = _nvlink5(text, severity, remedy, meaning)
    if number == RECOVERY_XID:
        severity, remedy, meaning = _recovery(text, severity, remedy, meaning)
    return JudgedError(severity, remedy, f"XID {number}: {meaning}")


def _recovery(text: str, severity: str, remedy: str, meaning: str) -> tuple[str, str, str]:
    named = _RECOVERY.search(text)
    if named is None:
        return severity, remedy, meaning
    return RECOVERY.get(named["action"], (severity, remedy, f"{meaning}: {named['action']}"))


def _nvlink5(text: str, severity: str, remedy: str, meaning: str) -> tuple[str, str, str]:
    """Judge by NVIDIA's table; what the driver calls fatal is, and what it calls nonfatal is a warning at most."""
    named = _NVLINK5.search(text)
    if named is None:
        return severity, remedy, meaning
    meaning = f"{meaning}, {named['unit']}"
    if named["gravity"].lower() == "fatal":
        return "fail", "reset_gpu", meaning
    table = NVLINK5.get(named["unit"], {})
    status = int(named["status"] or "0", 16)
    found = [table[status]] if status in table else [table[bit] for bit in table if bit & status]
    if not found:
        return severity, remedy, meaning
    severity, remedy = max(found, key=lambda one: _GRAVE.index(one[0]))
    if severity == "fail":
        severity = "warn"
    waits = " (XID 154 follows where it needs an action)" if remedy == "restart_app" else ""
    return severity, remedy, meaning + waits
