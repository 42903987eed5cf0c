# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a check is, what it reads and what it answers. No I/O happens here.

A check is a function of a Node (facts, plan, profiles) that yields Results. It reads facts by path; an absent
fact ends the check with a result that says which fact is absent, so no check guards against it by itself.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Callable, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable

    Finder = Callable[..., Iterable["Result"]]

# Rising: a run's verdict is its worst severity.
SEVERITIES = ("skipped", "ok", "info", "unknown", "warn", "fail")
# What a check answers that is not for this machine: no severity, and no report counts it.
INAPPLICABLE = "inapplicable"


class Unread(Exception):  # noqa: N818 - a fact that cannot be had is no error of the program
    """A fact that is absent, or that NVML did not give.

    error is NVML's name for why, or None when the fact is absent. unsupported says that there is nothing to read:
    the board, the driver or the library does not have it.
    """

    def __init__(self, path: str, error: str | None = None, *, unsupported: bool = False) -> None:
        """Keep where it was looked for and what NVML said."""
        super().__init__(path)
        self.path = path
        self.error = error
        self.unsupported = unsupported


class Unplanned(Exception):  # noqa: N818 - likewise
    """A part of the plan with which nobody can compare: no receipt on the node holds what was carried out of it."""

    def __str__(self) -> str:
        """Say so."""
        return "no valid receipt on the node tells what was planned (ansible-playbook gpulab.node.provision)"


class Facts:
    """Nested facts, read by dotted path: ``facts["system.kernel"]``.

    A mapping comes back as Facts, a list of mappings as a list of Facts, all else as it is. Unread is raised by an
    absent path, by null, and by what NVML refused: {"unsupported": NAME} or {"error": NAME, "code": number}.
    """

    def __init__(self, data: dict[str, Any], path: str = "") -> None:
        """Wrap data, which lies at path in the whole."""
        self.data = data
        self.path = path

    def __getitem__(self, path: str) -> Any:
        """Return what lies at path; raise Unread where there is nothing to read, or null."""
        found = self.optional(path)
        if found is None:
            raise Unread(f"{self.path}.{path}" if self.path else path)
        return found

    def optional(self, path: str) -> Any:
        """Return what lies at path, None where that is null; raise Unread where there is nothing to read."""
        at: Any = self.data
        whole = f"{self.path}.{path}" if self.path else path
        for key in path.split("."):
            _raise_refused(at, whole)
            if not isinstance(at, dict) or key not in at:
                raise Unread(whole)
            at = at[key]
        _raise_refused(at, whole)
        if isinstance(at, dict):
            return Facts(at, whole)
        if isinstance(at, list):
            return [Facts(item, f"{whole}[{n}]") if isinstance(item, dict) else item for n, item in enumerate(at)]
        return at

    def get(self, path: str, default: Any = None) -> Any:
        """Return what lies at path, or default where it cannot be read or is null."""
        try:
            return self[path]
        except Unread:
            return default

    def identity(self) -> GpuId:
        """Return what names a GPU in a result."""
        return {"index": self.get("index"), "uuid": self.get("uuid"), "bus_id": self.get("bus_id")}


def _raise_refused(at: Any, path: str) -> None:
    if isinstance(at, dict) and isinstance(at.get("unsupported"), str):
        raise Unread(path, at["unsupported"], unsupported=True)
    if isinstance(at, dict) and isinstance(at.get("error"), str) and "code" in at:  # others have an error of their own
        raise Unread(path, at["error"])


class GpuId(TypedDict):
    """What names a GPU in a result."""

    index: int | None
    uuid: str | None
    bus_id: str | None


class ResultRecord(TypedDict):
    """A Result as plain data."""

    severity: str
    summary: str
    observed: Any
    expected: Any
    unit: str | None
    reason: str | None
    remediation: str
    gpu: GpuId | None
    id: str
    source: str


class NotForThisMachine(TypedDict):
    """A check that is not for a host, or one of its GPUs, and why."""

    id: str
    reason: str | None
    gpu: GpuId | None


@dataclass(frozen=True)
class Result:
    """One answer of one check, about the node or one of its GPUs.

    severity is one of SEVERITIES, or INAPPLICABLE; remediation one of REMEDIES.
    reason says why: the named cause of a finding, or what kept a check from being made.
    """

    severity: str
    summary: str
    observed: Any = None
    expected: Any = None
    unit: str | None = None
    reason: str | None = None
    remediation: str = "none"
    gpu: GpuId | None = None
    id: str = ""
    source: str = ""

    def as_dict(self) -> ResultRecord:
        """Return the result as plain data."""
        record: Any = asdict(self)
        plain: ResultRecord = record
        return plain


def ok(summary: str, observed: Any = None, **more: Any) -> Result:
    """Answer that what was checked holds."""
    return Result("ok", summary, observed, **more)


def info(summary: str, remediation: str = "none", **more: Any) -> Result:
    """Answer something worth knowing that is no fault."""
    return Result("info", summary, remediation=remediation, **more)


def inapplicable(reason: str) -> Result:
    """Answer that the check is not for this machine, as it is and as its operator wants it, and why."""
    return Result(INAPPLICABLE, "not for this machine", reason=reason)


def skipped(reason: str) -> Result:
    """Answer that this ought to be looked at and cannot be now, and why: another finding, or work on the GPUs."""
    return Result("skipped", "not looked at", reason=reason)


def unknown(reason: str) -> Result:
    """Answer that what was looked at gave no answer, and why."""
    return Result("unknown", "could not be checked", reason=reason)


NO_KERNEL_LOG = "the kernel log could not be read; reading it needs root"
OUT_OF_MEMORY = "the node ran out of memory, or somebody ended it (see out-of-memory)"


def warn(summary: str, remediation: str, **more: Any) -> Result:
    """Answer that something wants attention; work can go on."""
    return Result("warn", summary, remediation=remediation, **more)


def fail(summary: str, remediation: str, **more: Any) -> Result:
    """Answer that the node is not fit for work until this is remedied."""
    return Result("fail", summary, remediation=remediation, **more)


class DeclaredMount(TypedDict, total=False):
    """A directory of data: the least MB/s that it reads, the most milliseconds that it takes to open a file."""

    path: str
    least_mbs: float | None
    most_ms: float | None


class Declared(TypedDict, total=False):
    """What the operator said of a node.

    level is that of the proof, across_nodes whether all nodes ran one all_reduce, group_names whether the nodes of the
    group shall know each other. profile has values that replace those of every board's profile.
    own_checks are the results of the lab's own checks.
    """

    gpus: int | None
    mig: bool
    power_budget_watts: int | None
    level: str
    profile: dict[str, Any]
    across_nodes: bool
    group_names: bool
    mounts: list[DeclaredMount]
    own_checks: list[ResultRecord]


@dataclass(frozen=True)
class Node:
    """All that a check may look at.

    plan has the parts of the plan that the roles have carried out, as their receipts tell, and "drift", what this run
    has put right; None where there is neither. catalog holds "profiles" (PCI device id, such as "10de:2330" -> what is
    expected of that board), "any_profile" (what the operator expects of a board that no list has), "gpus" (PCI device
    id -> its record), "branches" (driver branch -> its record) and "container_toolkit" (its record).
    """

    facts: Facts
    plan: Facts | None = None
    catalog: dict[str, dict[Any, Any]] = field(default_factory=dict)
    declared: Declared = field(default_factory=Declared)

    def planned(self, part: str) -> Any:
        """Return a part of the plan that a role has carried out; raise Unplanned where no receipt holds it."""
        found = self.plan.get(part) if self.plan else None
        if found is None:
            raise Unplanned(part)
        return found

    def without(self, what: str) -> Result:
        """Answer a check of GPUs where there are none to look at: it is not for a node that shall have none."""
        return inapplicable("no GPU is declared") if self.declared.get("gpus") == 0 else skipped(what)

    @property
    def when_tried(self) -> str:
        """Words for when the software was really tried, where that was not in this proof."""
        at: str = self.facts.get("software_tried") or ""
        return f" (tried on {at[:10]} at {at[11:16]} UTC, unchanged since)" if at else ""

    @property
    def foreign_kernel(self) -> bool:
        """Whether this is a container on a real machine: its kernel and its modules are the host's affair."""
        return bool(self.facts.get("system.container", False)) and not self.facts.get("simulated")

    @property
    def bare_metal(self) -> bool:
        """Whether this is a physical or simulated machine, not a virtual one; Unread when that was not read."""
        return self.facts["system.virtualization"] == "none" or bool(self.facts.get("simulated"))

    @property
    def pci_gpus(self) -> list[Facts]:
        """The GPUs on the PCI bus; Unread when the bus was not read."""
        gpus: list[Facts] = self.facts["pci.gpus"]
        return gpus

    @property
    def without_gpu(self) -> str:
        """Why this node has no GPU that it can use, where it has none."""
        lent = ", ".join(f"{gpu['address']} ({gpu['driver']})" for gpu in self.facts.get("pci.lent", []))
        others = ", ".join(f"{gpu['maker']} {gpu['device']}" for gpu in self.facts.get("pci.other_gpus", []))
        if lent:
            return f"every NVIDIA GPU is assigned to virtual machines: {lent}"
        return "the PCI bus has no NVIDIA GPU" + (f"; its GPUs are: {others}" if others else "")

    @property
    def gpus(self) -> list[Facts]:
        """The GPUs that NVML lists; none when it does not answer."""
        gpus: list[Facts] = self.facts.get("nvml.gpus", [])
        return gpus

    def profile(self, gpu: Facts) -> dict[str, Any]:
        """Return what is expected of this board; of one that no list has, what the operator expects of any."""
        any_board = self.catalog.get("any_profile", {})
        found: dict[str, Any] = self.catalog.get("profiles", {}).get(gpu.get("device"), any_board)
        return found

    def fabric_manager(self, gpu: Facts) -> str | None:
        """Return who runs the Fabric Manager of a board: "always" (the node), "rack", None if the bus tells it."""
        found: str | None = self.catalog.get("gpus", {}).get(gpu.get("device"), {}).get("fabric_manager")
        return found

    @property
    def runs_fabric_manager(self) -> bool:
        """Whether the node runs Fabric Manager. A virtual machine without a switch leaves it to its host."""
        if self.facts["pci.nvswitches"]:
            return True
        return self.bare_metal and any(self.fabric_manager(gpu) == "always" for gpu in self.pci_gpus)

    def kernels(self) -> list[Facts]:
        """Return the kernels installed on the node, in the order of the facts."""
        return [kernel for kernel in self.facts["kernels"] if kernel.get("installed", True)]


@dataclass(frozen=True)
class Check:
    """A check in the registry. per_gpu checks are called once per NVML GPU, with (node, gpu).

    requires names the capability that the check needs of a board: a board whose profile lists it must answer; another
    board for which the driver says that it is not supported is not one for the check. also_requires names one for which
    another check, of that name, has the finding. on_host marks what a container
    cannot tell, its kernel being the host's.
    """

    id: str
    proves: str
    source: str
    find: Finder
    per_gpu: bool = False
    requires: str | None = None
    also_requires: tuple[str, str] | None = None
    on_host: bool = False


REGISTRY: dict[str, Check] = {}


def check(id_: str, **about: Any) -> Callable[[Finder], Finder]:
    """Put the decorated function into the registry, with what Check says about it.

    Raises ValueError when the id is taken.
    """

    def register(find: Finder) -> Finder:
        if id_ in REGISTRY:
            msg = f"two checks are called {id_}"
            raise ValueError(msg)
        REGISTRY[id_] = Check(id_, find=find, **about)
        return find

    return register


def worst(severities: Iterable[str]) -> str:
    """Return the gravest of the severities; ok when there is none."""
    return max(severities, key=SEVERITIES.index, default="ok")


def count(results: Iterable[ResultRecord]) -> dict[str, int]:
    """Return how many results there are of each severity."""
    counts = dict.fromkeys(SEVERITIES, 0)
    for result in results:
        counts[result["severity"]] += 1
    return counts
