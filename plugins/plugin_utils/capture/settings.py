# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For the record: what the inventory set for a host, as it is written there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ansible.parsing.vault import EncryptedString
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import HIDDEN, for_people
from ansible_collections.gpulab.node.plugins.plugin_utils import options

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.options import Option


def as_written(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return gpulab's options that differ from their defaults. Templates stay templates, and secrets are hidden."""
    known = options.load().options
    return {
        name: _plain(variables[name], option)
        for name, option in known.items()
        if name in variables and not _is_default(variables[name], option.default)
    }


def _is_default(value: Any, default: Any) -> bool:
    """Tell whether a value is the default, or the roles' template that asks for it."""
    return value == default or (isinstance(value, str) and "gpulab.node.option_default" in value)


def _plain(value: Any, option: Option) -> Any:
    if isinstance(value, EncryptedString) or (option.form and option.form.secret):
        return HIDDEN
    fields = {field.name: field for field in option.fields}
    if isinstance(value, Mapping):
        return {str(name): _plain(one, fields.get(name, option)) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one, option) for one in value]
    return for_people(str(value)) if isinstance(value, str) else value
