# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What earlier runs of a rebuild brought back, kept on the node: what people change of it afterwards stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core import records

DIRECTORY = Path("/var/lib/gpulab/restore")  # for root alone
PLACE = DIRECTORY / "restored.json"
_SHAPE = {"accounts": [str], "groups": [str], "files": [str]}
_LOST = "Without it, a rebuild does not know what it has brought back already."


def read(place: Path = PLACE) -> dict[str, set[str]]:
    """Return names of accounts and groups, and paths of files. Raises Refusal H220 where it is damaged."""
    found: dict[str, Any] = records.read(place, _SHAPE, {}, _LOST)
    return {name: set(found.get(name, ())) for name in _SHAPE}


def add(place: Path = PLACE, **things: Any) -> None:
    """Add names or paths."""
    known = read(place)
    merged = {name: sorted(known[name] | set(things.get(name, ()))) for name in _SHAPE}
    if merged != {name: sorted(known[name]) for name in _SHAPE}:
        records.write(place, merged, 0o600)
