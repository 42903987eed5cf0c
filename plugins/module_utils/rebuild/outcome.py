# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a work of a rebuild did, or would do, and what did not come back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Outcome:
    """What a work changes, what it could not bring back, and lines for a diff, before and after; no secret is in it."""

    changes: list[dict[str, str]] = field(default_factory=list)
    missing: list[dict[str, str]] = field(default_factory=list)
    diff: list[dict[str, str]] = field(default_factory=list)

    def change(self, action: str, what: str) -> None:
        """Note a change; action is one of docs/preview.schema.json."""
        self.changes.append({"action": action, "what": what})

    def lack(self, section: str, name: str, why: str) -> None:
        """Note what does not come back."""
        self.missing.append({"section": section, "name": name, "why": why})

    def show(self, name: str, before: str, after: str) -> None:
        """Note how something looks before and after."""
        if before != after:
            self.diff.append({"before_header": name, "after_header": name, "before": before, "after": after})

    def result(self, **further: Any) -> dict[str, Any]:
        """Return it as a module does."""
        return {
            "changed": bool(self.changes),
            "changes": self.changes,
            "missing": self.missing,
            "diff": self.diff,
            **further,
        }
