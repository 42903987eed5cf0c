# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA that somebody put on a node beside packages: what of it may go, and moving it aside.

A stray is named exactly: a toolkit's directory, a file of its libraries, a file that tells the linker or sessions of
these alone, or a package. It goes where nobody uses it and nothing leads to it. A file or directory is renamed within
its own directory, which takes no room and loses nothing.
"""

from __future__ import annotations

import os
import posixpath
import re
from functools import partial
from typing import TYPE_CHECKING, Callable

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, Child
from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import Mount, every_mount, holding, is_below
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.cuda import refuse
from ansible_collections.gpulab.node.plugins.module_utils.cuda import wheels

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.child import Emit
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

    Call = Callable[[list[str]], tuple[int, str, str]]  # a command: exit status, output, errors

ASIDE = ".gpulab-strays"
MEMORY = "/var/lib/gpulab/cuda-strays.json"
LOST = "Without it, gpulab does not know what it moved aside; it lies in directories called .gpulab-strays."
SESSION_FILES = ("/etc/environment", "/etc/profile", "/etc/bash.bashrc", "/etc/bashrc", "/etc/zsh/zshrc")
PROFILES, LINKER = "/etc/profile.d", "/etc/ld.so.conf.d"
_SETTINGS = (*SESSION_FILES, "/etc/ld.so.conf", "/etc/ld.so.preload")
_SETTING_DIRECTORIES = (PROFILES, LINKER, "/etc/environment.d")
_LINK_DIRECTORIES = ("/usr/local", "/opt", "/usr/local/bin", "/usr/bin", "/etc/alternatives")
_TREES = ("/usr/local/", "/opt/")
_FILES = (*_TREES, "/usr/lib/", "/usr/lib64/", "/usr/include/")
_LIBRARY = re.compile(
    r"lib(?:cudnn|nccl|nvinfer|cudart|cublas|cufft|curand|cusolver|cusparse|nvrtc|nvJitLink)\w*\.(?:so[.\d]*|a)\Z"
    r"|(?:cudnn|nccl|NvInfer)\w*\.h\Z"
)
_MARKS = ("bin/nvcc", "version.json", "version.txt", "include/cuda.h", "include/cudnn.h")
_PYTHON = ("conda-meta", "pyvenv.cfg", "bin/python", "bin/python3")
_DPKG = "/var/lib/dpkg/info"
_SECONDS = 30.0  # for a look at all processes


class Strays:
    """The strays that are named for a node, by their exact names; call runs a command there."""

    def __init__(self, node: Node, call: Call, names: Iterable[str]) -> None:
        """Look at nothing yet."""
        self._node = node
        self._call = call
        unique = list(dict.fromkeys(names))
        self.paths = [name.rstrip("/") for name in unique if name.startswith("/")]
        self.packages = [name for name in unique if not name.startswith("/")]
        self.memory = node.path(MEMORY)

    def there(self) -> list[str]:
        """Return the paths that are on the node."""
        return [path for path in self.paths if os.path.lexists(self._node.path(path))]

    def judge(self, keeps: Collection[str], links: Collection[str]) -> None:
        """Look whether all of them may go.

        keeps are directories and packages that the plan has, links are those that the caller points elsewhere first.
        Raises Refusal C006 to C010.
        """
        paths = self.there()
        for path in paths:
            reason = self._unfit(path, keeps)
            if reason:
                raise refuse("C006", path=path, reason=reason)
        for name in self.packages:
            if name in keeps:
                raise refuse("C006", path=name, reason="the plan of this node has this package")
        self._judge_owners(paths)
        self._judge_settings(paths, links)
        self._judge_packages()
        self._judge_users(paths)

    def _unfit(self, path: str, keeps: Collection[str]) -> str | None:
        """Return why a path is nothing that can be moved aside; None where it is."""
        real, parent = self._node.path(path), posixpath.dirname(path)
        if os.path.realpath(real.parent) != str(real.parent) or ".." in path.split("/"):
            return "its directory is a link to another one"
        if parent in (PROFILES, LINKER):
            return self._unfit_setting(path)
        if path.startswith(_FILES) and not self._node.is_dir(path):
            return self._unfit_file(path)
        if not path.startswith(_TREES):
            return "it is not below /usr/local or /opt"
        return self._unfit_tree(path, keeps)

    def _unfit_file(self, path: str) -> str | None:
        target = self._node.link(path)
        if not _LIBRARY.match(posixpath.basename(path)):
            return "it is not a file of CUDA's libraries"
        return "it is a link to another place" if target is not None and "/" in target else None

    def _unfit_tree(self, path: str, keeps: Collection[str]) -> str | None:
        if self._node.link(path) is not None:
            return "it is a link to another place"
        if any(self._node.exists(f"{path}/{mark}") for mark in _PYTHON):
            return "it is a Python or conda environment"
        if not self._is_toolkit(path):
            return "it is not a CUDA toolkit: it has no nvcc, version.json or libcudnn"
        if path in keeps or self._node.exists(f"{path}/{wheels.RECORD}"):
            return "gpulab keeps this toolkit there; cuda_toolkits says which there are"
        return self._mounted(path)

    def _is_toolkit(self, path: str) -> bool:
        libraries = (f"{path}/{name}" for name in ("lib64", "lib", "targets/x86_64-linux/lib"))
        return any(self._node.exists(f"{path}/{mark}") for mark in _MARKS) or any(
            name.startswith(("libcudnn", "libcudart"))
            for directory in libraries
            for name in self._node.names(directory)
        )

    def _unfit_setting(self, path: str) -> str | None:
        others = [one for one in self.paths if one != path]
        alone = path in settings_of(self._node, others)
        return None if alone else "it has more in it than the strays that are named with it"

    def _mounted(self, path: str) -> str | None:
        mountinfo = self._node.text("/proc/self/mountinfo")
        device, root = _root(mountinfo, path)
        for mount in every_mount(mountinfo):
            if is_below(mount.place, path) or _shows(mount, device, root):
                return f"{mount.place} is a mount of it"
        return None

    def _judge_owners(self, paths: list[str]) -> None:
        """Refuse (C008) where a package has files of a stray."""
        if not paths:
            return
        for package, file in self._owned():
            for path in paths:
                if is_below(file, path):
                    raise refuse("C008", path=path, package=package)

    def _owned(self) -> Iterator[tuple[str, str]]:
        """Yield (package, file) for all that packages brought below the places where strays lie."""
        listings = [name for name in self._node.names(_DPKG) if name.endswith(".list")]
        for name in listings:
            package = name[: -len(".list")].partition(":")[0]
            for line in self._node.text(f"{_DPKG}/{name}").splitlines():
                # Before the directories were merged, packages called them /lib
                yield package, f"/usr{line}" if line.startswith(("/lib/", "/lib64/")) else line
        if not listings:
            rc, output, _errors = self._call(["rpm", "--all", "--query", "--queryformat", "[%{=NAME}\t%{FILENAMES}\n]"])
            for line in output.splitlines() if rc == 0 else ():
                package, _tab, file = line.partition("\t")
                yield package, file

    def _judge_settings(self, paths: list[str], links: Collection[str]) -> None:
        """Refuse (C009) where a file of the system or a link still leads to a stray."""
        files = [*_SETTINGS]
        files += [f"{directory}/{name}" for directory in _SETTING_DIRECTORIES for name in self._node.names(directory)]
        for file in files:
            for line in _lines(self._node.text(file)) if file not in paths else ():
                for path in paths:
                    if _names(line, path):
                        raise refuse("C009", file=file, path=path)
        for directory in _LINK_DIRECTORIES:
            for name in self._node.names(directory):
                link = f"{directory}/{name}"
                if link in links or self._node.link(link) is None:
                    continue
                target = self._node.resolve(link)
                for path in paths:
                    if is_below(target, path) and not is_below(link, path):
                        raise refuse("C009", file=link, path=path)

    def installed(self) -> list[str]:
        """Return the packages of the strays that are installed."""
        return [name for name in self.packages if self._files_of(name)]

    def _files_of(self, package: str) -> list[str]:
        dpkg = self._node.is_dir(_DPKG)
        rc, output, _errors = self._call(
            ["dpkg", "--listfiles", package] if dpkg else ["rpm", "--query", "--list", package]
        )
        return output.splitlines() if rc == 0 else []

    def _judge_packages(self) -> None:
        """Refuse (C010) where a package cannot go without others that are not named."""
        names = self.installed()
        if names:
            dpkg = self._node.is_dir(_DPKG)
            test = ["dpkg", "--simulate", "--remove", *names] if dpkg else ["rpm", "--erase", "--test", *names]
            rc, output, errors = self._call(test)
            if rc:
                lines = (errors or output).strip().splitlines()
                raise refuse("C010", names=", ".join(names), detail="; ".join(line.strip() for line in lines[:6]))

    def _judge_users(self, paths: list[str]) -> None:
        """Refuse (C007) where a process has a file of a stray open or in its memory, or a container mounts it."""
        files = {file: name for name in self.packages for file in self._files_of(name) if not self._node.is_dir(file)}
        if not paths and not files:
            return
        child = Child(partial(_users, self._node, paths, files), _SECONDS)
        done = child.wait()
        if child.messages:
            found = child.messages[0]
            raise refuse("C007", path=found["path"], user=f"{found['command']} (PID {found['pid']})")
        if done != DONE:
            raise refuse("C007", path=(paths or self.packages)[0], user="perhaps a process that cannot be looked into")

    def aside(self, path: str) -> str:
        """Return where a stray is moved, a free name beside it."""
        place = f"{posixpath.dirname(path)}/{ASIDE}/{posixpath.basename(path)}"
        number = 1
        while os.path.lexists(self._node.path(place)):
            number += 1
            place = f"{posixpath.dirname(path)}/{ASIDE}/{posixpath.basename(path)}.{number}"
        return place

    def moved(self) -> dict[str, str]:
        """Return what was moved aside, as the place where it is now: where it was. Raises Refusal H220."""
        known: dict[str, str] = records.read(self.memory, dict[str, str], {}, LOST)
        return known

    def move(self, path: str) -> None:
        """Move a stray aside; it is noted first, so that a power cut loses nothing."""
        place = self.aside(path)
        records.keep(self.memory, {**self.moved(), place: path})
        target = self._node.path(place)
        target.parent.mkdir(mode=0o755, exist_ok=True)
        self._node.path(path).rename(target)

    def returnable(self) -> dict[str, str]:
        """Return what of it can be put back: the newest of each path where nothing else is."""
        found = {path: place for place, path in self.moved().items() if os.path.lexists(self._node.path(place))}
        return {place: path for path, place in found.items() if not os.path.lexists(self._node.path(path))}

    def put_back(self, place: str, path: str) -> None:
        """Put back what was moved aside."""
        self._node.path(place).rename(self._node.path(path))
        if not self._node.names(posixpath.dirname(place)):
            self._node.path(posixpath.dirname(place)).rmdir()
        known = self.moved()
        records.keep(self.memory, {there: former for there, former in known.items() if there != place})


def settings_of(node: Node, paths: Collection[str]) -> list[str]:
    """Return the files that tell the linker or sessions of these paths, and of nothing else."""
    found = []
    for directory in (LINKER, PROFILES):
        for file in (f"{directory}/{name}" for name in node.names(directory)):
            lines = list(_lines(node.text(file))) if node.link(file) is None else []
            if lines and all(any(_names(line, path) for path in paths) for line in lines):
                found.append(file)
    return found


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a file of settings that say something."""
    return (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))


def _names(line: str, path: str) -> bool:
    """Tell whether a line names a path or something in it."""
    return re.search(rf"(?<![\w.-]){re.escape(path)}(?![\w.-])", line) is not None


def _users(node: Node, trees: list[str], files: dict[str, str], emit: Emit) -> None:
    """Emit {"path", "pid", "command"} of the first process that uses a file of the trees, or one of the files.

    A process in a container may see another file by the same name, and a mount of the host's by another one.
    """
    roots = [(tree, *_root(node.text("/proc/self/mountinfo"), tree)) for tree in trees]
    seen: set[str | None] = {node.link("/proc/self/ns/mnt")}
    for name in filter(str.isdigit, node.names("/proc")):
        if name == str(os.getpid()):
            continue
        hit = _used(node, name, trees, files)
        space = node.link(f"/proc/{name}/ns/mnt")
        if hit is None and space not in seen:
            seen.add(space)
            mounts = every_mount(node.text(f"/proc/{name}/mountinfo"))
            hit = next((tree for tree, *place in roots if any(_shows(mount, *place) for mount in mounts)), None)
        if hit is not None:
            emit({"path": hit, "pid": int(name), "command": node.text(f"/proc/{name}/comm")})
            return


def _used(node: Node, process: str, trees: list[str], files: dict[str, str]) -> str | None:
    """Return the first of the trees, or of what the files are of, that a process has a file of."""
    used = set(re.findall(r" (/\S.*)$", node.text(f"/proc/{process}/maps"), re.MULTILINE))
    opened = (f"fd/{number}" for number in node.names(f"/proc/{process}/fd"))
    used |= {link for part in ("exe", "cwd", *opened) if (link := node.link(f"/proc/{process}/{part}"))}
    found = [(tree, tree) for tree in trees if any(is_below(one, tree) for one in used)]
    found += [(file, package) for file, package in files.items() if file in used]
    return next((shown for path, shown in found if _same(node, process, path)), None)


def _shows(mount: Mount, device: str, root: str) -> bool:
    """Tell whether a mount shows what lies at a place of a file system, or below it."""
    return mount.device == device and is_below(mount.root, root)


def _root(mountinfo: str, path: str) -> tuple[str, str]:
    """Return the file system of a path, as "8:1", and where it lies in it."""
    mount = holding(path, every_mount(mountinfo)) or Mount("/", "", "", "")
    return mount.device, posixpath.normpath(f"{mount.root}/{path[len(mount.place.rstrip('/')) :]}")


def _same(node: Node, process: str, path: str) -> bool:
    """Tell whether a process sees by this path what is there on the node."""
    try:
        return node.path(path).samefile(node.path(f"/proc/{process}/root{path}"))
    except OSError:  # it has ended, or has no such file
        return False
