# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environments on this node, whatever makes them: each is a link to one of its builds, which are never changed.

What takes long is left to long steps: each is a script that is written here, in DIRECTORY/.work.
"""

from __future__ import annotations

import configparser
import grp
import hashlib
import inspect
import os
import pwd
import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ansible_collections.gpulab.node.plugins.module_utils.core import beneath, files, programs, records
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import Changes, changes
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals import values
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.environments import refuse
from ansible_collections.gpulab.node.plugins.module_utils.environments import probe as environment_probe
from ansible_collections.gpulab.node.plugins.module_utils.environments import venv
from ansible_collections.gpulab.node.plugins.module_utils.environments.recorded import Answer, Record

if TYPE_CHECKING:
    from types import ModuleType

GPULAB = "ansible_collections.gpulab.node."
PIP_FILES = (Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"))
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
PROOF_SECONDS = 600
NO_GPUS = ["CUDA_VISIBLE_DEVICES=", "JAX_PLATFORMS=cpu"]  # JAX falls over a CUDA that it loads and that shows no GPU
MESSAGES = {"LANGUAGE": "", "LC_ALL": "C.UTF-8"}  # that we can read; LANGUAGE would go first
GONE = "it is requested as absent"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NOT_ONE = "a character that is not allowed in a directory name"
EVERYBODY = "everybody"
OPEN = "conda-meta"  # everybody's environments are looked for by what lies in it, and micromamba fails where it may not


class Builds:
    """The environments in a directory. A subclass says what one holds."""

    RECORD: ClassVar[type] = Record

    def __init__(self, directory: Path, proc: Path = Path("/proc")) -> None:
        """Remember where they are; nothing is read yet."""
        self.directory = directory
        self.cache = directory / ".cache"
        self.groups: dict[str, int] = {}  # by the names of environments that only the members of a group may use
        self._proc = proc

    def check_way(self) -> None:
        """Raise Refusal E037 where others than root may change names on the way: root's programs work there by name."""
        lent = beneath.lent(self.directory)
        if lent:
            raise refuse("E037", path=self.directory, directory=lent)

    # reading

    def build(self, name: str) -> venv.Build | None:
        """Return the build that an environment is; None where there is none.

        Raises Refusal E001 for a foreign file, I030 for a name that leads out of the directory.
        """
        if not NAME.fullmatch(name):
            raise values.refuse(
                "I030", variable="an environment's name", problem=_NOT_ONE, form="letters, digits and '_.-'"
            )
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
        try:
            record = records.read(path / venv.RECORD, self.RECORD, None)
            return self._found(path, int(path.name), record) if record else None
        except (ValueError, Refusal):  # of somebody else's, or damaged: it is built again beside the former one
            return None

    def _found(self, path: Path, number: int, record: dict[str, Any]) -> venv.Build:
        """Return a build as it is found."""
        raise NotImplementedError

    # who may use an environment

    def users(self, name: str) -> str:
        """Return who may use an environment: everybody, or the name or number of a group."""
        gids = {found.st_gid for _path, found in self._parts(name) if not found.st_mode & stat.S_IRWXO}
        return ", ".join(_group(gid) for gid in sorted(gids)) or EVERYBODY

    def is_given(self, name: str) -> bool:
        """Tell whether those may use an environment that shall, and nobody else."""
        return all(self._is_given(name, found) for _path, found in self._parts(name))

    def give(self, name: str) -> None:
        """Let those use all builds of an environment that shall, and nobody else."""
        gid = self.groups.get(name)
        if self.cache.is_dir():
            self._close_cache()
        wrong = [(path, found) for path, found in self._parts(name) if not self._is_given(name, found)]
        for path, found in wrong:
            own = stat.S_IMODE(found.st_mode) & stat.S_IRWXU
            path.chmod(own)  # nobody's, until it belongs to the right ones
            os.chown(path, -1, 0 if gid is None else gid)
            path.chmod(own | (0o055 if gid is None else 0o050))

    def abandoned(self) -> list[str]:
        """Return the environments whose group is no longer there."""
        return [name for name in self.names() if self.users(name).isdigit()]

    def _is_given(self, name: str, found: os.stat_result) -> bool:
        gid, others = self.groups.get(name), bool(found.st_mode & stat.S_IRWXO)
        return others if gid is None else found.st_gid == gid and not others

    def _parts(self, name: str) -> list[tuple[Path, os.stat_result]]:
        """Return the directories in all builds of an environment that decide who may use it."""
        parts = (part for part in (self.directory / ".builds" / name).glob("*/*") if part.name != OPEN)
        found = ((part, part.lstat()) for part in parts)
        return [(part, state) for part, state in found if stat.S_ISDIR(state.st_mode)]

    # long steps

    def probe(self, wanted: Any, path: Path) -> list[list[str]]:
        """Return the commands that try a build; the GPUs may be in use, so they are tried when the node is proven."""
        if not wanted.framework:
            return []
        work, python = self._work(wanted.name), str(path / "bin/python")
        files.write(work / "probe.py", probe_source())
        pairs = [f"{name}={value}" for name, value in sorted(wanted.variables.items())]
        probe = ["env", *NO_GPUS, python, "-I", str(work / "probe.py"), wanted.framework, *pairs]
        return [["timeout", "--kill-after=5", str(PROOF_SECONDS), *probe, ">", str(work / "proof.json")]]

    def _write_script(
        self, name: str, commands: list[list[str]], settings: dict[str, str], undo: Path | None = None
    ) -> list[str]:
        """Write a script and return its argument list, in which its digest makes it known as a step of its own."""
        self._close_cache()
        text = files.script(commands, settings, undo)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        script = self._work(name) / f"{digest}.sh"
        files.write(script, text, 0o700)
        return ["sh", str(script)]

    def _close_cache(self) -> None:
        """Let nobody but root into the cache: by its locks, which uv lets all write, they would keep root waiting."""
        files.make_directory(self.cache, 0o700)
        self.cache.chmod(0o700)

    # finishing

    def _judge(self, wanted: Any, expected: dict[str, Any]) -> None:
        """Remove the new build and raise Refusal E008 where what was found when it was tried is not as expected."""
        if not wanted.framework:
            return
        try:
            answer: Any = records.read(self._work(wanted.name) / "proof.json", Answer, venv.NO_ANSWER)
        except Refusal as damage:
            answer = {"failure": damage.cause}
        faults = venv.faults(answer, expected)
        if faults:
            shutil.rmtree(self._next(wanted.name))
            raise refuse("E008", name=wanted.name, line="; ".join(faults), former=venv.FORMER)

    def _take_into_use(self, name: str, lock: str, record: dict[str, Any]) -> None:
        """Complete the new build with its lock and record, and move the link to it."""
        path, work = self._next(name), self._work(name)
        files.write(path / venv.LOCK, lock)
        records.write(path / venv.RECORD, record)
        self.give(name)
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
        """Remove builds that are neither to be kept nor in use: what jobs started with stays until they end.

        A job that was started through the link may use any of them.
        """
        for path in (self.directory / ".builds" / name).iterdir():
            if path not in keep and not self._users(path, self.directory / name):
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
        files.make_directory(path, 0o700)
        return path


def groups_of(environments: list[dict[str, Any]]) -> dict[str, int]:
    """Return the number of each environment's group, where it is for one. Raises Refusal E019."""
    found = {}
    for one in environments:
        if one["group"]:
            try:
                found[one["name"]] = grp.getgrnam(one["group"]).gr_gid
            except KeyError as error:
                raise refuse("E019", name=one["name"], group=one["group"]) from error
    return found


def group_named(params: dict[str, Any], name: str) -> str:
    """Return for whom a module's options name an environment."""
    return next((one["group"] for one in params["environments"] if one["name"] == name), None) or EVERYBODY


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def is_user(uid: int) -> bool:
    """Tell whether the node has a user of this number."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def proxies() -> dict[str, str]:
    """Return the proxies that the task was given."""
    return {name: os.environ[name] for name in PROXIES if os.environ.get(name)}


def pip_settings() -> dict[str, str]:
    """Return what pip on this node is set up for (see venv.pip_settings). Raises Refusal E034."""
    texts = []
    for path in PIP_FILES:
        texts.append(files.read(path))
        try:
            venv.pip_settings(texts[-1:])
        except configparser.Error as error:
            raise refuse("E034", path=path, detail=" ".join(str(error).split())) from error
    return venv.pip_settings(texts)


def probe_source() -> str:
    """Return the text of the program that environments are tried with; it may lie in the archive of a module."""
    return inspect.getsource(environment_probe)


def program(directory: Path, main: ModuleType) -> list[str]:
    """Write a module with all of gpulab that it imports, and return the command that runs its function main."""
    programs.write_imported(directory)
    start = f"import sys; sys.path.insert(0, {str(directory)!r}); from {main.__name__} import main; main()"
    return ["python3", "-I", "-c", start]


def site_names(path: Path) -> tuple[str, ...]:
    """Return what lies in the site-packages of a build."""
    names = (entry.name for site in path.glob("lib/python*/site-packages") for entry in site.iterdir())
    return tuple(sorted(name for name in names if name != "__pycache__"))


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


def transfer(name: str, before: str, after: str) -> dict[str, Any]:
    """Return the change by which others may use an environment."""
    found = change(name, [f"it is for {before}, but {after} is requested"], {}, {})
    found["diff"].update(before=f"for {before}\n", after=f"for {after}\n")
    return found


def hand_over(builds: Builds, name: str) -> dict[str, Any]:
    """Let those use an environment that shall, and return that as a change."""
    before = builds.users(name)
    builds.give(name)
    return transfer(name, before, builds.users(name))


def removal(name: str, before: dict[str, str]) -> dict[str, Any]:
    """Return the change by which an environment goes; told knows it again."""
    return change(name, [GONE], before, {})


def told(found: list[dict[str, Any]], earlier: Changes) -> dict[str, Any]:
    """Return changes of environments as a module's result has them, after those that it had earlier."""
    environments = [one["environment"] for one in found]
    own = changes(
        make=[f"{one['name']} ({_count(one)})" for one in environments if one["because"] != [GONE]],
        delete=[f"environment {one['name']}" for one in environments if one["because"] == [GONE]],
    )
    return {
        "changes": [*earlier, *own],
        "environments": environments,
        "diff": [one["diff"] for one in found],
    }


def _count(environment: dict[str, Any]) -> str:
    """Return how many packages of an environment change."""
    parts = ("added", "changed", "removed")
    counts = ", ".join(f"{len(environment[part])} {part}" for part in parts if environment[part])
    return f"packages: {counts or 'the same'}"
