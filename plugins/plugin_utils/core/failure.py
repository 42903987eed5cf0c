# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a task that refuses for several reasons at once."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal


def failure(refusals: Sequence[Refusal]) -> dict[str, Any]:
    """Return the failed result: a line for each refusal, and a single one as data too, as other tasks have it."""
    result = {"changed": False, "failed": True, "msg": "\n".join(map(str, refusals))}
    return {**result, "refusal": asdict(refusals[0])} if len(refusals) == 1 else result
