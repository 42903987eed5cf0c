# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The conda environments of this node, and the micromamba that makes them: look, prepare a build, take it into use.

ROOT/bin/micromamba is the tool, ROOT/envs/NAME the environment, a link into ROOT/envs/.builds.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ansible_collections.gpulab.node.plugins.module_utils.core import download, files
from ansible_collections.gpulab.node.plugins.module_utils.core.environment_packages import of_conda, of_wheels
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.environments import refuse
from ansible_collections.gpulab.node.plugins.module_utils.environments import builds, conda, venv
from ansible_collections.gpulab.node.plugins.module_utils.environments.builds import MESSAGES, Builds
from ansible_collections.gpulab.node.plugins.module_utils.environments.recorded import Made

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

BUNDLES = (Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/pki/tls/certs/ca-bundle.crt"))
PARTS = (".builds", ".work", ".cache")
UNKNOWN = "(its version is known once micromamba is there)"
PIP = "pip>=22.2"  # the first that reports what it installed


class Record(Made):
    """The record of a conda environment."""

    sizes: dict[str, int]


class Condas(Builds):
    """The environments below the root prefix of a micromamba. settings are environment variables for micromamba."""

    RECORD: ClassVar[type] = Record

    def __init__(
        self,
        root: Path,
        settings: dict[str, str],
        home: Path,
        proc: Path = Path("/proc"),
        homes: Path = Path("/home"),
    ) -> None:
        """Remember where they are; nothing is read yet. home is root's, where conda keeps a list of environments."""
        super().__init__(root / "envs", proc)
        self.root = root
        self.tool = root / "bin" / "micromamba"
        self._mark = root / "envs" / ".micromamba"  # the digest of the tool, which says that it is gpulab's
        self._settings = settings
        self.cache = root / "envs" / ".cache" / "pkgs"  # not .cache itself, which everybody's micromamba looks into
        self._listed = home / ".conda" / "environments.txt"
        self._homes = homes

    def abandoned(self) -> list[str]:
        """Return the environments whose group is gone, and the paths of users' own whose user is."""
        own = sorted(self._homes.glob("*/.conda/envs/*"))
        gone = (str(path) for path in own if not builds.is_user(path.lstat().st_uid))
        return [*super().abandoned(), *gone]

    # the tool

    def check_place(self) -> None:
        """Raise Refusal E017 where the root prefix, or the tool in it, is somebody else's."""
        for path in (self.root / "conda-meta", *(() if self._mark.exists() else (self.tool,))):
            if path.exists():
                raise refuse("E017", path=path, directory=self.root)

    def is_there(self) -> bool:
        """Tell whether anything of gpulab's is there."""
        return self._mark.exists() or any((self.directory / part).exists() for part in PARTS)

    def tool_is(self, sha256: str) -> bool:
        """Tell whether the tool is the file with this digest."""
        return self.tool.is_file() and _digest(self.tool) == sha256

    def fetch_tool(self, url: str, sha256: str, scratch: Path) -> None:
        """Fetch the tool and take it into use. Raises Refusal E013 and E014."""
        file = scratch / "micromamba"
        os.environ.update(proxies())
        try:
            download.save(url, file, timeout=60)
        except OSError as error:
            advice = venv.advice_on(str(error), "Check the node's network and proxy.")
            raise refuse("E013", url=url, detail=error, advice=advice) from error
        self.install_tool(file, url, sha256)

    def install_tool(self, fetched: Path, url: str, sha256: str) -> None:
        """Take a fetched file into use as the tool. Raises Refusal E014 where it is another one."""
        found = _digest(fetched)
        if found != sha256:
            raise refuse("E014", url=url, found=found, wanted=sha256)
        for path in (self.directory, self.tool.parent):
            files.make_directory(path)
        files.write(self._mark, f"{sha256}\n")
        new = self.tool.with_name(".micromamba.new")
        shutil.copyfile(fetched, new)
        new.chmod(0o755)
        new.replace(self.tool)

    # reading

    def packages(self, name: str) -> dict[str, str]:
        """Return the packages of an environment, with version and build."""
        build = self.build(name)
        return self._packages((self.directory / name).resolve()) if build else {}

    def _packages(self, path: Path) -> dict[str, str]:
        names = (entry.name for entry in path.glob("conda-meta/*.json"))
        found = {name: " ".join(package) for name, package in of_conda(names).items()}
        for info in path.glob("lib/python*/site-packages/*.dist-info"):
            if files.read(info / "INSTALLER").strip() == "pip":
                found.update({name: f"{version} {conda.BY_PIP}" for name, version in of_wheels([info.name]).items()})
        return found

    def _found(self, path: Path, number: int, record: dict[str, Any]) -> venv.Build:
        names, sizes = content(path)
        return venv.Build(number, record, names, python=True, sizes=sizes)

    # long steps

    def make(self, wanted: conda.Wanted) -> list[str]:
        """Return what makes the next build, and tries it."""
        work, path = self._work(wanted.name), self._next(wanted.name)
        given = conda.locked(wanted.lock) if wanted.lock is not None else None
        pip = given.pip if given else wanted.pip
        commands = [
            ["rm", "-rf", str(path), str(work / "pip.json")],
            [*self._create(wanted, path), ">", str(work / "conda.json")],
        ]
        if given is None:
            commands += self._pip(path, work / "pip.txt", pip)
        else:  # pip has no hash of a commit
            commits = tuple(line for line in pip if conda.is_of_a_commit(line))
            others = tuple(line for line in pip if line not in commits)
            commands += self._pip(path, work / "pip.txt", others, "--no-deps", "--require-hashes")
            commands += self._pip(path, work / "commits.txt", (*conda.options_of(pip), *commits), "--no-deps")
        files.write(work / venv.VARIABLES, venv.startup_file(wanted.variables))
        into = ["find", str(path), "-maxdepth", "3", "-path", "*/lib/python3*/site-packages"]
        commands.append([*into, "-exec", "cp", str(work / venv.VARIABLES), "{}", ";"])
        commands += self.probe(wanted, path)
        return self._write_script(wanted.name, commands, self._environment(wanted), path)

    def _pip(self, path: Path, file: Path, lines: tuple[str, ...], *more: str) -> list[list[str]]:
        """Return the command by which pip adds packages to a build; git, where it is needed, is that of the build."""
        if not set(lines) - set(conda.options_of(lines)):
            return []
        files.write(file, "".join(f"{line}\n" for line in lines), 0o600)
        return [
            [
                *("env", f"PATH={path / 'bin'}:{os.defpath}", str(path / "bin/python"), "-m", "pip", "--no-input"),
                *("--disable-pip-version-check", "install", "--quiet", "--only-binary=:all:", *more),
                *("--report", str(file.with_name("pip.json")), "--requirement", str(file)),
            ]
        ]

    def _create(self, wanted: conda.Wanted, path: Path, *more: str) -> list[str]:
        """Return the command that makes a build, or with --dry-run tells what would be in it."""
        argv = [str(self.tool), "create", "--yes", "--json", *more, "--prefix", str(path)]
        if wanted.lock is not None:
            file = self._work(wanted.name) / "explicit.txt"
            files.write(file, conda.locked(wanted.lock).explicit(), 0o600)
            return [*argv, "--file", str(file)]
        channels = [word for channel in wanted.channels for word in ("--channel", channel)]
        needed = [PIP] if wanted.pip else []
        if any(conda.is_of_a_commit(line) for line in wanted.pip):
            needed.append("git")
        return [*argv, "--override-channels", *channels, *wanted.packages, *needed]

    def _environment(self, wanted: conda.Wanted) -> dict[str, str]:
        """Return the environment variables of a step.

        CONDA_OVERRIDE_CUDA is always set: what is chosen must not depend on whether a driver happens to be loaded.
        """
        bundle = next((str(path) for path in BUNDLES if path.exists()), None)
        of_pip = builds.pip_settings()
        trust = dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO"), bundle) if bundle else {}
        if bundle and "SSL_CERT_FILE" not in of_pip:
            trust["PIP_CERT"] = bundle
        return {
            **MESSAGES,
            "HOME": str(self._work(wanted.name)),  # no settings of root's, and no line in root's list for each build
            "MAMBA_ROOT_PREFIX": str(self.root),
            "CONDA_PKGS_DIRS": str(self.cache),
            "CONDA_OVERRIDE_CUDA": wanted.cuda or "",
            "PYTHONNOUSERSITE": "1",
            **trust,
            **proxies(),
            **self._settings,
        }

    def explain(self, name: str, printed: str, log: str) -> Refusal:
        """Return the refusal that says why a build failed; printed is the end of what the step said."""
        return conda.classify(files.read(self._work(name) / "conda.json"), printed, name, log)

    # finishing

    def finish(self, wanted: conda.Wanted) -> dict[str, str]:
        """Take the new build into use and return its packages. Raises Refusal where it is not what is wanted."""
        path, work = self._next(wanted.name), self._work(wanted.name)
        told = files.read(work / "conda.json")
        if not conda.succeeded(told, 0):
            shutil.rmtree(path, ignore_errors=True)
            raise conda.classify(told, "", wanted.name, str(work / "conda.json"))
        found = self._packages(path)
        expected = wanted.expected(found)
        self._judge(wanted, expected)
        lock = self._lock(wanted, path, json.loads(files.read(work / "pip.json") or "{}"))
        names, sizes = content(path)
        record = {
            "fingerprint": wanted.fingerprint,
            "content": replace(wanted, lock=lock).fingerprint,
            "names": names,
            "sizes": sizes,
            "expected": expected,
        }
        self._take_into_use(wanted.name, lock, record)
        self._list(wanted.name)
        return found

    def _lock(self, wanted: conda.Wanted, path: Path, report: dict[str, Any]) -> str:
        if wanted.lock is not None:
            return conda.locked(wanted.lock).text()
        records = [json.loads(files.read(one)) for one in sorted(path.glob("conda-meta/*.json"))]
        return conda.lock_of(records, report, conda.options_of(wanted.pip)).text()

    def remove(self, name: str) -> None:
        """Remove an environment. Raises Refusal E010 while a process uses it."""
        super().remove(name)
        self._list(name, present=False)

    def _list(self, name: str, *, present: bool = True) -> None:
        """Name an environment in the list that conda env list reads, or take its name out."""
        line, text = str(self.directory / name), files.read(self._listed)
        lines = [one for one in text.splitlines() if one != line] + ([line] if present else [])
        new = "".join(f"{one}\n" for one in lines)
        if new == text or (present and line in text.splitlines()):
            return
        if not lines:
            self._listed.unlink()
            return
        files.make_directory(self._listed.parent)
        files.write(self._listed, new)

    def clear(self) -> None:
        """Remove what is gpulab's below the root prefix, and what is empty then."""
        if self._mark.exists():
            self.tool.unlink(missing_ok=True)
            self._mark.unlink()
        for part in PARTS:
            shutil.rmtree(self.directory / part, ignore_errors=True)
        for path in (self.tool.parent, self.directory, self.root, self._listed.parent):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()

    # check mode

    def predict(self, wanted: conda.Wanted, call: Any, scratch: Path) -> dict[str, str]:
        """Return the packages that a build would hold. Raises Refusal.

        call runs an argument list with environment variables and returns (rc, output, errors); scratch is a directory
        that goes with the module.
        """
        if wanted.lock is not None:
            return conda.locked(wanted.lock).versions()
        named = (conda.name_of(one) for one in wanted.pip if not one.startswith("-"))
        by_pip = dict.fromkeys(named, conda.UNKNOWN_OF_PIP)
        if not self.tool.exists():
            return {**dict.fromkeys((conda.name_of(one) for one in wanted.packages), UNKNOWN), **by_pip}
        beside = Condas(scratch, self._settings, scratch)
        beside.tool = self.tool
        beside._settings = {**self._settings, "CONDA_PKGS_DIRS": str(scratch / "pkgs")}
        argv = beside._create(wanted, scratch / "new", "--dry-run")
        rc, output, errors = call(argv, environ_update=beside._environment(wanted))
        if not conda.succeeded(output, rc):
            raise conda.classify(output, errors, wanted.name, "its message")
        return {**conda.linked(output), **by_pip}


def proxies() -> dict[str, str]:
    """Return the proxies of the task, and those that pip on this node is set up for."""
    of_pip = builds.pip_settings()
    of_pip = {name.lower(): of_pip[name] for name in ("HTTP_PROXY", "HTTPS_PROXY") if name in of_pip}
    return {**builds.proxies(), **of_pip}


def content(path: Path) -> tuple[tuple[str, ...], dict[str, int]]:
    """Return what lies in the places of a build that jobs do not write to, and the sizes of its conda-meta."""
    sites = [one.relative_to(path).as_posix() for one in path.glob("lib/python*/site-packages")]
    names = [
        f"{place}/{entry.name}"
        for place in ("bin", "lib", "conda-meta", *sites)
        if (path / place).is_dir()
        for entry in os.scandir(path / place)
        if entry.name != "__pycache__"
    ]
    sizes = {entry.name: entry.stat().st_size for entry in (path / "conda-meta").glob("*.json")}
    return tuple(sorted(names)), sizes


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
