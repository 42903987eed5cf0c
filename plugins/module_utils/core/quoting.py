# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values in files of other programs: for each format, one function that quotes a value.

What a format cannot hold is refused (GPULAB-I032), so that a value is never more than one value. No message shows the
value: it may be a secret. No I/O happens here.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.values import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

_WORD = re.compile(r"[^\s]+")


def problem(text: str) -> str | None:
    """Return why no line of a file can hold a text; None where one can."""
    for character in text:
        if character in "\n\r\u2028\u2029\x85":
            return "a line break"
        if character == "\0":
            return "a NUL character"
        if unicodedata.category(character) in ("Cc", "Cs"):
            return f"the control character U+{ord(character):04X}"
    return None


def quoted(value: Any, file_format: str, option: str) -> str:
    """Return a value as a file of this format holds it. Raises Refusal I032, KeyError for an unknown format.

    option is where the value comes from, for the message.
    """
    text = str(value)
    wrong = problem(text) or _EXCLUDED.get(file_format, _nothing)(text)
    if wrong:
        raise refuse("I032", option=option, format=file_format, problem=wrong)
    return FORMATS[file_format](text)


def _apt_conf(text: str) -> str:
    """Quote a value, which APT decodes like an address only where something stands outside of its quotes."""
    if '"' not in text:
        return f'"{text}"'
    return '"' + text.replace("%", "%25").replace('"', '"%22"') + '"'


def _apt_name(text: str) -> str:
    """Quote a part of an option's name, which is decoded like an address; "//" would begin a comment."""
    return quote(text, safe=":*")


def _modprobe(text: str) -> str:
    """Quote a value: kmod takes a backslash away, and the kernel the quotes around it. See modprobe.d(5)."""
    doubled = text.replace("\\", "\\\\")
    return f'"{doubled}"' if re.search(r"\s", text) or not text else doubled


def _systemd(text: str) -> str:
    """Quote a word. See systemd.syntax(7), and the specifiers in systemd.unit(5)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _plain(text: str) -> str:
    return text


def _nothing(_text: str) -> str | None:
    return None


def _quote(text: str) -> str | None:
    return "a double quote" if '"' in text else None


def _blank_end(text: str) -> str | None:
    return "a space at its start or end" if text != text.strip() else None


def _no_parameter(text: str) -> str | None:
    return (
        None
        if re.fullmatch(r"[A-Za-z0-9_.-]+", text)
        else "a character that is not allowed in a module parameter's name"
    )


def _no_word(text: str) -> str | None:
    return None if _WORD.fullmatch(text) else "a space, or no text at all"


FORMATS: dict[str, Callable[[str], str]] = {
    "apt.conf": _apt_conf,
    "apt.conf name": _apt_name,
    "deb822 word": _plain,
    "dnf.conf": _plain,
    "modprobe.d": _modprobe,
    "modprobe.d name": _plain,
    "pip.conf": _plain,
    "shell": shlex.quote,
    "systemd": _systemd,
}
_EXCLUDED: dict[str, Callable[[str], str | None]] = {
    "apt.conf name": _no_word,
    "deb822 word": _no_word,
    "dnf.conf": _blank_end,
    "modprobe.d": _quote,
    "modprobe.d name": _no_parameter,
    "pip.conf": _blank_end,
}
