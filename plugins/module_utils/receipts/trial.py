# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the software of a node did when it was last tried, and whether anything has changed there since.

The record of a trial holds what it depended on, as one digest. Watched are every file of the environments, of their
interpreters and of the toolkits by its name, size, rights and time of change (no content is read), what the package
manager and the linker have, Docker's process and settings, and of the facts the boot, kernel, driver and GPUs. Compiled
Python (__pycache__) is not watched, for whoever imports writes it.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import child, records
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.receipts.items import digest, section

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts

RECORD = "/var/lib/gpulab/software-trial.json"
DAYS = 7  # where no night tries again, what nobody watches shows after them
SECONDS = 5.0  # a dead network mount gives no answer
FACTS = ("driver", "modules", "cuda", "libraries", "engines", "containers", "nvml")
FILES = (
    "/var/lib/dpkg/status",
    "/var/lib/rpm/rpmdb.sqlite",
    "/etc/ld.so.cache",
    "/etc/docker/daemon.json",
    "/run/docker.pid",
    "/run/containerd/containerd.sock",  # it goes with containerd, which may stop while Docker runs
)
FOUND = {"gpulab_environments", "gpulab_cuda_compiled", "gpulab_container_started"}
COMPILERS = ("gcc", "g++")  # those that nvcc takes where the plan names none
PROGRAMS = ("/usr/local/bin", "/usr/bin")
SHARED = ("/", "/usr", "/usr/local")  # prefixes of others, too: there the package manager tells
DEBIANS_TOOLKIT = "/usr/lib/nvidia-cuda-toolkit"

ARGUMENTS: dict[str, dict[str, Any]] = {
    "directory": {"type": "path"},
    "conda_directory": {"type": "path"},
    "gpus": {"type": "bool", "default": True},
    "toolkits": {"type": "list", "elements": "dict"},
    "compute_capabilities": {"type": "list", "elements": "str", "default": []},
    "container": {"type": "bool", "default": False},
}


@dataclass(frozen=True)
class Asked:
    """What was to be tried: the ARGUMENTS of the module software_proof."""

    directory: str | None
    conda_directory: str | None
    gpus: bool
    toolkits: list[dict[str, Any]] | None
    compute_capabilities: list[str]
    container: bool

    def places(self) -> list[str]:
        """Return the directories of the links that lead to environments."""
        conda = f"{self.conda_directory}/envs" if self.conda_directory else None
        return [place for place in (self.directory, conda) if place]


@dataclass(frozen=True)
class Trial:
    """A trial in which nothing failed; found are the facts that came of it, at the time in ISO 8601, UTC."""

    at: str
    asked: Asked
    watched: str
    found: dict[str, Any]

    def covers(self, asked: Asked) -> bool:
        """Tell whether all of this was tried; with the GPUs, environments were tried without them, too."""
        return Asked(**{**asdict(asked), "gpus": asked.gpus or self.asked.gpus}) == self.asked


class Watch:
    """What a trial depends on, read beside the caller's other work."""

    def __init__(self, node: Node, asked: Asked) -> None:
        """Begin to read."""
        self._child = child.Child(partial(_emit_files, node, asked), SECONDS)

    def digest(self, facts: str) -> str | None:
        """Return a digest of the files and of the facts (of which facts is the digest); None where a disk is late."""
        if self._child.wait() != child.DONE:
            return None
        return digest([facts, *self._child.messages])


def of_facts(facts: Facts) -> str:
    """Return a digest of the facts that a trial depends on."""
    parts = {name: section(facts, name) for name in FACTS}
    gpus = [[gpu["address"], gpu["device"], gpu["driver"]] for gpu in facts["pci"]["gpus"]]
    nvml = [facts["nvml"]["state"], facts["nvml"]["driver_version"]]
    return digest([facts["system"]["boot_id"], facts["system"]["kernel"], gpus, nvml, parts])


def last(node: Node) -> Trial | None:
    """Return the last trial; None where none of the last DAYS is whole and root's alone to write.

    A trial of the future is of a clock that went wrong, so nobody knows how old it is.
    """
    path = node.path(RECORD)
    try:
        status = path.lstat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return None
        found = records.read(path, Trial, None)
        age = datetime.now(tz=timezone.utc) - datetime.fromisoformat(found.at) if found else timedelta()
    except (OSError, Refusal, TypeError, ValueError):
        return None
    return found if timedelta() <= age <= timedelta(days=DAYS) else None


def keep(node: Node, asked: Asked, found: dict[str, Any] | None, watched: str | None) -> None:
    """Record a trial of this moment; without a result that may be kept, there is no last trial any more."""
    if found is None or watched is None:
        records.remove(node.path(RECORD))
        return
    now = datetime.now(tz=timezone.utc).isoformat(timespec="seconds")
    records.write(node.path(RECORD), asdict(Trial(now, asked, watched, found)), 0o600)


def _emit_files(node: Node, asked: Asked, emit: child.Emit) -> None:
    found = hashlib.sha256()
    for line in _files(node, asked):
        found.update(line.encode("utf-8", "surrogateescape") + b"\n")
    emit(found.hexdigest())


def _files(node: Node, asked: Asked) -> Iterator[str]:
    toolkits = asked.toolkits or []
    yield from (_status(node.path(path)) for path in FILES)
    yield from (_status(node.path(path)) for one in toolkits for path in _compilers(one.get("host_compiler")))
    for prefix in sorted({str(one["prefix"]) for one in toolkits}):
        yield _status(node.path(f"{prefix}/bin/nvcc"))
        yield from _tree(node.path(DEBIANS_TOOLKIT if prefix in SHARED else prefix))
    for link in _links(map(node.path, asked.places())):
        interpreter = (link / "bin/python").resolve()
        yield f"{link} {link.resolve()} {_status(interpreter)}"
        yield from _tree(link.resolve())
        for place in filter(Path.is_dir, _library(interpreter)):
            yield from _tree(place)


def _compilers(named: str | None) -> list[str]:
    """Return where the compiler may be that nvcc takes; links lead there which no package manager knows of."""
    if named and "/" in named:
        return [named]
    return [f"{place}/{name}" for place in PROGRAMS for name in ([named] if named else COMPILERS)]


def _library(interpreter: Path) -> list[Path]:
    """Return where an interpreter's own files are; no package manager knows of one that was built below /usr/local."""
    prefix = interpreter.parent.parent
    return [prefix / lib / interpreter.name for lib in ("lib", "lib64")] if str(prefix) in SHARED else [prefix]


def _links(places: Iterable[Path]) -> Iterator[Path]:
    for place in places:
        yield from sorted(path for path in place.glob("*") if path.is_symlink())


def _status(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return f"{path} is not there"
    return f"{path} {found.st_mode} {found.st_uid} {found.st_size} {found.st_ctime_ns}"


def _tree(top: Path) -> Iterator[str]:
    """Yield a line for each file below a directory; a directory changes with the names in it, which all have a line."""
    directories = [str(top)]
    while directories:
        with os.scandir(directories.pop()) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                if not entry.is_dir(follow_symlinks=False):
                    found = entry.stat(follow_symlinks=False)
                    yield f"{entry.path} {found.st_mode} {found.st_uid} {found.st_size} {found.st_ctime_ns}"
                elif entry.name != "__pycache__":
                    directories.append(entry.path)
