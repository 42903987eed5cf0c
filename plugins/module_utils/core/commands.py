# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands and environments of others, without the secrets that people write in them.

Nobody can know every secret by its look: what is hidden is what is called a secret, what stands where programs take
one, and what nobody would type. In doubt a word is hidden. No I/O happens here.
"""

from __future__ import annotations

import re

from ansible_collections.gpulab.node.plugins.module_utils.core import secret_texts
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import HIDDEN, TOKEN, for_people

LONGEST = 1000  # characters: as long as cron's; the patterns take quadratic time
_CALLED = re.compile(r"token|secret|passw|passphrase|api_?key|credential|authori[sz]ation|webhook", re.IGNORECASE)
_WORDS = frozenset({"pass", "passwd", "pwd", "pw", "key", "auth", "cookie", "dsn", "pin", "psk", "sas"})
_PLACE = re.compile(r"(?:file|path|dir|directory)\Z", re.IGNORECASE)  # where a secret lies is none
_VALUE = r"(?:\"[^\"]*\"?|'[^']*'?|\\.|[^\s;|&)\"'\\])+"
_ASSIGNED = re.compile(r"([\w.-]*\w)[\"']?\s*[=:]\s*")
_ASSIGNED_VALUE = re.compile(_VALUE)
_OPTION = re.compile(rf"(?<!\S)(--?[\w-]+)(\s+)(?!-)({_VALUE})")
_HEADER = re.compile(r"((?:authorization|cookie|x-[\w-]+|[\w-]*token)\s*:\s*)[^\"'\n]+", re.IGNORECASE)
_SCHEME = re.compile(r"\b(bearer|basic)\s+[^\s\"']+", re.IGNORECASE)
_LOGIN = re.compile(rf"((?<!\S)(?:-[uU]|--(?:proxy-)?user)[ =]*)(?=[\"']?[^\s\"']*[:%])({_VALUE})")
_PROGRAMS = re.compile(
    r"(\b(?:sshpass|mysql[\w-]*|mariadb[\w-]*|mongo\w*|7z\w*|zip|unzip|ldap\w+|redis-cli|htpasswd|openssl|login)\s)([^;|&\n]*)"
)
_PASSWORD = re.compile(rf"((?<!\S)-[pPawk])\s*{_VALUE}")
_PIPED = re.compile(r"(\b(?:echo|printf)\s)[^|;&\n]+(?=\|)")
_HERE = re.compile(rf"(<<<\s*){_VALUE}")
_WORD = re.compile(rf"[\w+=-]{{{TOKEN},}}")
_RANDOM = re.compile(rf"[A-Za-z0-9]{{{TOKEN},}}|\b[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}\b", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Tell whether a variable or an option of this name holds a secret; the path of a file is none."""
    words = re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
    return not _PLACE.search(name) and (_CALLED.search(name) is not None or not _WORDS.isdisjoint(words))


def shown(command: str) -> str:
    """Return a command as people may see it; HIDDEN stands for each secret, and for all after LONGEST characters."""
    if len(command) > LONGEST:  # a part of a word could not be judged
        command = f"{command[:LONGEST].rpartition(' ')[0]} {HIDDEN}"
    text = _HEADER.sub(rf"\1{HIDDEN}", secret_texts.hidden(for_people(command), of_command=True))
    text = _SCHEME.sub(rf"\1 {HIDDEN}", text)
    text = _PIPED.sub(rf"\1{HIDDEN} ", text)
    text = _HERE.sub(rf"\1{HIDDEN}", text)
    text = _LOGIN.sub(rf"\1{HIDDEN}", text)
    text = _PROGRAMS.sub(lambda match: match[1] + _PASSWORD.sub(rf"\1 {HIDDEN}", match[2]), text)
    text = _OPTION.sub(_without_value, _without_assigned(text))
    return _WORD.sub(lambda match: HIDDEN if _is_random(match[0]) else match[0], text)


def shown_value(name: str, value: str) -> str:
    """Return the value of a variable as people may see it."""
    return HIDDEN if is_secret(name) and value else shown(value)


def shown_options(options: str) -> str:
    """Return the options of a mount, as fstab(5) writes them, as people may see them."""
    parts = (option.partition("=") for option in options.split(","))
    return ",".join(f"{name}{equals}{shown_value(name, value)}" for name, equals, value in parts)


def _without_assigned(text: str) -> str:
    """Return a text without what is assigned to names of secrets, in the value of another name, too."""
    seen, done = [], 0
    for match in _ASSIGNED.finditer(text):
        value = _ASSIGNED_VALUE.match(text, match.end()) if match.start() >= done and is_secret(match[1]) else None
        if value:
            seen += [text[done : match.end()], HIDDEN]
            done = value.end()
    return "".join([*seen, text[done:]])


def _without_value(match: re.Match[str]) -> str:
    return match[1] + match[2] + HIDDEN if is_secret(match[1]) else match[0]


def _is_random(word: str) -> bool:
    """Tell whether a word has a long part in which letters and digits are mixed."""
    return any(re.search(r"\d", part) and re.search(r"[A-Za-z]", part) for part in _RANDOM.findall(word))
