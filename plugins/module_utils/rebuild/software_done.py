# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the rebuild of this installation is over, as the node notes it: what people change afterwards stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core import records

if TYPE_CHECKING:
    from pathlib import Path

PLACE = "var/lib/gpulab/rebuild/done.json"  # until the next reinstall


class Done(TypedDict):
    """That a node came back, and from which capture."""

    capture: str


def read(root: Path) -> str:
    """Return the name of the capture that the node came back from; empty before. Raises Refusal H220."""
    found = records.read(root / PLACE, Done, None)
    return found["capture"] if found else ""


def write(root: Path, capture: str) -> None:
    """Note that the node came back, unless that is noted. Raises Refusal H221."""
    if not read(root):
        records.write(root / PLACE, {"capture": capture})
