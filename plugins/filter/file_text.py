# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of a file on the controller, as a filter, so that a list of paths maps to a list of texts."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

from ansible.errors import AnsibleFilterError


def file_text(path: str) -> str:
    """Return the text (UTF-8) of a file on the controller. Raises AnsibleFilterError when it cannot be read."""
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, RuntimeError) as error:
        message = f"cannot read {path}: {error}"
        raise AnsibleFilterError(message) from error


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[[str], str]]:
        """Return the filters by name."""
        return {"file_text": file_text}
