"""What makes troubles: changes of the evidence and the facts of a healthy node at work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable

from . import cases

OTHER = {"user": "bob", "parent": 1, "command": "python", "environment": {"HOME": "/home/bob"}}
LIB = "/usr/local/cuda-11.8/lib64"

STANDS = {
    "number": 7,
    "operation": "all_reduce",
    "sizes": [[4]],
    "types": ["Float"],
    "place": "train.py:8",
    "created": "",
}
DUMPS = [
    {
        "files": "/data/nccl_trace_rank_",
        "rank": rank,
        "written": "2026-11-26T09:00:00Z",
        "problem": None,
        "groups": [{"name": "default_pg", "ranks": [0, 1], "last": last, "stands": stands}],
    }
    for rank, last, stands in ((0, 7, {**STANDS, "created": "2026-11-26T08:50:00Z"}), (1, 6, None))
]


@dataclass(frozen=True)
class Trouble:
    """change alters the evidence of a node with a job of PID 1001 (and its facts); rule has to be the first finding.

    remedy is a part of the command that cures it.
    """

    rule: str
    symptom: str
    change: Callable[[dict[str, Any], dict[str, Any]], None]
    remedy: str
    asked: dict[str, Any] = field(default_factory=dict)
    model: str = "h100x8"


def of_job(record_changes: dict[str, Any], pid: int = 1001) -> Callable[..., None]:
    """Change one process of the job; environment adds to its variables."""

    def change(found: dict[str, Any], _facts: dict[str, Any]) -> None:
        record = next(one for one in found["processes"] if one["pid"] == pid)
        changes = dict(record_changes)
        record["environment"].update(changes.pop("environment", {}))
        record.update(changes)

    return change


def also(found_changes: dict[str, Any]) -> Callable[..., None]:
    """Replace parts of the evidence."""
    return lambda found, _facts: found.update(found_changes)


def machine(**changes: Any) -> Callable[..., None]:
    """Change the machine's part."""
    return lambda found, _facts: found["machine"].update(changes)


def both(*changes: Callable[..., None]) -> Callable[..., None]:
    """Change several things."""

    def change(found: dict[str, Any], facts: dict[str, Any]) -> None:
        for one in changes:
            one(found, facts)

    return change


def environment(**changes: Any) -> Callable[..., None]:
    """Change the job's Python environment; packages adds."""

    def change(found: dict[str, Any], _facts: dict[str, Any]) -> None:
        record = found["environments"][0]
        record["packages"].update(changes.get("packages", {}))
        record.update({key: value for key, value in changes.items() if key != "packages"})

    return change


def other_holds(share: float, gpu: int = 0, **changes: Any) -> Callable[..., None]:
    """Let bob's process hold a share of a GPU that nobody else uses."""

    def change(found: dict[str, Any], _facts: dict[str, Any]) -> None:
        found["processes"].append(cases.process(2001, **{**OTHER, "cores": 1.0, **changes}))
        record = found["gpus"][gpu]
        record.update(used_mib=4, later_mib=4, holders=[])
        cases.holds(found, gpu, 2001, int(share * record["total_mib"]))

    return change


def grows(found: dict[str, Any], _facts: dict[str, Any]) -> None:
    """Let the job's memory on GPU 0 grow by 100 MiB a second."""
    entry = found["gpus"][0]["holders"][0]
    entry["later_mib"] = entry["memory_mib"] + 300
    found["gpus"][0]["later_mib"] += 300


def unexplained(found: dict[str, Any], _facts: dict[str, Any]) -> None:
    """Let memory be held by nobody."""
    found["processes"] = []
    for gpu in found["gpus"]:
        gpu.update(holders=[], used_mib=4, later_mib=4, utilization=0)
    found["gpus"][2].update(used_mib=40000, later_mib=40000)


def no_rank(found: dict[str, Any], _facts: dict[str, Any]) -> None:
    """Let rank 3 be gone."""
    found["processes"] = [one for one in found["processes"] if one["pid"] != 1004]


def low_power(found: dict[str, Any], _facts: dict[str, Any]) -> None:
    """Let all GPUs spin in a collective."""
    for gpu in found["gpus"]:
        gpu.update(utilization=100, power_mw=90000)


def starved(found: dict[str, Any], _facts: dict[str, Any]) -> None:
    """Let GPU 0 wait for its data."""
    found["gpus"][0].update(utilization=12, power_mw=100000)


def shared(found: dict[str, Any], _facts: dict[str, Any]) -> None:
    """Let bob compute on GPU 0, too, in little memory."""
    found["processes"].append(cases.process(2001, **{**OTHER, "cores": 1.0}))
    cases.holds(found, 0, 2001, 500)


def linked(version: str | None = "8.9.7", library: str = "cudnn", major: str = "9", directory: str = LIB) -> Any:
    """Put a library into a directory of LD_LIBRARY_PATH of the job."""
    name = f"{directory}/lib{library}.so.{major}"
    one = {"library": library, "major": major, "path": name, "version": version}
    return both(
        of_job({"environment": {"LD_LIBRARY_PATH": f"{directory}:/opt/own/lib"}}),
        also({"directories": [{"path": directory, "there": True, "found": [one]}]}),
    )


def linked_by_system(path: str, version: str, *files: str) -> dict[str, Any]:
    """Return a cuDNN that the linker knows; files are all of it, where packages put none."""
    return {"library": "cudnn", "major": "9", "path": path, "version": version, "files": list(files)}


def setting(name: str, value: str) -> Callable[..., None]:
    """Let line 12 of a file of the user's shell set a variable."""
    return also({"settings": [{"name": name, "value": value, "file": "/home/anna/.bashrc", "line": 12}]})


def server(state: str = "open", certificate: Any = None, host: str = "hub.example.org", port: int = 443) -> Any:
    """Let a server that was asked for answer so."""
    return also({"servers": [{"host": host, "port": port, "state": state, "certificate": certificate}]})


def fact(path: str, value: Any) -> Callable[..., None]:
    """Change a fact."""

    def change(_found: dict[str, Any], facts: dict[str, Any]) -> None:
        *parents, key = path.split(".")
        at = facts
        for parent in parents:
            at = at[int(parent)] if isinstance(at, list) else at[parent]
        at[key] = value

    return change


def capability(value: str) -> Callable[..., None]:
    """Give every GPU a compute capability."""
    return lambda _found, facts: [gpu.update(compute_capability=value) for gpu in facts["nvml"]["gpus"]]


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of 79.15 GiB of "
    "which {free} is free. {others}Of the allocated memory 60.00 GiB is allocated by PyTorch, and {unused} is reserved "
    "by PyTorch but unallocated."
)
EXPIRED = {"problem": "certificate has expired", "starts": "2024-01-01T00:00:00Z", "ends": "2025-01-01T00:00:00Z"}
TAKEN = "RuntimeError: The server socket has failed to bind to 0.0.0.0:29500 (errno: 98 - Address already in use)."
BOB_LISTENS = also({"listeners": [{"port": 29500, "pid": 2001, "user": "bob", "command": "python"}]})
NOTHING = also({})
