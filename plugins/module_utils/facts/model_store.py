# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the store of models holds, and what of it is gone or damaged, as far as sizes and the nights tell."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, Child, Emit
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.models import record
from ansible_collections.gpulab.node.plugins.module_utils.models.store import Store
from ansible_collections.gpulab.node.plugins.module_utils.models.wanted import folder_of

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import ModelStore

DAY = 86400.0


class ModelStoreQuery:
    """The facts ``model_store``; the disk is asked in a child, for a dead one answers nobody."""

    def __init__(self, node: Node, seconds: float) -> None:
        """Begin to look, where there is a record of a store."""
        try:
            self._kept = record.read(node.path(str(record.RECORD)))
        except Refusal:  # the role replaces it
            self._kept = record.Record()
        store = Store(node.path(self._kept.directory), self._kept.blobs)
        self._child = Child(partial(_look, store, self._kept), seconds) if self._kept.directory else None

    def facts(self) -> ModelStore | None:
        """Return what there is; None where gpulab keeps no store."""
        if self._child is None:
            return None
        answers = self._child.wait() == DONE
        oldest = min((checked.at for checked in self._kept.blobs.values()), default=None)
        return {
            "directory": self._kept.directory,
            "answers": answers,
            "repositories": self._child.messages if answers else [],
            "unread_days": None if oldest is None else max(0, int((time.time() - oldest) // DAY)),
        }


def _look(store: Store, kept: record.Record, emit: Emit) -> None:
    for held in kept.repositories:
        emit(_repository(store, held))


def _repository(store: Store, held: record.Held) -> dict[str, Any]:
    folder = folder_of(held.name)
    linked = {path: Path(target).name for path, target in store.links(folder, held.revision).items()}
    sizes = {path: _size(store.blob(folder, digest)) for path, digest in linked.items()}
    missing = sorted(path for path, size in sizes.items() if size is None)
    right = {path for path, digest in linked.items() if store.has(folder, digest)}
    return {
        "name": held.name,
        "revision": held.revision,
        "is_there": bool(linked),
        "bytes": sum(size or 0 for size in sizes.values()),
        "missing": missing,
        "damaged": sorted(set(linked) - right - set(missing)),
    }


def _size(path: Path) -> int | None:
    try:
        return path.lstat().st_size
    except OSError:
        return None
