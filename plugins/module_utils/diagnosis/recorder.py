# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job wrote of its collective operations: dumps of PyTorch's flight recorder, and warnings in NCCL's log.

A dump is a pickle (torch/csrc/distributed/c10d/FlightRecorder.hpp), and its user may have made one that runs a program
when root loads it. So it is read as data: nothing that it names is looked up, and its size and memory have bounds.
A file is not opened through a link, and only where it belongs to the user of the job.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import posixpath
import re
import resource
import stat
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import (
    Dump,
    ExaminedProcess,
    Group,
    NcclLog,
    Stands,
)
from ansible_collections.gpulab.node.plugins.module_utils.facts.processes import timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.child import Emit
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

VARIABLES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")  # the first that is set holds
DEFAULT, OLD_DEFAULT = "torch/comm_lib_trace_rank_", "/tmp/nccl_trace_rank_"  # noqa: S108 - a place to look at
LOG = "NCCL_DEBUG_FILE"
MOST_BYTES = 64 << 20
MOST_MEMORY = 1 << 30  # bytes beyond what the reader has when it begins
MOST_DUMPS, MOST_ENTRIES, MOST_GROUPS, MOST_SIZES, MOST_RANKS = 512, 20000, 64, 8, 4096
MOST_CHARACTERS = 200  # of a name
LOG_BYTES, LOG_LINES, LOG_CHARACTERS = 256 << 10, 8, 500
_OWN = "/torch/distributed/"  # whose frames are PyTorch's own
_WARNING = re.compile(r"^.*\bNCCL WARN\b.*$", re.MULTILINE)


class Place(NamedTuple):
    """Where dumps may be: the beginning of their names, to which each rank adds its number.

    root is the directory in which the job sees it. uid is the user whose files count, since the time before which they
    are those of another job; both None where the operator named the place.
    """

    prefix: str
    root: str = ""
    uid: int | None = None
    since: str | None = None


class _Data(pickle.Unpickler):
    """Reads plain data: dicts, lists, tuples, texts and numbers."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse whatever a pickle would have imported."""
        msg = f"{module}.{name} is no plain data"
        raise pickle.UnpicklingError(msg)


def read(node: Node, places: Iterable[Place], logs: Iterable[tuple[int, str, int | None]], emit: Emit) -> None:
    """Emit {"dumps"}, those that the places have, and {"nccl_logs"}, the logs with warnings of NCCL.

    logs has (PID, path, uid). It limits the memory of its own process, a child of the caller.
    """
    limit_memory(MOST_MEMORY)
    for place in places:
        for found in dumps(node, place):
            emit({"dumps": [asdict(found)]})
    for pid, path, uid in logs:
        warned = warnings(node, path, uid)
        if warned:
            emit({"nccl_logs": [asdict(NcclLog(pid, path, warned))]})


def limit_memory(beyond: int) -> None:
    """Let this process take no more than some bytes beyond what it has."""
    has = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = has + beyond if hard == resource.RLIM_INFINITY else min(has + beyond, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def places(
    records: Iterable[tuple[ExaminedProcess, int | None]], home: tuple[str, int] | None, named: str | None
) -> list[Place]:
    """Return where dumps may be: those of processes (record, uid), of a user (home, uid), and the one named."""
    found = [Place(named)] if named else []
    for record, uid in records:
        environment = record.environment
        if "RANK" not in environment:
            continue
        said = next((environment[name] for name in VARIABLES if environment.get(name)), None)
        prefixes = [said] if said else _defaults(environment)
        found += [Place(prefix, _root(record), uid, record.since) for prefix in prefixes]
    if home:
        found += [Place(prefix, "", home[1]) for prefix in _defaults({"HOME": home[0]})]
    earliest: dict[Place, Place] = {}
    for place in found:
        key = place._replace(since=None)
        known = earliest.setdefault(key, place)
        if known.since and place.since and place.since < known.since:
            earliest[key] = place
    return [place for place in earliest.values() if place.prefix.startswith("/")]


def _defaults(environment: dict[str, str]) -> list[str]:
    cache = environment.get("XDG_CACHE_HOME") or f"{environment.get('HOME') or '/tmp'}/.cache"  # noqa: S108
    return [f"{cache}/{DEFAULT}", OLD_DEFAULT]


def _root(record: ExaminedProcess) -> str:
    """Return the directory in which a process sees its files."""
    return f"/proc/{record.pid}/root" if record.container else ""


def log_file(record: ExaminedProcess, hostname: str) -> str | None:
    """Return the log of a process that NCCL writes, as it lies on the node."""
    path = record.environment.get(LOG, "").replace("%h", hostname).replace("%p", str(record.pid))
    return f"{_root(record)}{path}" if path.startswith("/") else None


def dumps(node: Node, place: Place) -> Iterator[Dump]:
    """Yield the dumps of a place; problem says why one has no groups."""
    directory, name = posixpath.split(place.prefix)
    ranks = (re.fullmatch(rf"{re.escape(name)}(\d{{1,6}})", entry) for entry in node.names(place.root + directory))
    for rank in sorted(int(match[1]) for match in ranks if match)[:MOST_DUMPS]:
        path = f"{place.root}{place.prefix}{rank}"
        try:
            data, written = content(node, path, place.uid, MOST_BYTES)
        except OSError:
            continue
        if place.since and written < place.since:
            continue
        problem, groups = None, list[Group]()
        try:
            groups = collectives(loaded(data))
        except Exception as error:  # noqa: BLE001 - whatever a file holds that is no dump
            problem = _text(f"{type(error).__name__}: {error}")
        yield Dump(place.prefix, rank, written, problem, groups)


def content(node: Node, path: str, uid: int | None, most: int) -> tuple[bytes, str]:
    """Return the end of a regular file, and when it was written.

    Raises OSError where it cannot be read, is something else, a link, or another user's.
    """
    descriptor = os.open(node.path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or uid not in (None, about.st_uid):
            msg = f"{path} is no file of this job"
            raise OSError(msg)
        file.seek(max(0, about.st_size - most))
        return file.read(most), timestamp(about.st_mtime) or ""


def loaded(data: bytes) -> Any:
    """Read a dump, a pickle or JSON, as plain data. Raises whatever either reader says of a text that is neither."""
    return json.loads(data) if data[:1] == b"{" else _Data(io.BytesIO(data)).load()


def collectives(dump: Any) -> list[Group]:
    """Return how far a rank has come in each process group; stands is None where all its operations have ended.

    Operations between two ranks, which the group does not number, are left out. Raises KeyError, TypeError, ValueError
    or AttributeError for something else than a dump.
    """
    members = {str(name): _ranks(group["ranks"]) for name, group in dump["pg_config"].items()}
    found: dict[tuple[str, ...], Group] = {}
    for entry in dump.get("entries", [])[-MOST_ENTRIES:]:
        if entry["is_p2p"]:
            continue
        identity = tuple(map(_text, entry["process_group"]))
        ranks = members.get(identity[0]) or (members.get("") if len(members) == 1 else None) or []
        group = found.get(identity) or Group(identity[-1] or identity[0], ranks, 0, None)
        number = int(entry["collective_seq_id"])
        stands = group.stands or (None if _ended(entry) else _stands(entry, number))
        found[identity] = replace(group, last=max(group.last, number), stands=stands)
        if len(found) > MOST_GROUPS:
            msg = "more process groups than a job has"
            raise ValueError(msg)
    return list(found.values())


def _stands(entry: Any, number: int) -> Stands:
    return Stands(
        number=number,
        operation=_text(entry["profiling_name"]).rpartition(":")[2].partition(" ")[0],
        sizes=[[int(part) for part in size] for size in entry["input_sizes"][:MOST_SIZES]],
        types=[_text(one) for one in entry["input_dtypes"][:MOST_SIZES]],
        place=_place(entry.get("frames") or []),
        created=timestamp(int(entry["time_created_ns"]) / 1e9),
    )


def _ended(entry: Any) -> bool:
    """Tell whether an operation has: Gloo never says so, it retires it then. NCCL also retires what timed out."""
    is_gloo = _text(entry["profiling_name"]).rpartition(":")[0] == "gloo"
    return bool(entry["state"] == "completed" or (is_gloo and entry["retired"]))


def _ranks(text: str) -> list[int]:
    """Parse the members of a group, such as [0, 1]."""
    return [int(number) for number in re.findall(r"\d{1,6}", str(text))][:MOST_RANKS]


def _place(frames: list[dict[str, Any]]) -> str | None:
    """Return the line of the user's own program that called an operation."""
    own = next((frame for frame in frames if _OWN not in str(frame["filename"])), None)
    return f"{_text(own['filename'])}:{int(own['line'])}" if own else None


def _text(value: Any) -> str:
    return str(value)[:MOST_CHARACTERS]


def warnings(node: Node, path: str, uid: int | None) -> list[str]:
    """Return the last warnings in a log of NCCL."""
    try:
        data, _written = content(node, path, uid, LOG_BYTES)
    except OSError:
        return []
    return [line.strip()[:LOG_CHARACTERS] for line in _WARNING.findall(data.decode("utf-8", "replace"))][-LOG_LINES:]
