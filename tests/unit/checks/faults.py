"""Faults, each injected into a healthy node, and the check and remedy that must come of it.

``python tests/fault_table.py`` prints them with what the proof says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable

from . import nodes

OLD = "580.95.05"


@dataclass(frozen=True)
class Fault:
    """What breaks, on which model; the check that finds it, and the checks that rightly speak up as well."""

    name: str
    model: str
    inject: Callable[[dict[str, Any]], object]
    check: str
    remediation: str
    severity: str = "fail"
    also: tuple[str, ...] = ()
    plan: dict[str, Any] | None = None
    declared: dict[str, Any] = field(default_factory=dict)
    says: str = ""
    healthy: Callable[[str], dict[str, Any]] = nodes.healthy

    def facts(self) -> dict[str, Any]:
        """Return the broken node's facts."""
        facts = self.healthy(self.model)
        self.inject(facts)
        return facts


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return an injection that sets the fact at the dotted path; numbers index lists."""

    def inject(facts: dict[str, Any]) -> None:
        *parents, last = (int(key) if key.isdigit() else key for key in path.split("."))
        at: Any = facts
        for key in parents:
            at = at[key]
        at[last] = value

    return inject


def all_of(*injections: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], None]:
    """Return an injection that makes several."""

    def inject(facts: dict[str, Any]) -> None:
        for each in injections:
            each(facts)

    return inject


def every_gpu(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return an injection into all of NVML's GPUs."""

    def inject(facts: dict[str, Any]) -> None:
        for number in range(len(facts["nvml"]["gpus"])):
            put(f"nvml.gpus.{number}.{path}", value)(facts)

    return inject
