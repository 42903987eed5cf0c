# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual environments of this node: read them, prepare a build by uv, take it into use."""

from __future__ import annotations

import json
import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core import files, processors
from ansible_collections.gpulab.node.plugins.module_utils.core.environment_packages import of_wheels
from ansible_collections.gpulab.node.plugins.module_utils.environments import builds, locking, uv_words, venv
from ansible_collections.gpulab.node.plugins.module_utils.environments.builds import MESSAGES, Builds, site_names

TOOLKIT = Path("/usr/local/cuda")  # where the planned toolkit is (see the role cuda)
BESIDE_TORCH = ("setuptools", "wheel", "ninja", "packaging", "psutil")  # what its extensions ask for without saying so
PYTHONS = ("3.14", "3.13", "3.12", "3.11", "3.10", "3.9")  # which are tried where packages cannot be had for one
LOCK_SECONDS = 300  # what uv waits for another uv


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


class Venvs(Builds):
    """The environments in a directory. settings are environment variables for uv beside those of pip's files."""

    def __init__(self, directory: Path, tool: Tool, settings: dict[str, str], proc: Path = Path("/proc")) -> None:
        """Remember where they are; nothing is read yet."""
        super().__init__(directory, proc)
        self.tool = tool
        self.uv = directory / ".uv" / tool.version / "bin" / "uv"
        self._settings = settings

    def packages(self, name: str) -> dict[str, str]:
        """Return the packages of an environment, with their versions."""
        build = self.build(name)
        return of_wheels(build.names) if build else {}

    def _found(self, path: Path, number: int, record: dict[str, Any]) -> venv.Build:
        return venv.Build(number, record, site_names(path), (path / "bin/python").exists())

    def _has_tool(self) -> bool:
        """Tell whether uv is there, for this node's processor: the directory may be shared, or come from a backup."""
        return self.uv.exists() and not processors.is_foreign(self.uv, platform.machine())

    # long steps: each returns the argument list of a script

    def fetch_tool(self) -> list[str] | None:
        """Return what installs uv; None where it is there."""
        if self._has_tool():
            return None
        final, new = self.directory / ".uv" / self.tool.version, self.directory / ".uv" / "new"
        wheel = self._work(".uv") / "requirements.txt"
        files.write(wheel, self.tool.requirement, 0o600)
        pip = ["python3", "-m", "pip", "--no-input", "--disable-pip-version-check", "install", "--no-deps", "--quiet"]
        pip += ["--only-binary=:all:", "--require-hashes", "--target", str(new), "--requirement", str(wheel)]
        clean = ["rm", "-rf", str(new), str(final)]
        return self._script(".uv", [clean, pip, ["mv", str(new), str(final)]])

    def lock(self, wanted: venv.Wanted) -> list[str] | None:
        """Return what writes the lock, or tries the source code of one that is given; None where it has none.

        Present versions stay where they can.
        """
        work = self._work(wanted.name)
        if wanted.lock is not None:
            files.write(work / "lock", wanted.lock)
            if not uv_words.built(wanted.lock):
                return None
            return self._script(wanted.name, [self._locking(wanted, work)])
        present = self.directory / wanted.name
        files.write(work / "lock", files.read(present / venv.LOCK) or files.read(venv.captured_lock(present)))
        files.make_directory(work / "project", 0o700)  # apart, or uv would look here for its uv.toml
        files.write(work / "project" / "pyproject.toml", venv.project(wanted), 0o600)
        (work / "notes.json").unlink(missing_ok=True)
        return self._script(wanted.name, [self._locking(wanted, work)])

    def _locking(self, wanted: venv.Wanted, work: Path) -> list[str]:
        """Return the command that makes the lock (see locking)."""
        more = ["--prerelease", "allow"] if wanted.prereleases else []
        for option, lines in (("--constraints", wanted.constraints), ("--overrides", wanted.overrides)):
            if lines:
                file = work / f"{option[2:]}.txt"
                files.write(file, "".join(f"{line}\n" for line in lines))
                more += [option, str(file)]
        given = {
            "uv": str(self.uv),
            "python": wanted.python,
            "project": str(work / "project" / "pyproject.toml"),
            "lock": str(work / "lock"),
            "notes": str(work / "notes.json"),
            "scratch": str(work / "locking"),
            "more": more,
            "index": ["--index", wanted.index] if wanted.index else [],
            "compile": list(wanted.compile),
            "requirements": list(wanted.requirements),
            "toolkit": self._toolkit(wanted),
            "beside": self._beside(wanted),
            "pythons": sorted(PYTHONS, key=lambda one: abs(_minor(one) - _minor(wanted.python))),
            "sources": list(uv_words.built(wanted.lock or "")),
        }
        files.write(work / "locking.json", json.dumps(given), 0o600)
        shutil.rmtree(work / "locking", ignore_errors=True)
        return [*builds.program(work / "program", locking), str(work / "locking.json")]

    def _toolkit(self, wanted: venv.Wanted) -> dict[str, str]:
        """Return the environment variables for building what may be compiled, against the environment's framework."""
        if not wanted.compile:
            return {}
        path = f"{TOOLKIT / 'bin'}:{os.environ.get('PATH', os.defpath)}"
        settings = {"CUDA_HOME": str(TOOLKIT), "PATH": path}
        if wanted.framework == "pytorch" and wanted.index:
            settings.update({"UV_INDEX": wanted.index, "UV_INDEX_STRATEGY": "unsafe-best-match"})
        return settings

    def _beside(self, wanted: venv.Wanted) -> dict[str, list[str]]:
        """Return what source code is built beside, by the names of packages: the framework, and what a lock says."""
        build = f"+{wanted.index.rstrip('/').rpartition('/')[2]}" if wanted.index else ""
        torch = f"torch=={wanted.version}{build}" if wanted.version else "torch"
        found = {name: [torch, *BESIDE_TORCH] for name in wanted.compile if wanted.framework == "pytorch"}
        found.update((name, needs) for name, needs in uv_words.built(wanted.lock or "").items() if needs)
        return found

    def make(self, wanted: venv.Wanted) -> list[str]:
        """Return what makes the next build from the lock, and tries it."""
        work, path = self._work(wanted.name), self._next(wanted.name)
        site = path / "lib" / f"python{wanted.python}" / "site-packages"
        files.write(work / venv.VARIABLES, venv.startup_file(wanted.variables))
        python = str(path / "bin/python")
        uv = str(self.uv)
        builds_source = bool(uv_words.built(files.read(work / "lock")))
        commands = [
            *([["cd", str(work / "locking")]] if builds_source else []),  # whose uv.toml says what builds need
            [uv, "venv", "--clear", "--quiet", "--python", wanted.python, "--prompt", wanted.name, str(path)],
            [
                *(uv, "pip", "sync", "--require-hashes", *_wheels_only(work / "lock"), "--compile-bytecode"),
                *("--index-strategy", "unsafe-best-match", "--allow-empty-requirements"),
                *("--python", python, str(work / "lock")),
            ],
            ["cp", str(work / venv.VARIABLES), str(site)],
        ]
        commands += self.probe(wanted, path)
        return self._script(wanted.name, commands, path, wanted.index, self._toolkit(wanted))

    def _script(
        self,
        name: str,
        commands: list[list[str]],
        undo: Path | None = None,
        index: str | None = None,
        toolkit: dict[str, str] | None = None,
    ) -> list[str]:
        settings = {
            **MESSAGES,
            "UV_CACHE_DIR": str(self.cache),
            "UV_PYTHON_INSTALL_DIR": str(self.directory / ".python"),
            "UV_CREDENTIALS_DIR": str(self.cache / "credentials"),
            "UV_LOCK_TIMEOUT": str(LOCK_SECONDS),
            "UV_NO_PROGRESS": "1",
            "TMPDIR": str(self._work(name)),  # uv locks builds by files there, whose names others could take
            "UV_SYSTEM_CERTS": "1",
            **builds.proxies(),
            **builds.pip_settings(),
            **self._settings,
        }
        settings.update(toolkit or {})
        if index:  # the lock says by their hashes which files are right, wherever they lie
            settings["UV_INDEX"] = f"{index} {settings.get('UV_INDEX', '')}".strip()
        return self._write_script(name, [*commands, *self._closed()], settings, undo)

    def _closed(self) -> list[list[str]]:
        """Return the commands that close the locks of uv, which it lets all write, whatever the umask."""
        lock = self.directory / ".python" / ".lock"
        if lock.is_file():  # of a former version
            lock.chmod(0o600)
        find = ["find", str(self.directory), "-xdev", "-type", "f", "-perm", "-002"]
        each = ["-exec", "chmod"]
        return [[*find, "-name", "*.lock", *each, "0600", "{}", "+"], [*find, *each, "o-w", "{}", "+"]]

    # finishing

    def finish(self, wanted: venv.Wanted) -> dict[str, str]:
        """Take the new build into use and return its packages. Raises Refusal E008 where it does not work."""
        path = self._next(wanted.name)
        self._judge(wanted, wanted.expected())
        names = site_names(path)
        record = {"fingerprint": wanted.fingerprint, "names": names, "expected": wanted.expected()}
        notes = files.read(self._work(wanted.name) / "notes.json")
        if notes:
            record["notes"] = json.loads(notes)
        self._take_into_use(wanted.name, files.read(self._work(wanted.name) / "lock"), record)
        return of_wheels(names)

    # check mode

    def predict(self, wanted: venv.Wanted, call: Any, scratch: Path) -> dict[str, str] | None:
        """Return the packages that a build would hold; None where uv is not there to tell. Raises Refusal.

        call runs an argument list and returns (rc, output, errors); scratch is a directory that goes with the module.
        """
        if wanted.lock is not None:
            return venv.locked(wanted.lock)
        if not self._has_tool():
            return None
        beside = Venvs(scratch, self.tool, self._settings)  # with its cache, which goes with it
        beside.uv = self.uv
        (scratch / wanted.name).mkdir()
        files.write(scratch / wanted.name / venv.LOCK, files.read(self.directory / wanted.name / venv.LOCK))
        rc, _out, errors = call(beside.lock(wanted) or [])  # no lock is given, so there is one to make
        if rc != 0:
            raise venv.classify(errors, wanted.name, "its message")
        return venv.locked(files.read(scratch / ".work" / wanted.name / "lock"))


def _minor(python: str) -> int:
    return int(python.partition(".")[2])


def _wheels_only(lock: Path) -> list[str]:
    """Return the options by which only those packages of a lock are built that it says to be."""
    text = files.read(lock)
    sources = uv_words.built(text)
    if not sources:
        return ["--only-binary=:all:"]
    return [f"--only-binary={name}" for name in venv.locked(text) if name not in sources]
