# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Captured files of APT and of jobs, put back as they were: kind, content, mode and owner.

An owner is found by its name first: packages choose the number of a system's account at each installation.
"""

from __future__ import annotations

import base64
import contextlib
import grp
import os
import pwd
import secrets
import stat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FILE, LINK, DIRECTORY = "file", "link", "directory"


def differing(entries: Iterable[dict[str, Any]], root: Path) -> list[dict[str, Any]]:
    """Return the entries of which the node has something else, or nothing.

    An entry is one of the manifest's files; data has the content of a file, in Base64.
    """
    return [entry for entry in entries if not _is_there(entry, _place(entry, root))]


def put(entries: Iterable[dict[str, Any]], root: Path) -> None:
    """Let the node have each entry; directories first. Raises OSError."""
    for entry in sorted(entries, key=lambda one: (one["path"].count("/"), one["path"])):
        place = _place(entry, root)
        place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if entry["kind"] == DIRECTORY:
            _put_directory(entry, place)
        else:
            _put_file(entry, place)


def text(entry: dict[str, Any]) -> str:
    """Return the content of a captured file as text; empty for a link or a directory."""
    return base64.b64decode(entry.get("data", "")).decode("utf-8", "replace")


def _place(entry: dict[str, Any], root: Path) -> Path:
    return root / entry["path"].lstrip("/")


def _is_there(entry: dict[str, Any], place: Path) -> bool:
    try:
        status = place.lstat()
    except OSError:
        return False
    if entry["kind"] == LINK:
        return stat.S_ISLNK(status.st_mode) and os.readlink(place) == entry["target"]  # noqa: PTH115 - as text
    rights = stat.S_IMODE(status.st_mode) == int(entry["mode"], 8) and _owned(entry, status)
    if entry["kind"] == DIRECTORY:
        return stat.S_ISDIR(status.st_mode) and rights
    return stat.S_ISREG(status.st_mode) and rights and place.read_bytes() == base64.b64decode(entry["data"])


def _owned(entry: dict[str, Any], status: os.stat_result) -> bool:
    return os.geteuid() != 0 or (status.st_uid, status.st_gid) == owner(entry)


def owner(entry: dict[str, Any]) -> tuple[int, int]:
    """Return the numbers of user and group."""
    uid, gid = entry["uid"], entry["gid"]
    with contextlib.suppress(KeyError, TypeError):
        uid = pwd.getpwnam(entry["owner"]).pw_uid
    with contextlib.suppress(KeyError, TypeError):
        gid = grp.getgrnam(entry["group"]).gr_gid
    return uid, gid


def _put_directory(entry: dict[str, Any], place: Path) -> None:
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        place.unlink()
    place.mkdir(exist_ok=True)
    _give(entry, place)
    place.chmod(int(entry["mode"], 8))


def _put_file(entry: dict[str, Any], place: Path) -> None:
    """Replace a file or a link in one step: no program reads half of it."""
    if place.is_dir() and not place.is_symlink():
        place.rmdir()  # never what people put into it
    draft = place.with_name(f".{secrets.token_hex(8)}.gpulab")
    try:
        if entry["kind"] == LINK:
            draft.symlink_to(entry["target"])
            _give(entry, draft)
        else:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(base64.b64decode(entry["data"]))
            _give(entry, draft)
            draft.chmod(int(entry["mode"], 8))
        draft.replace(place)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def _give(entry: dict[str, Any], place: Path) -> None:
    if os.geteuid() == 0:
        os.chown(place, *owner(entry), follow_symlinks=False)
