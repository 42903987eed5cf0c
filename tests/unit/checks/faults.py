"""Faults, each injected into a healthy node, and the check and remedy that must come of it.

``python tests/fault_table.py`` prints them with what the proof says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable

from . import loaded, nodes

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


def gpu(path: str, value: Any, number: int = 0) -> Any:
    """Return an injection into one of NVML's GPUs."""
    return put(f"nvml.gpus.{number}.{path}", value)


Loaded = partial(Fault, healthy=loaded.measured)


def measured(path: str, value: Any) -> Any:
    """Return an injection that puts a value into what the active tests measured."""
    return put(f"measurements.{path}", value)


def failed(call: str | None, code: int | None, name: str) -> dict[str, Any]:
    """Return the record of a test that failed."""
    return {"state": "failed", "error": {"call": call, "code": code, "name": name}}


def cuda(code: int, name: str, call: str = "cuCtxSynchronize") -> dict[str, Any]:
    """Return the record of a test in which a call of the driver failed."""
    return failed(call, code, f"CUDA_ERROR_{name}")


def nvml_down(state: str, code: int, text: str) -> Callable[[dict[str, Any]], None]:
    """Return an injection in which NVML does not start."""

    def inject(facts: dict[str, Any]) -> None:
        facts["nvml"].update(state=state, error={"code": code, "text": text}, gpus=[], peers=[])

    return inject


NOT_LOADED = all_of(
    put("modules.nvidia", {"loaded": False, "version": None}), nvml_down("not_loaded", 9, "DRIVER_NOT_LOADED")
)


def with_modules(flavour: str) -> Callable[[dict[str, Any]], None]:
    """Return an injection of the open or the proprietary kernel modules."""
    return all_of(*(put(f"kernels.{number}.nvidia_module_flavour", flavour) for number in (0, 1)))
