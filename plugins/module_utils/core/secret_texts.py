# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets in texts and files, by their forms (catalog/secret_forms.yml). No I/O happens here.

A form is tried where one of its words is in the text: most texts have none, and to look for a word takes no time.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.secret_forms import FORMS

if TYPE_CHECKING:
    from collections.abc import Iterator

HIDDEN = "***"
HIDE = "hide"  # the group of a pattern that is the secret itself
# name, words, pattern, flags, whether it is shown
_WORDS = tuple((number, tuple(word.encode("latin-1") for word in form[1])) for number, form in enumerate(FORMS))


def holds(content: bytes) -> bool:
    """Tell whether there is a key, a password or a token in a file, as far as its form shows it."""
    small = content.lower()
    return any(
        _bytes(number).search(small if FORMS[number][3] else content)
        for number, words in _WORDS
        if any(word in small for word in words)
    )


def hidden(text: str, *, of_command: bool = False) -> str:
    """Return a text without what can be nothing but a secret; of a command, without what is one in doubt, too."""
    small = text.lower()
    for number, (_name, words, pattern, _flags, is_shown) in enumerate(FORMS):
        if (is_shown or (of_command and f"(?P<{HIDE}>" in pattern)) and any(word in small for word in words):
            text = _text(number).sub(_without, text)
    return text


def found(text: str) -> Iterator[str]:
    """Yield what can be nothing but a secret in a text."""
    small = text.lower()
    for number, (_name, words, _pattern, _flags, is_shown) in enumerate(FORMS):
        if is_shown and any(word in small for word in words):
            yield from (match[_group(match)] for match in _text(number).finditer(text) if match[_group(match)])


def _without(match: re.Match[str]) -> str:
    start, end = (at - match.start() for at in match.span(_group(match)))
    return match[0][:start] + (HIDDEN if start < end else "") + match[0][end:]


def _group(match: re.Match[str]) -> str | int:
    return HIDE if HIDE in match.re.groupindex else 0


@cache
def _bytes(number: int) -> re.Pattern[bytes]:
    """Return a form for bytes; one for any case is tried on small letters, which is much faster than its flag."""
    return re.compile(FORMS[number][2].encode("ascii"), re.MULTILINE)


@cache
def _text(number: int) -> re.Pattern[Any]:
    _name, _words, pattern, flags, _shown = FORMS[number]
    return re.compile(pattern, flags | re.MULTILINE)
