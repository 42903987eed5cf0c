# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps a hub from a node, as a filter."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Callable

from ansible_collections.gpulab.node.plugins.plugin_utils.jupyter import hub

if TYPE_CHECKING:
    from collections.abc import Mapping


def hub_faults(seen: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return each refusal with its code, cause and remedy."""
    return [asdict(refusal) for refusal in hub.faults(seen)]


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"hub_faults": hub_faults}
