# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text as people may see it: without secrets, and without control codes for a terminal.

Texts from a node (its os-release, a package's message, the kernel's log) may hold escape codes. No I/O happens here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import secret_texts
from ansible_collections.gpulab.node.plugins.module_utils.core.secret_texts import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, the cursor
    r"|[\x1b\x90\x98\x9d-\x9f][\]PX^_]?[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # strings: a window's title, a link
    r"|\x1b[ -/]*."  # such as ESC ( B, which asks for ASCII
)
# A tab and a line break are text; so is what lies between the C0 and C1 codes. Bidirectional marks reorder a line.
_CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# What may be secret in an address: all before its last @, conda's token in the path, and fields that say so. A password
# may hold every character but a space; a "/" in it ends the host, and is written %2F. The user of SSH alone is none.
_SECRETS = re.compile(
    r"(?<=://)(?!(?<=ssh://)[^\s/@:]+@)(?P<user>[^\s/@]+(?:@[^\s/@]+)*)(?=@)"
    r"|(?<=/t/)(?P<token>[^\s/]{8,})(?=/)"
    r"|(?<=[?&])(?P<field>(?:[\w-]*(?:token|secret|passw|api_?key)[\w-]*)=[^\s&#\"']+)",
    re.IGNORECASE,
)
_NAMES = re.compile(r"token|secret|passw|api_?key", re.IGNORECASE)
TOKEN = 20  # characters: a name alone is shorter
SHORTEST = 6  # a shorter value would be hidden in words that have nothing to do with it


def plain(text: str) -> str:
    """Return a text without control characters and escape sequences; tabs and line breaks stay."""
    return _CONTROLS.sub("", _SEQUENCES.sub("", text.replace("\r\n", "\n")))


def masked(text: str) -> str:
    """Return a text without secrets: those in addresses, and what has the form of one."""
    return secret_texts.hidden(_SECRETS.sub(HIDDEN, text))


def for_people(text: str) -> str:
    """Return a text as it may be shown."""
    return masked(plain(text))


def one_line(text: str) -> str:
    """Return a text for people in one line; bytes that are not UTF-8 and control characters are escapes."""
    return for_people(text if text.isprintable() else text.encode("unicode_escape", "backslashreplace").decode("ascii"))


def counted(number: int, name: str) -> str:
    """Return a number with the name of what it counts, in the plural where it is not one."""
    return f"{number} {name}{'s' if number != 1 else ''}"


def first(texts: Collection[str], most: int, separator: str = ", ") -> str:
    """Return the first of some texts as one, and how many more there are."""
    more = len(texts) - most
    return separator.join(list(texts)[:most]) + (f" and {more} more" if more > 0 else "")


def plain_values(value: Any) -> Any:
    """Return data with each text in it, keys too, as plain text."""
    return _each(plain, value)


def for_people_all(value: Any) -> Any:
    """Return data with each text in it as it may be shown."""
    return _each(for_people, value)


def _each(change: Callable[[str], str], value: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {_each(change, key): _each(change, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_each(change, item) for item in value]
    return value


def has_secret(text: str) -> bool:
    """Tell whether an address in a text has a password, or a token, which may stand alone before its @."""
    found = (match["user"] for match in _SECRETS.finditer(text))
    return any(user is None or ":" in user or len(user) >= TOKEN for user in found)


def secrets(value: Any, name: str = "") -> Iterator[str]:
    """Yield what no message may show of a module's parameters: secrets in addresses, and values that are called so."""
    if isinstance(value, str):
        for match in _SECRETS.finditer(value):
            yield match[0] + ("@" if match["user"] else "")
        yield from secret_texts.found(value)
        if _NAMES.search(name) and len(value) >= SHORTEST:
            yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from secrets(item, str(key))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from secrets(item, name)
