# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many workers pay to load data from a directory, by the DataLoader of a node's own PyTorch, and what limits them.

The directory's files are only read. A database of LMDB is written to a directory of its own beside them, where that is
permitted and there is room, and is removed.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.active import loading_program, mounts
from ansible_collections.gpulab.node.plugins.module_utils.active.programs import Program, source
from ansible_collections.gpulab.node.plugins.module_utils.core import beneath
from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, Child, Emit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.active.shapes import Ended, Loading
SECONDS = 1.5  # of each number of workers, and source
MOST_FILES = 2000
ROOM = 2 << 30  # bytes that stay free beside a database
PAYS = 0.9  # the least number of workers with this share of the best rate
AS_FAST = 0.8  # loading from files is limited by the processors where it has this share of loading from memory
STORAGE, PROCESSORS = "storage", "processors"


def candidates(cores: int, gpus: int) -> list[int]:
    """Return the numbers of workers to try: up to one GPU's share of the cores."""
    share = max(1, cores // max(1, gpus))
    return sorted({1 << power for power in range(share.bit_length()) if 1 << power <= share} | {share})


def measure(python: str, path: str, numbers: list[int], gpu: str, seconds: float) -> Loading:
    """Measure a directory. gpu is the UUID of an idle GPU, empty for none. Raises OSError where python does not start.

    Returns path and state; when done: rates, samples a second by source (memory, files, memmap, lmdb) and number of
    workers; workers, the number that pays; feeds, the rate of files with it; eats, what one GPU trains with, None
    where none was tried; limit, what keeps feeds below eats: storage, processors, or None.
    """
    child = Child(lambda emit: _list(emit, path), seconds)
    if child.wait() != DONE or not child.messages:
        return {"path": path, "state": "skipped", "reason": "its files cannot be listed"}
    paths: list[str] = child.messages[0]
    if not paths:
        return {"path": path, "state": "skipped", "reason": "it contains no files"}
    with tempfile.TemporaryDirectory() as own, _beside(path) as beside:
        listed = Path(own) / "files"
        listed.write_text("\n".join(paths), encoding="utf-8", errors="surrogateescape")
        arguments = [beside or "-", str(listed), ",".join(map(str, numbers)), str(SECONDS)]
        environment = {"CUDA_VISIBLE_DEVICES": gpu, "OMP_NUM_THREADS": "1"}
        record = Program([python, "-", *arguments], seconds, source(loading_program), environment).finish()
    return {"path": path, **summary(record)}


def _list(emit: Emit, path: str) -> None:
    """Send the paths of files that can be read, the largest first."""
    found, _left_out = mounts.listing(path)
    emit([name for size, name in found[:MOST_FILES] if size and "\n" not in name and os.access(name, os.R_OK)])


@contextmanager
def _beside(path: str) -> Iterator[str | None]:
    """Make a directory of its own below a path, and remove it; None where none can be made or there is no room."""
    with ExitStack() as stack:
        way = None
        with suppress(OSError):
            sizes = os.statvfs(path)
            if sizes.f_bavail * sizes.f_frsize > ROOM:
                top = stack.enter_context(beneath.directory(beneath.ROOT, path))
                place = beneath.Place(top, f"{beneath.DRAFT}{secrets.token_hex(8)}", roots=False)
                place.make()
                held = stack.enter_context(place.held())
                if beneath.is_roots(os.fstat(held)):  # and not one that somebody has put in its place
                    stack.callback(_remove, place, held)
                    way = f"/proc/{os.getpid()}/fd/{held}"
        yield way


def _remove(place: beneath.Place, held: int) -> None:
    """Remove a directory that is held, and all in it."""
    for one in list(Path(beneath.way(held)).iterdir()):
        one.unlink() if one.is_symlink() or not one.is_dir() else shutil.rmtree(one)
    with suppress(OSError):  # people may have put another directory in its place
        os.rmdir(place.name, dir_fd=place.directory)


def summary(record: Ended) -> Loading:
    """Return what a program's record says: see measure."""
    rates: dict[str, dict[str, float]] = {}
    eats: float | None = None
    more: Any = {}  # why a source could not be tried, by its name
    for line in record.pop("output", "").splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if "source" in said:
            rates.setdefault(said["source"], {})[str(said["workers"])] = said["rate"]
        eats = said.get("eats", eats)
        more |= {key: said[key] for key in said if key.endswith("_failed")}
    if record["state"] != "done":
        return {**record, "rates": rates}
    workers = pays(rates["files"])
    feeds = rates["files"][str(workers)]
    return {
        **record,
        **more,
        "rates": rates,
        "workers": workers,
        "feeds": feeds,
        "eats": eats,
        "limit": _limit(rates, eats),
    }


def pays(rates: dict[str, float]) -> int:
    """Return the least number of workers that is about as fast as the best."""
    best = max(rates.values())
    return min(int(workers) for workers, rate in rates.items() if rate >= PAYS * best)


def _limit(rates: dict[str, dict[str, float]], eats: float | None) -> str | None:
    best = {source: max(rates[source].values()) for source in ("files", "memory")}
    if eats is None or best["files"] >= eats:
        return None
    return PROCESSORS if best["files"] >= AS_FAST * best["memory"] else STORAGE


def kept(records: list[Loading], former: int | None) -> int | None:
    """Return the number of workers that all measured directories together ask for; None where nothing was measured.

    The former one stays where it is still about as fast as the best everywhere.
    """
    rates = [record["rates"]["files"] for record in records if record.get("state") == "done"]
    if not rates:
        return former
    if former and all(one.get(str(former), 0) >= PAYS * max(one.values()) for one in rates):
        return former
    return max(map(pays, rates))
