# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environments on this node, whatever makes them: each is a link to one of its builds, which are never changed.

What takes long is left to long steps: each is a script that is written here, in DIRECTORY/.work.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils import environment_probe, files, venv
from ansible_collections.gpulab.node.plugins.module_utils.refusal import refuse

PIP_FILES = (Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"))
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
PROOF_SECONDS = 600
GONE = "it shall not be there"


class Builds:
    """The environments in a directory. A subclass says what one holds."""

    def __init__(self, directory: Path, proc: Path = Path("/proc")) -> None:
        """Remember where they are; nothing is read yet."""
        self.directory = directory
        self._proc = proc

    # reading

    def build(self, name: str) -> venv.Build | None:
        """Return the build that an environment is; None where there is none. Raises Refusal E001 for a foreign file."""
        link = self.directory / name
        if not link.is_symlink():
            if link.exists():
                raise refuse("E001", path=link)
            return None
        return self._read(link.resolve())

    def names(self) -> list[str]:
        """Return the environments that are there."""
        if not self.directory.is_dir():
            return []
        return sorted(path.name for path in self.directory.iterdir() if path.is_symlink())

    def packages(self, name: str) -> dict[str, str]:
        """Return the packages of an environment, with their versions."""
        raise NotImplementedError

    def _read(self, path: Path) -> venv.Build | None:
        record = files.read(path / venv.RECORD)
        try:
            return self._found(path, int(path.name), json.loads(record))
        except ValueError:  # cut off, or written by somebody else
            return None

    def _found(self, path: Path, number: int, record: dict[str, Any]) -> venv.Build:
        """Return a build as it is found."""
        raise NotImplementedError

    # long steps

    def probe(self, wanted: Any, path: Path) -> list[list[str]]:
        """Return the commands that try a build; the GPUs may be in use, so they are tried when the node is proven."""
        if not wanted.framework:
            return []
        work, python = self._work(wanted.name), str(path / "bin/python")
        write(work / "probe.py", probe_source())
        pairs = [f"{name}={value}" for name, value in sorted(wanted.variables.items())]
        probe = ["env", "CUDA_VISIBLE_DEVICES=", python, "-I", str(work / "probe.py"), wanted.framework, *pairs]
        return [["timeout", "--kill-after=5", str(PROOF_SECONDS), *probe, ">", str(work / "proof.json")]]

    def _write_script(
        self, name: str, commands: list[list[str]], settings: dict[str, str], undo: Path | None = None
    ) -> list[str]:
        """Write a script and return its argument list, in which its digest makes it known as a step of its own."""
        lines = ["#!/bin/sh", "set -e", "umask 022"]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(settings.items())]
        if undo:
            lines += [f'undo() {{ [ "$?" = 0 ] || rm -rf {shlex.quote(str(undo))}; }}', "trap undo EXIT"]
        lines += [" ".join(word if word == ">" else shlex.quote(word) for word in command) for command in commands]
        text = "\n".join(lines) + "\n"
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        script = self._work(name) / f"{digest}.sh"
        write(script, text, 0o700)
        return ["sh", str(script)]

    # finishing

    def _judge(self, wanted: Any, expected: dict[str, Any]) -> None:
        """Remove the new build and raise Refusal E008 where what was found when it was tried is not as expected."""
        if not wanted.framework:
            return
        faults = venv.faults(json.loads(files.read(self._work(wanted.name) / "proof.json")), expected)
        if faults:
            shutil.rmtree(self._next(wanted.name))
            raise refuse("E008", name=wanted.name, line="; ".join(faults), former=venv.FORMER)

    def _take_into_use(self, name: str, lock: str, record: dict[str, Any]) -> None:
        """Complete the new build with its lock and record, and move the link to it."""
        path, work = self._next(name), self._work(name)
        write(path / venv.LOCK, lock)
        write(path / venv.RECORD, json.dumps(record, indent=1))
        link = self.directory / name
        former = link.resolve() if link.is_symlink() else None
        new = work / "link"
        new.unlink(missing_ok=True)
        new.symlink_to(path.relative_to(self.directory))
        new.replace(link)
        shutil.rmtree(work)
        self._prune(name, {path, former})

    def remove(self, name: str) -> None:
        """Remove an environment. Raises Refusal E010 while a process uses it."""
        builds = self.directory / ".builds" / name
        users = self._users(builds, self.directory / name)
        if users:
            raise refuse("E010", name=name, users=", ".join(map(str, users)))
        (self.directory / name).unlink()
        shutil.rmtree(builds, ignore_errors=True)

    def _prune(self, name: str, keep: set[Path | None]) -> None:
        """Remove builds that are neither to be kept nor in use: what jobs started with stays until they end."""
        for path in (self.directory / ".builds" / name).iterdir():
            if path not in keep and not self._users(path):
                shutil.rmtree(path)

    def _users(self, *paths: Path) -> list[int]:
        """Return the processes that have a file below one of the paths in memory, or whose command names one."""
        found = []
        for process in self._proc.glob("[0-9]*"):
            try:
                seen = (process / "maps").read_text(errors="replace") + (process / "cmdline").read_text(
                    errors="replace"
                )
            except OSError:  # it ended meanwhile
                continue
            if any(f"{path}/" in seen for path in paths):
                found.append(int(process.name))
        return sorted(found)

    def _next(self, name: str) -> Path:
        """Return where the next build goes: after the last one that was completed."""
        builds = self.directory / ".builds" / name
        numbers = [int(record.parent.name) for record in builds.glob(f"*/{venv.RECORD}")]
        return builds / str(max(numbers, default=0) + 1)

    def _work(self, name: str) -> Path:
        path = self.directory / ".work" / name
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path


def proxies() -> dict[str, str]:
    """Return the proxies that the task was given."""
    return {name: os.environ[name] for name in PROXIES if os.environ.get(name)}


def pip_settings() -> dict[str, str]:
    """Return what pip on this node is set up for (see venv.pip_settings)."""
    return venv.pip_settings([files.read(path) for path in PIP_FILES])


def probe_source() -> str:
    """Return the text of the program that environments are tried with; it may lie in the archive of a module."""
    return inspect.getsource(environment_probe)


def site_names(path: Path) -> tuple[str, ...]:
    """Return what lies in the site-packages of a build."""
    names = (entry.name for site in path.glob("lib/python*/site-packages") for entry in site.iterdir())
    return tuple(sorted(name for name in names if name != "__pycache__"))


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file with this mode."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)


def change(name: str, because: list[str], before: dict[str, str], after: dict[str, str]) -> dict[str, Any]:
    """Return how an environment changes, and its part of the diff."""
    return {
        "environment": {"name": name, "because": because, **venv.steps(before, after)},
        "diff": {
            "before_header": name,
            "after_header": name,
            "before": venv.listing(before),
            "after": venv.listing(after),
        },
    }


def removal(name: str, before: dict[str, str]) -> dict[str, Any]:
    """Return the change by which an environment goes; is_removal knows it again."""
    return change(name, [GONE], before, {})


def is_removal(environment: dict[str, Any]) -> bool:
    """Tell whether this part of a change, which told hands out, says that the environment goes."""
    return bool(environment["because"] == [GONE])


def told(changes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return changes as a module's result has them."""
    return {"environments": [one["environment"] for one in changes], "diff": [one["diff"] for one in changes]}
