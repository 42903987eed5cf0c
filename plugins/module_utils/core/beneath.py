# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names below directories that people may change while root works there: what was looked at is what is changed.

A path is walked part by part, and each part is opened in the directory that was opened before it. A link on the way is
followed only where nobody but root could have put it there: no directory from the root directory on lets others change
the names in it, and the link is root's. Whatever lies at the last name is never followed. What has to change is held by
a descriptor, so a name that somebody swaps meanwhile leads root nowhere else.

A file is put as a draft beside the name, and renamed; what is at the name then must be that draft.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import secrets
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path("/")
CHANGED = "it changed meanwhile"
ON_THE_WAY = "a link is on the way"
DRAFT = ".gpulab-"
_MOST_LINKS = 40  # as in the kernel
_BLOCK = 1 << 16
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_ENTER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC  # which mounts what is mounted at its first use
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class ChangedError(OSError):
    """Something else is at a name than was looked at, or put there."""

    def __init__(self, name: str) -> None:
        """Name it."""
        super().__init__(errno.ESTALE, CHANGED, name)


def way(descriptor: int) -> str:
    """Return a path that leads to what a descriptor holds, whatever its name is now, and if it is a link, to itself."""
    return f"/proc/self/fd/{descriptor}"


def link(descriptor: int) -> str:
    """Return what a link that is held leads to."""
    return os.readlink("", dir_fd=descriptor)


def is_roots(status: os.stat_result) -> bool:
    """Tell whether only root may write to this: a file's content, or the names in a directory."""
    return _owns(status) and not status.st_mode & _OTHERS


def _owns(status: os.stat_result) -> bool:
    return status.st_uid in (0, os.geteuid())


def same(one: os.stat_result, other: os.stat_result) -> bool:
    """Tell whether two looks were at one file."""
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


class Place:
    """A name in an open directory.

    led tells whether only root could have led the way to the directory, roots whether, besides, only root may change
    what the name leads to.
    """

    def __init__(self, directory: int, name: str, *, roots: bool, led: bool = False) -> None:
        """Take over a descriptor of the directory."""
        self.directory, self.name, self.roots, self.led = directory, name, roots, led

    def status(self) -> os.stat_result | None:
        """Return what is at the name; None where nothing is."""
        try:
            return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def beside(self, name: str) -> Place:
        """Return another name in the directory, which has to stay open."""
        return Place(self.directory, name, roots=self.roots)

    @contextlib.contextmanager
    def held(self, seen: tuple[int, int] | None = None) -> Iterator[int]:
        """Hold what is at the name: file, link, directory or other, without opening it.

        seen is (device, inode) of what was looked at before. Raises ChangedError where another one is there.
        """
        try:
            descriptor = os.open(self.name, _LOOK, dir_fd=self.directory)
        except FileNotFoundError as error:
            raise (ChangedError(self.name) if seen else error) from error
        try:
            status = os.fstat(descriptor)
            if seen and (status.st_dev, status.st_ino) != seen:
                raise ChangedError(self.name)
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def opened(self, seen: tuple[int, int] | None = None, flags: int = os.O_RDONLY) -> Iterator[int]:
        """Open a regular file. Raises OSError for anything else: a FIFO would block its reader for ever."""
        with self.held(seen) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file", self.name)
            opened = _reopened(descriptor, flags)
        try:
            yield opened
        finally:
            os.close(opened)

    def read(self, seen: tuple[int, int] | None = None) -> bytes:
        """Return the content of a regular file."""
        with self.opened(seen) as descriptor:
            return content(descriptor)

    def make(self, mode: int = 0o700, owner: tuple[int, int] | None = None) -> bool:
        """Make a directory with this mode, whatever the umask, for its owner; whether it was not there."""
        umask = os.umask(0)  # a chmod by name could be led to another one
        try:
            os.mkdir(self.name, mode, dir_fd=self.directory)
        except FileExistsError:
            return False
        finally:
            os.umask(umask)
        if owner:
            with self.held() as held:
                self.give(held, owner)
        return True

    def remove(self) -> None:
        """Remove a file or a link, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.name, dir_fd=self.directory)

    def remove_tree(self) -> None:
        """Remove a directory and all in it. Raises OSError.

        rmtree keeps to the directories that it has opened (see shutil.rmtree.avoids_symlink_attacks), and compares the
        first one with what is at its name: the way to that name is the directory that is open here.
        """
        shutil.rmtree(f"{way(self.directory)}/{self.name}")

    def give(self, descriptor: int, owner: tuple[int, int]) -> None:
        """Give a directory that is held to (uid, gid), as it is. Raises OSError.

        Where others may change the name, they may have put a directory there that is not theirs: it has to be the
        user's already, or empty.
        """
        status = os.fstat(descriptor)
        if not stat.S_ISDIR(status.st_mode):
            raise ChangedError(self.name)
        theirs = owner[0] == status.st_uid != 0
        if not (self.roots or theirs or not os.listdir(way(descriptor))):  # noqa: PTH208 - by a descriptor
            raise PermissionError(errno.EPERM, "a directory of somebody else's is there", self.name)
        os.chown(way(descriptor), *owner)

    @contextlib.contextmanager
    def draft(self, *, target: str | None = None, of: int | None = None) -> Iterator[Draft]:
        """Make a draft: a new file, a link with this target, or a second name of a file that is held.

        It goes where it was not put.
        """
        made = Draft(self, target, of)
        try:
            yield made
        finally:
            made.close()

    def write(self, data: bytes, mode: int, owner: tuple[int, int] | None = None) -> None:
        """Put a file with this content. One that is there leaves its mode and its owner to it."""
        before = self.status()
        if before is not None and stat.S_ISREG(before.st_mode):
            mode, owner = stat.S_IMODE(before.st_mode), (before.st_uid, before.st_gid)
        with self.draft() as draft:
            draft.write(data)
            if owner and owner != (os.geteuid(), os.getegid()):
                os.fchown(draft.descriptor, *owner)
            os.fchmod(draft.descriptor, mode)
            draft.put()


class Draft:
    """A file or a link beside the name that it is for. descriptor is open for reading and writing, a link's is not."""

    def __init__(self, place: Place, target: str | None, of: int | None) -> None:
        """Make it; a file is for root alone."""
        self._place = place
        self._draft = place.beside(f"{DRAFT}{secrets.token_hex(8)}")
        name, where, self._left = self._draft.name, place.directory, True
        if of is not None:
            os.link(way(of), name, src_dir_fd=where, dst_dir_fd=where, follow_symlinks=True)
            self.descriptor = os.dup(of)
        elif target is None:
            self.descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | _READ, 0o600, dir_fd=where)
        else:
            os.symlink(target, name, dir_fd=where)
            self.descriptor = os.open(name, _LOOK, dir_fd=where)
            if not stat.S_ISLNK(os.fstat(self.descriptor).st_mode) or link(self.descriptor) != target:
                os.close(self.descriptor)
                raise ChangedError(name)

    @property
    def way(self) -> str:
        """A path that leads to the draft, and to it alone."""
        return way(self.descriptor)

    def write(self, data: bytes) -> None:
        """Write all of it."""
        with os.fdopen(os.dup(self.descriptor), "wb") as stream:
            stream.write(data)

    def put(self) -> None:
        """Let the name be the draft. Raises ChangedError where it is not, after all."""
        self._draft_is_there()
        where = self._place.directory
        try:
            os.replace(self._draft.name, self._place.name, src_dir_fd=where, dst_dir_fd=where)
        except OSError as error:
            if error.errno != errno.EBUSY or not self._place.roots:
                raise
            self._write_into_mount()
            return
        self._left = False
        found = self._place.status()
        if found is None or not same(found, os.fstat(self.descriptor)):
            raise ChangedError(self._place.name)

    def _write_into_mount(self) -> None:
        """Write a file in place that is a mount of its own, as a container's /etc/hosts: no rename replaces such."""
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        with self._place.opened(flags=os.O_WRONLY) as descriptor:
            os.ftruncate(descriptor, 0)
            for block in _blocks(self.descriptor):
                os.write(descriptor, block)
            os.fchmod(descriptor, stat.S_IMODE(os.fstat(self.descriptor).st_mode))

    def close(self) -> None:
        """Remove a draft that was not put, unless somebody has put another one in its place."""
        if self._left:
            with contextlib.suppress(OSError):
                self._draft_is_there()
                self._draft.remove()
        os.close(self.descriptor)

    def _draft_is_there(self) -> None:
        found = self._draft.status()
        if found is None or not same(found, os.fstat(self.descriptor)):
            raise ChangedError(self._draft.name)


@contextlib.contextmanager
def at(root: Path, path: str, *, follow: bool = True, make: bool = False) -> Iterator[Place]:
    """Walk to a path of the node whose root directory is at root, and hold the directory in which its last name is.

    follow allows links that only root could have put on the way. make makes directories that are missing, for everybody
    to read. Raises OSError.
    """
    *parts, name = posixpath.normpath(f"/{path.lstrip('/')}").strip("/").split("/")
    walk = _Walk(root, follow=follow, make=make)
    try:
        walk.go(parts)
        roots = walk.roots and is_roots(os.fstat(walk.descriptor))
        yield Place(walk.descriptor, name or ".", roots=roots, led=walk.roots)
    finally:
        os.close(walk.descriptor)


@contextlib.contextmanager
def directory(root: Path, path: str, *, follow: bool = True, make: bool = False) -> Iterator[int]:
    """Walk to a directory, and hold it by a descriptor. Raises OSError."""
    with at(root, f"{path.rstrip('/')}/-", follow=follow, make=make) as place:
        yield place.directory


def lent(path: Path) -> Path | None:
    """Return the first directory on the way to a path in which others than root may change names; None where none is.

    What is not there yet counts as made by the next one who may.
    """
    roots, is_sticky = True, False
    for one in [*reversed(path.parents), path]:
        try:
            with at(ROOT, f"{one}/-") as place:
                roots, status = place.roots, os.fstat(place.directory)
        except FileNotFoundError:
            return one.parent if is_sticky else None
        except OSError:  # a link that others may have put there
            return one.parent
        is_sticky = bool(status.st_mode & stat.S_ISVTX) and _owns(status)
        if not (roots or is_sticky):
            return one
    return None if roots else path


class _Walk:
    """A walk from a root directory on; roots tells whether only root could have led it where it is."""

    def __init__(self, root: Path, *, follow: bool, make: bool) -> None:
        self._root, self._follow, self._make = root, follow, make
        self._links = 0
        self.descriptor = os.open(root, _ENTER)
        self.roots = True

    def go(self, parts: list[str]) -> None:
        left = [part for part in reversed(parts) if part not in ("", ".")]
        while left:
            left += self._step(left.pop())

    def _step(self, part: str) -> list[str]:
        """Take one step, and return the parts that a link puts before those that are left, the first one last."""
        if self._make:
            Place(self.descriptor, part, roots=self.roots).make(0o755)
        try:
            below = os.open(part, _ENTER | os.O_NOFOLLOW, dir_fd=self.descriptor)
        except NotADirectoryError:
            return self._through(part)
        above = os.fstat(self.descriptor)
        # Only root renames its directory in a sticky one of its own, and nobody can have moved it there. Of another
        # one, its own owner tells.
        kept = above.st_mode & stat.S_ISVTX and _owns(above)
        self.roots = self.roots and (is_roots(above) or bool(kept))
        self._enter(below)
        return []

    def _through(self, part: str) -> list[str]:
        with Place(self.descriptor, part, roots=self.roots).held() as held:
            status, above = os.fstat(held), os.fstat(self.descriptor)
            if not stat.S_ISLNK(status.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), part)
            self._links += 1
            mine = self.roots and is_roots(above) and _owns(status)
            if not (self._follow and mine) or self._links > _MOST_LINKS:
                raise OSError(errno.ELOOP, ON_THE_WAY, part)
            target = link(held)
        if target.startswith("/"):
            self._enter(os.open(self._root, _ENTER))
        return [one for one in reversed(target.split("/")) if one not in ("", ".")]

    def _enter(self, opened: int) -> None:
        os.close(self.descriptor)
        self.descriptor = opened


def _reopened(descriptor: int, flags: int) -> int:
    """Open what is held; the time of access stays as it is where that is allowed."""
    flags |= os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(way(descriptor), flags | os.O_NOATIME)
    except PermissionError:  # only root and the owner may leave the time of access as it is
        return os.open(way(descriptor), flags)


def content(descriptor: int) -> bytes:
    """Return all that an open file holds."""
    return b"".join(_blocks(descriptor))


def _blocks(descriptor: int) -> Iterator[bytes]:
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        yield from iter(lambda: stream.read(_BLOCK), b"")
