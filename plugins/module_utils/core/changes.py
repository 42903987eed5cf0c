# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module changes, as it returns it: {action, what} for each thing. The preview shows it.

The actions are those of docs/preview.schema.json.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Changes = list[dict[str, str]]


def changes(**actions: Iterable[str]) -> Changes:
    """Return {action, what} for each thing that an action, the name of an argument, applies to."""
    return [{"action": action, "what": what} for action, things in actions.items() for what in things]


def of_files(texts: Mapping[str, str | None]) -> Changes:
    """Return the changes of files, by the text that each path gets; None, like empty, means no file."""
    return changes(write=[path for path in texts if texts[path]], delete=[path for path in texts if not texts[path]])
