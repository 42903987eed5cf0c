# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the proof's last test of data loading found on this node; the module gpu_tests keeps it there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import DataLoading

RECORD = Path("/var/lib/gpulab/data-loading.json")


def read(node: Node) -> DataLoading | None:
    """Return the facts ``data_loading``: {"workers"} that pay for one GPU; None where that was not measured."""
    try:
        workers = json.loads(node.text(str(RECORD)))["workers"]
    except (ValueError, LookupError, TypeError):
        return None
    return {"workers": workers} if isinstance(workers, int) and workers > 0 else None
