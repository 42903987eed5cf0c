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
import stat
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import DIRECTORY, FILE, LINK
from ansible_collections.gpulab.node.plugins.module_utils.core import beneath

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.core.beneath import Place
    from ansible_collections.gpulab.node.plugins.module_utils.rebuild.software_asked import Held


def differing(entries: Iterable[Held], root: Path) -> list[Held]:
    """Return the entries of which the node has something else, or nothing."""
    return [entry for entry in entries if not _is_there(entry, root)]


def put(entries: Iterable[Held], root: Path) -> None:
    """Let the node have each entry; directories first. Raises OSError."""
    for entry in sorted(entries, key=lambda one: (one["path"].count("/"), one["path"])):
        with beneath.at(root, entry["path"], make=True) as place:
            if entry["kind"] == DIRECTORY:
                _put_directory(entry, place)
            else:
                _put_file(entry, place)


def text(entry: Held) -> str:
    """Return the content of a captured file as text; empty for a link or a directory."""
    return base64.b64decode(entry.get("data", "")).decode("utf-8", "replace")


def _is_there(entry: Held, root: Path) -> bool:
    try:
        with beneath.at(root, entry["path"]) as place, place.held() as held:
            return _is(entry, place, held)
    except OSError:
        return False


def _is(entry: Held, place: Place, held: int) -> bool:
    status = os.fstat(held)
    if entry["kind"] == LINK:
        return stat.S_ISLNK(status.st_mode) and beneath.link(held) == entry["target"]
    rights = stat.S_IMODE(status.st_mode) == int(entry["mode"], 8) and _owned(entry, status)
    if entry["kind"] == DIRECTORY:
        return stat.S_ISDIR(status.st_mode) and rights
    return stat.S_ISREG(status.st_mode) and rights and place.read() == base64.b64decode(entry["data"])


def _owned(entry: Held, status: os.stat_result) -> bool:
    return os.geteuid() != 0 or (status.st_uid, status.st_gid) == owner(entry)


def owner(entry: Held) -> tuple[int, int]:
    """Return the numbers of user and group."""
    uid, gid = entry["uid"], entry["gid"]
    with contextlib.suppress(KeyError, TypeError):
        uid = pwd.getpwnam(entry["owner"] or "").pw_uid
    with contextlib.suppress(KeyError, TypeError):
        gid = grp.getgrnam(entry["group"] or "").gr_gid
    return uid, gid


def _put_directory(entry: Held, place: Place) -> None:
    status = place.status()
    if status and not stat.S_ISDIR(status.st_mode):
        place.remove()
    place.make()
    with place.held() as held:
        place.give(held, _given(entry))
        os.chmod(beneath.way(held), int(entry["mode"], 8))  # noqa: PTH101 - by a descriptor


def _put_file(entry: Held, place: Place) -> None:
    """Replace a file or a link in one step: no program reads half of it."""
    status = place.status()
    if status and stat.S_ISDIR(status.st_mode):
        os.rmdir(place.name, dir_fd=place.directory)  # never what people put into it
    with place.draft(target=entry["target"] if entry["kind"] == LINK else None) as draft:
        if entry["kind"] == FILE:
            draft.write(base64.b64decode(entry["data"]))
        os.chown(draft.way, *_given(entry))
        if entry["kind"] == FILE:
            os.fchmod(draft.descriptor, int(entry["mode"], 8))
        draft.put()


def _given(entry: Held) -> tuple[int, int]:
    """Return to whom an entry goes; only root gives anything away."""
    return owner(entry) if os.geteuid() == 0 else (-1, -1)
