# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual environments of this node: read them, prepare a build, take it into use, remove them.

What takes long is left to long steps: each is a script that is written here, in DIRECTORY/.work.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils import environment_probe, files, venv
from ansible_collections.gpulab.node.plugins.module_utils.refusal import refuse

PIP_FILES = (Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"))
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
PROOF_SECONDS = 600


@dataclass(frozen=True)
class Tool:
    """The uv that makes the environments: its version, the SHA-256 of its wheel, and the wheel's address.

    Without an address the wheel comes from the package index that pip on this node is set up for.
    """

    version: str
    sha256: str
    url: str | None = None

    @property
    def requirement(self) -> str:
        """Return the line of a requirements file that names the wheel and nothing else."""
        what = f"uv @ {self.url}" if self.url else f"uv=={self.version}"
        return f"{what} --hash=sha256:{self.sha256}\n"


class Venvs:
    """The environments in a directory. settings are environment variables for uv beside those of pip's files."""

    def __init__(self, directory: Path, tool: Tool, settings: dict[str, str], proc: Path = Path("/proc")) -> None:
        """Remember where they are; nothing is read yet."""
        self.directory = directory
        self.tool = tool
        self.uv = directory / ".uv" / tool.version / "bin" / "uv"
        self._settings = settings
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

    def packages(self, name: str) -> dict[str, str]:
        """Return the packages of an environment, with their versions."""
        build = self.build(name)
        return venv.packages(build.names) if build else {}

    def names(self) -> list[str]:
        """Return the environments that are there."""
        if not self.directory.is_dir():
            return []
        return sorted(path.name for path in self.directory.iterdir() if path.is_symlink())

    def _read(self, path: Path) -> venv.Build | None:
        record = files.read(path / venv.RECORD)
        try:
            return venv.Build(int(path.name), json.loads(record), _names(path), (path / "bin/python").exists())
        except ValueError:  # cut off, or written by somebody else
            return None

    # long steps: each returns the argument list of a script

    def fetch_tool(self) -> list[str] | None:
        """Return what installs uv; None where it is there."""
        if self.uv.exists():
            return None
        final, new = self.directory / ".uv" / self.tool.version, self.directory / ".uv" / "new"
        wheel = self._work(".uv") / "requirements.txt"
        _write(wheel, self.tool.requirement, 0o600)
        pip = ["python3", "-m", "pip", "--no-input", "--disable-pip-version-check", "install", "--no-deps", "--quiet"]
        pip += ["--only-binary=:all:", "--require-hashes", "--target", str(new), "--requirement", str(wheel)]
        clean = ["rm", "-rf", str(new), str(final)]
        return self._script(".uv", [clean, pip, ["mv", str(new), str(final)]])

    def lock(self, wanted: venv.Wanted) -> list[str] | None:
        """Return what writes the lock; None where it is given. Present versions stay where they can."""
        work = self._work(wanted.name)
        if wanted.lock is not None:
            _write(work / "lock", wanted.lock)
            return None
        present = files.read(self.directory / wanted.name / venv.LOCK)
        _write(work / "lock", present)
        _write(work / "pyproject.toml", venv.project(wanted), 0o600)
        return self._script(wanted.name, [self._compile(wanted, work / "lock")])

    def _compile(self, wanted: venv.Wanted, lock: Path) -> list[str]:
        project = str(self._work(wanted.name) / "pyproject.toml")
        return [
            *(str(self.uv), "pip", "compile", "--quiet", "--generate-hashes", "--no-header", "--no-annotate"),
            *("--python-version", wanted.python, "--output-file", str(lock), project),
        ]

    def make(self, wanted: venv.Wanted) -> list[str]:
        """Return what makes the next build from the lock, and tries it."""
        work, path = self._work(wanted.name), self._next(wanted.name)
        site = path / "lib" / f"python{wanted.python}" / "site-packages"
        _write(work / venv.VARIABLES, venv.variables_file(wanted.variables))
        _write(work / "probe.py", probe_source())
        python = str(path / "bin/python")
        uv = str(self.uv)
        commands = [
            [uv, "venv", "--clear", "--quiet", "--python", wanted.python, "--prompt", wanted.name, str(path)],
            [
                *(uv, "pip", "sync", "--require-hashes", "--only-binary=:all:", "--compile-bytecode"),
                *("--index-strategy", "unsafe-best-match", "--allow-empty-requirements"),
                *("--python", python, str(work / "lock")),
            ],
            ["cp", str(work / venv.VARIABLES), str(site)],
        ]
        if wanted.framework:
            pairs = [f"{name}={value}" for name, value in sorted(wanted.variables.items())]
            # The GPUs may be in use; they are tried when the node is proven.
            probe = ["env", "CUDA_VISIBLE_DEVICES=", python, "-I", str(work / "probe.py"), wanted.framework, *pairs]
            commands.append(["timeout", "--kill-after=5", str(PROOF_SECONDS), *probe, ">", str(work / "proof.json")])
        return self._script(wanted.name, commands, path, wanted.index)

    def _script(
        self, name: str, commands: list[list[str]], undo: Path | None = None, index: str | None = None
    ) -> list[str]:
        """Write a script and return its argument list, in which its digest makes it known as a step of its own."""
        settings = {
            "LC_ALL": "C.UTF-8",
            "UV_CACHE_DIR": str(self.directory / ".cache"),
            "UV_PYTHON_INSTALL_DIR": str(self.directory / ".python"),
            "UV_NO_PROGRESS": "1",
            "UV_SYSTEM_CERTS": "1",
            **{name: os.environ[name] for name in PROXIES if os.environ.get(name)},
            **venv.pip_settings([files.read(path) for path in PIP_FILES]),
            **self._settings,
        }
        if index:  # the lock says by their hashes which files are right, wherever they lie
            settings["UV_INDEX"] = f"{index} {settings.get('UV_INDEX', '')}".strip()
        lines = ["#!/bin/sh", "set -e", "umask 022"]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(settings.items())]
        if undo:
            lines += [f'undo() {{ [ "$?" = 0 ] || rm -rf {shlex.quote(str(undo))}; }}', "trap undo EXIT"]
        lines += [" ".join(word if word == ">" else shlex.quote(word) for word in command) for command in commands]
        text = "\n".join(lines) + "\n"
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        script = self._work(name) / f"{digest}.sh"
        _write(script, text, 0o700)
        return ["sh", str(script)]

    # finishing

    def finish(self, wanted: venv.Wanted) -> dict[str, str]:
        """Take the new build into use and return its packages. Raises Refusal E008 where it does not work."""
        path, work = self._next(wanted.name), self._work(wanted.name)
        if wanted.framework:
            faults = venv.faults(json.loads(files.read(work / "proof.json")), wanted.expected())
            if faults:
                shutil.rmtree(path)
                raise refuse("E008", name=wanted.name, line="; ".join(faults), former=venv.FORMER)
        names = _names(path)
        _write(path / venv.LOCK, files.read(work / "lock"))
        record = {"fingerprint": wanted.fingerprint, "names": names, "expected": wanted.expected()}
        _write(path / venv.RECORD, json.dumps(record, indent=1))
        link = self.directory / wanted.name
        former = link.resolve() if link.is_symlink() else None
        new = work / "link"
        new.unlink(missing_ok=True)
        new.symlink_to(path.relative_to(self.directory))
        new.replace(link)
        shutil.rmtree(work)
        self._prune(wanted.name, {path, former})
        return venv.packages(names)

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

    # check mode

    def foresee(self, wanted: venv.Wanted, call: Any, scratch: Path) -> dict[str, str] | None:
        """Return the packages that a build would hold; None where uv is not there to tell. Raises Refusal.

        call runs an argument list and returns (rc, output, errors); scratch is a directory that goes with the module.
        """
        if wanted.lock is not None:
            return venv.locked(wanted.lock)
        if not self.uv.exists():
            return None
        beside = Venvs(scratch, self.tool, {**self._settings, "UV_NO_CACHE": "1"})
        beside.uv = self.uv
        (scratch / wanted.name).mkdir()
        _write(scratch / wanted.name / venv.LOCK, files.read(self.directory / wanted.name / venv.LOCK))
        rc, _out, errors = call(beside.lock(wanted) or [])  # no lock is given, so there is one to make
        if rc != 0:
            raise venv.classify(errors, wanted.name, "its message")
        return venv.locked(files.read(scratch / ".work" / wanted.name / "lock"))


def probe_source() -> str:
    """Return the text of the program that environments are tried with; it may lie in the archive of a module."""
    return inspect.getsource(environment_probe)


def _names(path: Path) -> tuple[str, ...]:
    """Return what lies in the site-packages of a build."""
    names = (entry.name for site in path.glob("lib/python*/site-packages") for entry in site.iterdir())
    return tuple(sorted(name for name in names if name != "__pycache__"))


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
