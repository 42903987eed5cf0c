# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that an operator puts in place of the plan's."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core.quoting import problem
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse


def text(variable: str, name: str, value: Any) -> str:
    """Return a value as it is written into a file. Raises Refusal for one that no line can hold."""
    if isinstance(value, bool) or not isinstance(value, (str, int)) or problem(str(value)):
        raise refuse("P051", variable=variable, name=name, value=value)
    return str(value)
