# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a value of a recording may be, and what stands there in place of a name.

A form takes a value and the recording's tokens, and returns what is recorded. It raises MisfitError where the value is
none of its own, and returns what it has once returned as it is. None is never asked about: it is recorded.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Callable

from ansible_collections.gpulab.node.plugins.module_utils.driver import errors, known_errors
from ansible_collections.gpulab.node.plugins.module_utils.nvml import library as nvml
from ansible_collections.gpulab.node.plugins.module_utils.system.hosts_file import is_address

if TYPE_CHECKING:
    Form = Callable[[Any, "Tokens"], Any]

LARGEST = 2**53  # that every reader of JSON and YAML keeps; energies in millijoules are the largest figures
NOT_RECORDED = "not recorded"
LINES = [kind for kind, known in known_errors.LINES.items() if "meaning" in known]  # the others end one of these
NVML_NAMES = {*nvml.ERRORS.values(), "SUCCESS"}


class MisfitError(ValueError):
    """A value that has not its form."""


class Tokens:
    """What stands for the names of one recording: a number for each, counted by kind as they appear.

    Nothing of a name goes into its number, and nothing but this object, which nobody keeps, knows both.
    """

    def __init__(self) -> None:
        """Have met nothing yet."""
        self._numbers: dict[str, dict[Any, int]] = defaultdict(dict)

    def number(self, kind: str, value: Any) -> int:
        """Return the number of a value, the same whenever it is asked for."""
        known = self._numbers[kind]
        return known.setdefault(value, len(known) + 1)


def number(value: Any, _tokens: Tokens) -> int | float:
    """Take a finite number; True is none."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or abs(value) > LARGEST:
        raise MisfitError
    return value


def flag(value: Any, _tokens: Tokens) -> bool:
    """Take true or false."""
    if not isinstance(value, bool):
        raise MisfitError
    return value


def truth(value: Any, _tokens: Tokens) -> bool:
    """Take whether there is something, and not what."""
    return bool(value)


def said(value: Any, _tokens: Tokens) -> str:
    """Take that there was a text, and not which."""
    return NOT_RECORDED if value else ""


def text(pattern: str) -> Form:
    """Return the form of texts that fit a pattern as a whole; of one with a group, the group is recorded."""
    whole = re.compile(pattern, re.ASCII)

    def take(value: Any, _tokens: Tokens) -> str:
        match = whole.fullmatch(value) if isinstance(value, str) else None
        if match is None or is_address(match[whole.groups]):
            raise MisfitError
        return match[whole.groups]

    return take


def word(*words: str, pattern: str = "") -> Form:
    """Return the form of texts of a list, or that fit a pattern."""
    return text("|".join([*map(re.escape, words), *([pattern] if pattern else [])]))


def token(form: str) -> Form:
    """Return the form of names, for each of which a token stands: form, with the name's number in it."""

    def take(value: Any, tokens: Tokens) -> str:
        if not isinstance(value, str):
            raise MisfitError
        return form.format(tokens.number(form, value))

    return take


def process(value: Any, tokens: Tokens) -> int:
    """Take the number of a process, for which another one stands."""
    return tokens.number("process", number(value, tokens))


def uuid(value: Any, tokens: Tokens) -> str:
    """Take a UUID of NVML's, which tells whether it is of a GPU or of a MIG device."""
    kind = "MIG" if str(value).startswith("MIG-") else "GPU"
    return token(kind + "-00000000-0000-0000-0000-{:012d}")(value, tokens)


def moment(value: Any, _tokens: Tokens) -> str:
    """Take a time of the kernel's log, in UTC, because an offset tells where it was."""
    try:
        when = datetime.strptime(value, "%Y-%m-%dT%H:%M:%S%z")
    except (ValueError, TypeError) as error:
        raise MisfitError from error
    return when.astimezone(timezone.utc).isoformat()


def event(value: Any, tokens: Tokens) -> dict[str, Any]:
    """Take an error of the kernel's log: of its text, only what its judgement goes by, in words of the catalog."""
    if not isinstance(value, dict) or set(value) != set(EVENT):
        raise MisfitError
    kept = {name: None if value[name] is None else form(value[name], tokens) for name, form in EVENT.items()}
    kept["text"] = errors.parsed(value)
    try:
        errors.judged(kept)
    except KeyError as error:
        raise MisfitError from error
    return kept


def any_text(value: Any, _tokens: Tokens) -> str:
    """Take a text that something else is made of."""
    if not isinstance(value, str):
        raise MisfitError
    return ""


VERSION = text(r"(\d{1,4}(?:\.\d{1,6}){0,4}(?:-\d{1,4})?)(?:[-+~._a-zA-Z][-+~.\w]*)?")
ADDRESS = text(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
PCI_ID = text(r"[0-9a-f]{4}:[0-9a-f]{4}")
PCI_CLASS = text(r"[0-9a-f]{4}")
VBIOS = text(r"[0-9A-Fa-f]{2}(?:\.[0-9A-Fa-f]{2}){4}")
PART_NUMBER = text(r"\d{3}-[0-9A-Z]{5}(?:-[0-9A-Z]{4}-\d{3})?|N/A")
INFOROM = text(r"[A-Z]?\d{3,4}(?:\.\d{2,4}){3}|N/A")
CAPABILITY = text(r"\d{1,2}\.\d")
MIG_PROFILE = text(r"(?:\dc\.)?\dg\.\d{1,3}gb(?:[+-](?:me|gfx|me\.all)){0,2}")
TARGET = text(r"(?:sm|compute)_\d{2,3}[a-f]?")
_OF_NAMES = (
    "NVIDIA|Tesla|Quadro|GeForce|TITAN|Grace|Hopper|Blackwell|Ada|Jetson|Thor|Orin|DGX|HGX|RTX|GTX|GT|CMP|Pro|PRO|Ti|SUPER|"
    "Laptop|GPU|Generation|Server|Workstation|Edition|Max|Q|PCIe|PCIE|SXM|SXM2|SXM3|NVL|Graphics|Device|Station|Spark|D|V|X|XP|Xp"
)
_WORD_OF_NAME = rf"(?:{_OF_NAMES}|[A-Z]{{0,3}}\d{{1,4}}[A-Z]{{0,3}}\d?[a-z]?)"
GPU_NAME = text(rf"{_WORD_OF_NAME}(?:[ -]{_WORD_OF_NAME})*")
LOGGED = word(*known_errors.SWITCHES, *known_errors.LINES, pattern=r"\d{1,6}")
NVML_NAME = word(*NVML_NAMES, pattern=r"CODE_\d{1,4}")
EVENT: dict[str, Form] = {
    "kind": word("xid", *known_errors.SWITCHES, *LINES),
    "xid": number,
    "bus_id": ADDRESS,
    "time": moment,
    "text": any_text,
    "count": number,
}
