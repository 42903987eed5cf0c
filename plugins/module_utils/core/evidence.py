# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a role answers for on a node: its modules note it while they work, and the role's receipt takes it over.

An item is "kind:name"; module_utils/receipts/items.py has the kinds, and reads what an item is now.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import records, run_lock

if TYPE_CHECKING:
    from collections.abc import Iterable

NOTES = Path("/run/gpulab/evidence.json")


def note(module: Any, **things: Iterable[str]) -> None:
    """Note what a module (an AnsibleModule) answers for: names by their kind, the name of an argument.

    Check mode notes nothing, and neither does a task outside of a run that works on this node.
    """
    if module.check_mode or os.geteuid() != 0 or not run_lock.LOCK.exists():
        return
    items = {f"{kind}:{name}" for kind, names in things.items() for name in names}
    records.keep(NOTES, sorted(items.union(records.read(NOTES, list[str], []))))


def set_aside(role: str) -> None:
    """Keep what is noted for a role that goes on later, so that no other role's receipt takes it."""
    records.keep(_aside(role), take(role))


def take(role: str = "") -> list[str]:
    """Return what is noted, and what was set aside for a role; forget it."""
    items: set[str] = set()
    for path in (NOTES, _aside(role)) if role else (NOTES,):
        items.update(records.read(path, list[str], []))
        records.remove(path)
    return sorted(items)


def _aside(role: str) -> Path:
    return NOTES.with_name(f"evidence-{role}.json")
