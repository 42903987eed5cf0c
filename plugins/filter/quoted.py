# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter for templates: quote a value for the format of another program's file."""

from __future__ import annotations

from typing import Any, Callable

from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.node.plugins.module_utils.core import quoting
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal


def quoted(value: Any, file_format: str, option: str) -> str:
    """Return the value, quoted. Raises AnsibleFilterError where the format cannot hold it."""
    try:
        return quoting.quoted(value, file_format, option)
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from refusal


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """Return the filters by name."""
        return {"quoted": quoted}
