# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values of all options on one host: what is set there, or else the default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.options.known import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.gpulab.node.plugins.plugin_utils.options.option import Option

# The words that Ansible's filter bool takes for a boolean: -e name=true gives text.
BOOLEANS = {
    **dict.fromkeys(("yes", "true", "on", "1"), True),
    **dict.fromkeys(("no", "false", "off", "0"), False),
}


class Values(Mapping[str, Any]):
    """A value by the name of its option, looked up when somebody asks for it."""

    def __init__(self, look_up: Callable[[str], Any], defaults: Mapping[str, Any] | None = None) -> None:
        """Take what returns the value that an option has on the host; None where it is not set there, or null.

        defaults are for options that are not set there, in place of what their argument specs say.
        """
        self._look_up = look_up
        self._defaults = defaults or {}
        self._options = load().options
        self._found: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """Return a value. Raises KeyError for an unknown name."""
        if name not in self._found:
            option, given = self._options[name], self._look_up(name)
            given = self._defaults.get(name, option.default) if given is None else given
            self._found[name] = of_option(option, given)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        """Walk through the names of all options."""
        return iter(self._options)

    def __len__(self) -> int:
        """Return the number of options."""
        return len(self._options)


def complete(given: Mapping[str, Any]) -> Values:
    """Return all values, those not given (or null) with their defaults. Raises KeyError for an unknown name."""
    unknown = [name for name in given if name not in load().options]
    if unknown:
        raise KeyError(*unknown)
    return Values(given.get)


def of_nulls(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of the options that are null: Ansible takes null only for an option without a default."""
    known = load().options
    unset = (known[name] for name, value in given.items() if value is None and name in known)
    return {option.name: option.default for option in unset if option.default is not None}


def of_option(option: Option, value: Any) -> Any:
    """Return a value as its option means it: words that are booleans, and booleans that are words of a choice."""
    if option.type == "bool":
        return boolean(value)
    word = str(value).lower()
    return word if isinstance(value, bool) and word in option.choices else value


def boolean(value: Any) -> Any:
    """Return the boolean that a word stands for, and any other value as it is."""
    return BOOLEANS.get(value.lower(), value) if isinstance(value, str) else value
