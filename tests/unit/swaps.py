"""A person who changes names while root works below their directory: at each step, each part of a path."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

# What looks at names, or changes what they lead to. Between two of these, a person does something.
CALLS = (
    *("open", "stat", "lstat", "mkdir", "rmdir", "rename", "replace", "link", "symlink"),
    *("unlink", "remove", "chown", "lchown", "chmod", "setxattr", "removexattr"),
    *("getxattr", "readlink", "listdir", "scandir", "utime", "fchown", "fchmod", "truncate", "ftruncate"),
)
TO_A_DIRECTORY, TO_A_FILE, SECOND_NAME, FIFO, MOVED = (
    "link to a directory",
    "link to a file",
    "second name",
    "FIFO",
    "moved",
)
KINDS = (TO_A_DIRECTORY, TO_A_FILE, SECOND_NAME, FIFO, MOVED)
WEI = 1500


class Steps:
    """Counts the calls of a program to the system, and acts before one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stand before each call; nothing is counted yet."""
        self._at: int | None = None
        self._act: Callable[[], None] = lambda: None
        self._counting = False
        self.count = 0
        for name in CALLS:
            monkeypatch.setattr(os, name, self._before(getattr(os, name)))
        monkeypatch.setattr(io, "open", self._before(io.open))  # pathlib's

    def _before(self, real: Any) -> Any:
        def called(*arguments: Any, **named: Any) -> Any:
            if self._counting:
                self._counting = False
                self.count += 1
                if self.count == self._at:
                    self._act()
                self._counting = True
            return real(*arguments, **named)

        return called

    @contextlib.contextmanager
    def counted(self, at: int | None = None, act: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Count what is called in here; act before the call of this number."""
        self.count, self._at, self._act, self._counting = 0, at, act, True
        try:
            yield
        finally:
            self._counting = False


class Victims:
    """What is root's alone: a directory like /etc with files, and a private directory that the person may move."""

    def __init__(self, place: Path) -> None:
        """Make them."""
        self.place = place
        (place / "etc/cron.d").mkdir(parents=True)
        (place / "private").mkdir(0o700)
        (place / "private/secret").write_text("root's secret\n")
        for name, mode in (("shadow", 0o640), ("ld.so.preload", 0o644), ("cron.d/job", 0o600)):
            (place / "etc" / name).write_text(f"root's {name}\n")
            (place / "etc" / name).chmod(mode)
        self._files = {path.lstat().st_ino: path for path in place.rglob("*")}
        self._before = self._seen(place)

    def swap(self, path: Path, kind: str) -> None:
        """Put another thing in the place of a path, as who may change the names in its directory."""
        if not path.parent.is_dir() or path.parent.is_symlink():
            return
        if os.path.lexists(path):
            path.rename(path.with_name(f".aside-{path.name}"))
        if kind == SECOND_NAME:
            path.hardlink_to(self.place / "etc/shadow")
        elif kind == MOVED:
            (self.place / "private").rename(path)
        else:
            os.mkfifo(path) if kind == FIFO else path.symlink_to(
                self.place / ("etc" if kind == TO_A_DIRECTORY else "etc/shadow")
            )
            os.lchown(path, WEI, WEI)

    def changed(self, top: Path) -> list[str]:
        """Return what of root's is no longer as it was; what was moved is found below top."""
        now = self._seen(top)
        return [
            f"{self._files[one]}: {was}, now {now.get(one)}" for one, was in self._before.items() if now.get(one) != was
        ]

    def _seen(self, top: Path) -> dict[int, Any]:
        found = {}
        for path in top.rglob("*"):
            status = path.lstat()
            if status.st_ino in self._files:
                content: Any = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
                if stat.S_ISDIR(status.st_mode) and self._files[status.st_ino].name != "private":
                    content = sorted(one.name for one in path.iterdir())
                found[status.st_ino] = (oct(status.st_mode), status.st_uid, status.st_gid, content)
        return found
