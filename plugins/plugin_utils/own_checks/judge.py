# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What came of the checks of a lab's own on a node, as the results of a proof."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks import model
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import masked
from ansible_collections.gpulab.node.plugins.plugin_utils.own_checks.files import LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.own_checks.files import OwnCheck

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
MOST_SHOWN, MOST_DIGITS = 200, 18


class NoValueError(Exception):
    """What a command printed is not what the check reads, and why."""


def of_level(checks: Iterable[OwnCheck], level: str) -> list[OwnCheck]:
    """Return the checks that a proof of this level makes."""
    return [check for check in checks if LEVELS.index(check.level) <= LEVELS.index(level)]


def results(
    checks: Iterable[OwnCheck], readings: Mapping[str, Mapping[str, Any]] | None, why_not: str = ""
) -> list[model.ResultRecord]:
    """Return a result for each check. readings is what the module own_checks found, None where why_not says why."""
    told = []
    for check in checks:
        reading = readings.get(check.id) if isinstance(readings, dict) else None
        if readings is None:
            result = model.skipped(why_not)
        elif not isinstance(reading, dict):  # a node may answer anything
            result = model.unknown("the node said nothing of it")
        else:
            result = judged(check, reading)
        told.append(replace(result, id=check.id, source=check.source).as_dict())
    return told


def judged(check: OwnCheck, reading: Mapping[str, Any]) -> model.Result:
    """Return what a reading means. A command that gave no answer is no good sign, and no bad one: unknown."""
    problem, status = reading.get("problem"), reading.get("status")
    if problem:
        return model.unknown(shown(str(problem)))
    if check.parse == "status":
        value, what, said = status, f"the command ended with {status}", shown(str(reading.get("errors", "")))
    elif status != 0:
        return model.unknown(shown(f"the command ended with {status}: {reading.get('errors', '')}"))
    else:
        try:
            value = read(check, str(reading.get("output", "")))
        except NoValueError as error:
            return model.unknown(shown(str(error)))
        what, said = f"{shown(str(value))} {check.unit}".strip(), ""
    wanted = bounds(check)
    broken = [text for text, holds in wanted if not holds(value)]
    if not broken:
        return model.ok(what, value, unit=check.unit or None)
    answer = model.fail if check.severity == "fail" else model.warn
    return answer(
        f"{what}, wanted: {', '.join(broken)}" + (f" ({said})" if said else ""),
        "own_check",
        observed=value,
        expected=", ".join(text for text, _holds in wanted),
        unit=check.unit or None,
        reason=check.remedy or check.why,
    )


def read(check: OwnCheck, output: str) -> Any:
    """Return the value that a check reads in what its command printed. Raises NoValueError."""
    if check.parse == "lines":
        return sum(bool(line.strip()) for line in output.splitlines())
    if check.parse == "number":
        found = NUMBER.search(output)
        if not found:
            message = f"there is no number in its output: {output[:MOST_SHOWN]}"
            raise NoValueError(message)
        at: Any = _number(found[0])
    else:
        at = _field(check, output)
    if isinstance(at, str):
        return at[:MOST_SHOWN]
    if not isinstance(at, (int, float)) or not isfinite(at):
        message = f"{check.field or 'what it printed'} is neither a text nor a number"
        raise NoValueError(message)
    return at


def _number(text: str) -> float:
    return int(text) if text.lstrip("+-").isdigit() and len(text) < MOST_DIGITS else float(text)


def _field(check: OwnCheck, output: str) -> Any:
    try:
        at: Any = json.loads(output, parse_int=_number)
        for name in check.field.split("."):
            at = at[int(name)] if isinstance(at, list) else at[name]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        message = f"there is no {check.field} in its output"
        raise NoValueError(message) from error
    return at


def bounds(check: OwnCheck) -> list[tuple[str, Any]]:
    """Return the bounds of a check as people read them, each with what tells whether a value keeps it."""
    unit = f" {check.unit}" if check.unit else ""
    found: list[tuple[str, Any]] = []
    if check.parse == "status":
        return [("0", lambda value: value == 0)]
    if check.at_least is not None:
        least = check.at_least
        found.append((f"at least {least:g}{unit}", lambda value: is_number(value) and value >= least))
    if check.at_most is not None:
        most = check.at_most
        found.append((f"at most {most:g}{unit}", lambda value: is_number(value) and value <= most))
    if check.equals is not None:
        same = check.equals
        found.append(
            (f"{same}{unit}", lambda value: value == same and isinstance(value, bool) == isinstance(same, bool))
        )
    return found


def is_number(value: Any) -> bool:
    """Tell whether a value can be compared with a bound."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def shown(text: str) -> str:
    """Return a text of a node's as a line that terminals and pages can show, without secrets."""
    return masked(re.sub(r"[^ -~]+", " ", text)).strip()[:MOST_SHOWN]
