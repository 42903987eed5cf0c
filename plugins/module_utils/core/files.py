# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small files on a node: read what may be absent, replace whole or not at all, write what nobody else reads."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shlex
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import beneath
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.node import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 1 << 20  # bytes
SECRET = 0o600  # the mode of a file that only root reads


def read(path: Path) -> str:
    """Return the text of a file, empty where there is none; bytes that are not UTF-8 are replaced."""
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, which may be larger than the memory."""
    found = hashlib.sha256()
    with path.open("rb") as stream:
        for part in iter(lambda: stream.read(_CHUNK), b""):
            found.update(part)
    return found.hexdigest()


def free_bytes(directory: Path) -> int:
    """Return how much a directory may still take. One that is not there yet takes what the place for it does."""
    there = next(path for path in (directory, *directory.parents) if path.is_dir())
    return shutil.disk_usage(there).free


def own_text(path: Path) -> str | None:
    """Return the text of a file that a module may write, None where there is none.

    Raises Refusal H222 where a directory, a device or the like is in its place, which nothing of gpulab's replaces.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return read(path)
        kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
        raise refuse("H222", path=path, kind=kinds.get(stat.S_IFMT(mode), "a device"))
    return None


def mode_of(path: Path) -> int:
    """Return a file's permissions; where there is none, those of a file that everybody may read."""
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644


def make_directory(path: Path, mode: int = 0o755) -> None:
    """Make a directory with this mode where it is missing, whatever the umask; everybody may read those above it."""
    with beneath.at(beneath.ROOT, str(path.absolute()), make=True) as place:
        place.make(mode)


def replace(module: Any, path: Path, text: str, mode: int = 0o644, *, mounted: bool = False) -> None:
    """Put the text at path in one rename, through the module's temporary directory (an AnsibleModule's tmpdir).

    A new file has this mode, whatever the umask; one that is there keeps its own. Bytes that were read with
    surrogateescape are written as they were. mounted is for a file that may be a mount of its own, as a container's
    /etc/hosts: no rename replaces such a one, and it is written in place. Where others may change names on the way, it
    is written by descriptors; elsewhere by Ansible, which knows the labels of SELinux.
    """
    with beneath.at(beneath.ROOT, str(path.absolute())) as place:
        if not place.roots:
            place.write(text.encode("utf-8", "surrogateescape"), mode)
            return
    new = not path.exists()
    handle, draft = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    umask = os.umask(0o777 & ~mode)  # by which atomic_move sets what a new file permits, less the right to run it
    try:
        module.atomic_move(draft, str(path), unsafe_writes=mounted)
    finally:
        os.umask(umask)
    if new:
        path.chmod(mode)


def has_rights(path: Path, mode: int = 0o644) -> bool:
    """Tell whether a file of gpulab's has this mode and, on a node, is root's; one that is not there is right.

    So is a secret that the group root may read, which nobody else is in: the unit of SSSD lets it.
    """
    if not path.is_file():
        return True
    status = path.stat()
    found = stat.S_IMODE(status.st_mode)
    is_mode = found == mode or (mode == SECRET and found == SECRET | stat.S_IRGRP)
    return is_mode and (os.geteuid() != 0 or (status.st_uid, status.st_gid) == (0, 0))


def set_rights(path: Path, mode: int = 0o644) -> None:
    """Give a file of gpulab's this mode and, on a node, to root. What others may have put there is left alone."""
    with beneath.at(beneath.ROOT, str(path.absolute())) as place, _way(place, path) as way:
        if os.geteuid() == 0:
            os.chown(way, 0, 0)
        os.chmod(way, mode)  # noqa: PTH101 - it may be a descriptor's


@contextlib.contextmanager
def _way(place: beneath.Place, path: Path) -> Iterator[str]:
    """Return a way to a file that is the one at its only name, where others may change names."""
    if place.roots:
        yield str(path)
        return
    with place.opened() as opened:
        if os.fstat(opened).st_nlink > 1:
            raise PermissionError(errno.EPERM, "it has a second name", str(path))
        yield beneath.way(opened)


def put(module: Any, path: Path, text: str | None, mode: int = 0o644, *, mounted: bool = False) -> None:
    """Let the file at path hold the text; None means no file. A directory that is new may be read by everybody."""
    if text is None:
        if path.exists():
            with beneath.at(beneath.ROOT, str(path.absolute())) as place:
                place.remove()
        return
    make_directory(path.parent)
    replace(module, path, text, mode, mounted=mounted)


def differing(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return which files of gpulab's have another text than they shall have, or other rights; empty means no file."""
    return [path for path, text in after.items() if before[path] != text or (text and not has_rights(Path(path)))]


def put_own(module: Any, path: Path, text: str | None) -> None:
    """Put a file of gpulab's, for everybody to read."""
    put(module, path, text)
    if text is not None:
        set_rights(path)


def diff(path: str, before: str | None, after: str | None) -> dict[str, str]:
    """Return how a file changes, as people may see it; None, like empty, means no file.

    A password in an address is hidden on both sides.
    """
    sides = {"before": for_people(before or ""), "after": for_people(after or "")}
    return {"before_header": path, "after_header": path, **sides}


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file with this mode."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)


def script(commands: list[list[str]], settings: dict[str, str], undo: Path | None = None) -> str:
    """Return a shell script of these commands, with settings as environment variables; a failure removes undo."""
    lines = ["#!/bin/sh", "set -e", "umask 022"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(settings.items())]
    if undo:
        lines += [f'undo() {{ [ "$?" = 0 ] || rm -rf {shlex.quote(str(undo))}; }}', "trap undo EXIT"]
    lines += [" ".join(word if word == ">" else shlex.quote(word) for word in command) for command in commands]
    return "\n".join(lines) + "\n"
