# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpulab keeps of the store beside it: where it is, what it holds, and when each blob was last read whole."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import locks, records

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD = Path("/var/lib/gpulab/model-store.json")
LOST = "Remove it: the next run writes another one, and the nights read all blobs again"


@dataclass
class Checked:
    """When a blob was read whole (seconds since 1970), its size in bytes, and whether it was another one."""

    at: float
    size: int
    damaged: bool = False


@dataclass
class Held:
    """A repository at a commit that the store holds by the inventory."""

    name: str
    revision: str


@dataclass
class Record:
    """The record; blobs are named FOLDER/SHA-256."""

    directory: str = ""
    repositories: list[Held] = field(default_factory=list)
    blobs: dict[str, Checked] = field(default_factory=dict)


def read(path: Path | None = None) -> Record:
    """Return the record; an empty one where there is none. Raises Refusal H220."""
    return records.read(path or RECORD, Record, Record(), LOST)


@contextlib.contextmanager
def changing() -> Iterator[Record]:
    """Hold the record for a moment, and write what the caller makes of it. Raises Refusal S022, H220 and H221."""
    with locks.held(locks.place("model-store")):
        record = read()
        yield record
        records.write(RECORD, asdict(record))
