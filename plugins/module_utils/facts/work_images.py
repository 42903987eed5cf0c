# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The images of work that gpulab keeps: whether each is there, and starts without a GPU."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.containers import work_store
from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, Child, Emit
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import WorkImages


class WorkImagesQuery:
    """The facts ``work_images``; they are looked at in a child, for a dead disk answers nobody."""

    def __init__(self, node: Node, seconds: float) -> None:
        """Begin to look, where there is a record of images."""
        try:
            self._kept = work_store.read_record(node.path(str(work_store.RECORD)))
        except Refusal:  # the role replaces it
            self._kept = work_store.Record()
        top = node.path(self._kept.directory)
        self._child = Child(partial(_look, top, self._kept.images), seconds) if self._kept.images else None

    def facts(self) -> WorkImages | None:
        """Return what there is; None where gpulab keeps no images."""
        if self._child is None:
            return None
        answers = self._child.wait() == DONE
        return {
            "directory": self._kept.directory,
            "answers": answers,
            "images": self._child.messages if answers else [],
        }


def _look(top: Path, images: list[work_store.Kept], emit: Emit) -> None:
    for image in images:
        folder = image.digest.replace(":", "-")
        wrong = _wrong(top, image.name, folder)
        emit(
            {
                "name": image.name,
                "digest": image.digest,
                "driver": image.driver,
                "problem": wrong or work_store.start(top / folder / "rootfs", image.test),
                "architecture": "" if wrong else _said(top / folder).get("architecture", ""),
            }
        )


def _wrong(top: Path, name: str, folder: str) -> str:
    """Return what of an image is not as it was brought; empty where all is."""
    wrong = work_store.problem(top, folder)
    if wrong:
        return wrong
    if _said(top / folder).get("digest") != folder.replace("-", ":", 1):
        return f"{top / folder} holds another image"
    return "" if work_store.WorkStore(top).names().get(name) == folder else f"{top / name} does not lead to it"


def _said(folder: Path) -> dict[str, str]:
    try:
        return dict(json.loads((folder / "image.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}
