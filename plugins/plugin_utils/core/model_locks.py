# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The locks of models that the inventory names, read on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.models import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def read_locks(repositories: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the texts of the locks by NAME@REVISION; those without one are left out. Raises Refusal M010."""
    texts = {}
    for one in repositories:
        if one.get("lock"):
            try:
                texts[f"{one.get('name')}@{one.get('revision')}"] = Path(one["lock"]).expanduser().read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise refuse("M010", problems=f"the lock {one['lock']} cannot be read: {error}") from error
    return texts
