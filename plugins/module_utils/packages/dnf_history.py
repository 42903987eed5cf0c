# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages people asked for, by dnf's history of its work: dnf itself writes logs whenever it is asked."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path

PATH = "/var/lib/dnf/history.sqlite"
# As libdnf's Swdb resolves reasons: the last of a package's actions counts, less those on the version that gives way.
_QUERY = """
    SELECT rpm.name, rpm.arch, ti.action, ti.reason
    FROM trans_item ti JOIN trans t ON ti.trans_id = t.id JOIN rpm USING (item_id)
    WHERE t.state = 1 AND ti.action NOT IN (3, 5, 7, 10)
    ORDER BY ti.trans_id
"""
_MEMORY = "/dev/shm"  # noqa: S108 - a directory that only this process may enter is made in it
_REMOVED = 8
_AUTOMATIC = (1, 4)  # as a dependency, or as a weak one


def automatic(path: Path) -> set[tuple[str, str]] | None:
    """Return the packages that only came as dependencies, with their architectures; None where it cannot be read."""
    try:
        import sqlite3  # noqa: PLC0415 - some Pythons are built without it
    except ImportError:
        return None
    found: dict[tuple[str, str], bool] = {}
    try:
        # A reader of the history itself would change the file beside it, by which SQLite's users lock each other out.
        with tempfile.TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None) as directory:
            copy = Path(directory) / path.name
            shutil.copyfile(path, copy)
            log = path.with_name(f"{path.name}-wal")
            if log.is_file():
                shutil.copyfile(log, copy.with_name(log.name))
            with contextlib.closing(sqlite3.connect(copy)) as history:
                for name, architecture, action, reason in history.execute(_QUERY):
                    found[name, architecture] = action != _REMOVED and reason in _AUTOMATIC
    except (OSError, sqlite3.Error):
        return None
    return {package for package, came in found.items() if came}
