# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What earlier runs of a rebuild brought back, kept on the node: what people change of it afterwards stays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core import records

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DIRECTORY = Path("/var/lib/gpulab/restore")  # for root alone
PLACE = DIRECTORY / "restored.json"
_MOUNT = "fstab "
_LOST = "Without it, a rebuild does not know what it has brought back already."


class Restored(TypedDict):
    """What came back."""

    accounts: list[str]
    groups: list[str]
    files: list[str]
    pending: list[str]


NAMES = tuple(Restored.__annotations__)


def read(place: Path = PLACE) -> dict[str, set[str]]:
    """Return names of accounts and groups, and paths of files: those that came back, and pending ones.

    After pending ones came back, something still has to run. Raises Refusal H220 where the record is damaged.
    """
    read = records.read(place, Restored, None, _LOST)
    found: Mapping[str, Any] = read or {}
    return {name: set(found.get(name, ())) for name in NAMES}


def name_of_mount(where: str) -> str:
    """Return the name by which a line of /etc/fstab stands among the files."""
    return f"{_MOUNT}{where}"


def mounted(place: Path = PLACE) -> list[str]:
    """Return the places of /etc/fstab that came back. Raises Refusal H220."""
    return sorted(one[len(_MOUNT) :] for one in read(place)["files"] if one.startswith(_MOUNT))


def add(place: Path = PLACE, **things: Any) -> None:
    """Add names or paths."""
    known = read(place)
    _write(place, {name: known[name] | set(things.get(name, ())) for name in NAMES})


def set_pending(paths: Iterable[str], place: Path = PLACE) -> None:
    """Note after which paths something has to run, beside those that are noted already; none ends that."""
    known, new = read(place), set(paths)
    _write(place, {**known, "pending": known["pending"] | new if new else set()})


def _write(place: Path, things: dict[str, set[str]]) -> None:
    if any(things.values()) or place.exists():
        os.sync()  # what is said to be there has to be on the disk
        records.write(place, {name: sorted(found) for name, found in things.items()}, 0o600)
