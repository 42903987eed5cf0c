# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings that the command line of Docker's daemon fixes, by their names in daemon.json. No I/O happens here.

Docker neither starts nor reloads where a setting is in both. See findConfigurationConflicts in
https://github.com/moby/moby/blob/master/daemon/config/config.go.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = "dockerd"
PROPERTIES = ("ExecStart", "Environment", "EnvironmentFiles")  # of the unit, for next_start()
_SHORT = {
    "D": "debug",
    "G": "group",
    "H": "host",
    "b": "bridge",
    "g": "graph",
    "l": "log-level",
    "p": "pidfile",
    "s": "storage-driver",
}
# Flags with another name in daemon.json; among them are all flags that take NAME=VALUE or a list.
_NAMES = {
    "add-runtime": "runtimes",
    "authorization-plugin": "authorization-plugins",
    "cdi-spec-dir": "cdi-spec-dirs",
    "default-address-pool": "default-address-pools",
    "default-network-opt": "default-network-opts",
    "default-ulimit": "default-ulimits",
    "dns-opt": "dns-opts",
    "exec-opt": "exec-opts",
    "feature": "features",
    "graph": "data-root",  # its name until Docker 23
    "host": "hosts",
    "insecure-registry": "insecure-registries",
    "label": "labels",
    "log-opt": "log-opts",
    "node-generic-resource": "node-generic-resources",
    "registry-mirror": "registry-mirrors",
    "storage-opt": "storage-opts",
}
_LISTS = frozenset(_NAMES.values()) - {"data-root"} | {"dns", "dns-search"}
_VARIABLE = re.compile(r"\$(\w+)")
_VARIABLE_INSIDE = re.compile(r"\$\{(\w+)\}")


def parse(argv: list[str]) -> dict[str, Any]:
    """Return the settings that a command line of dockerd fixes, as daemon.json would have them; none of other programs.

    A word that does not begin with a dash belongs to the flag before it, for dockerd takes no other words.
    """
    found: dict[str, Any] = {}
    if not argv or argv[0].rpartition("/")[2] != PROGRAM:
        return found
    for flag, value in _pairs(argv[1:]):
        name = _NAMES.get(flag, flag)
        if name in MAPS:
            key, _equals, text = (value or "").partition("=")
            found.setdefault(name, {})[key] = MAPS[name](key, text)
        elif name in _LISTS:
            found.setdefault(name, []).append(value)
        else:
            found[name] = {None: True, "true": True, "false": False}.get(value, value)
    return found


def of_process(cmdline: str) -> dict[str, Any]:
    """Return what /proc/PID/cmdline of a daemon fixes; each word in it ends with a null byte."""
    return parse(cmdline.rstrip("\0").split("\0"))


def next_start(show: str, read: Callable[[str], str]) -> list[str]:
    """Return the command line of the unit's next start, from what systemctl show says of PROPERTIES.

    read returns the text of a file of the environment, "" where it cannot be read.
    """
    variables = environment(show, read)
    command = re.search(r"^ExecStart=\{.*? argv\[\]=(.*?) ; ignore_errors=", show, re.MULTILINE)
    return [word for each in _words(command[1] if command else "") for word in _expanded(each, variables)]


def environment(show: str, read: Callable[[str], str]) -> dict[str, str]:
    """Return the environment of the unit's next start; the arguments are those of next_start()."""
    fields = [line.partition("=")[::2] for line in show.splitlines()]
    variables: dict[str, str] = {}
    for key, value in fields:
        if key == "Environment":
            variables.update(word.partition("=")[::2] for word in _words(value))
    for key, value in fields:
        if key == "EnvironmentFiles" and value:
            variables.update(_assignments(read(value.rpartition(" (")[0])))
    return variables


def _pairs(words: list[str]) -> Iterator[tuple[str, str | None]]:
    """Yield (long name, value) of each flag."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        else:
            name, equals, value = _SHORT.get(word[1:2], word[1:2]), word[2:], word[2:].lstrip("=")
        if equals:
            yield name, value
        else:
            yield name, rest.pop(0) if rest and not rest[0].startswith("-") else None


def _ulimit(name: str, text: str) -> dict[str, Any]:
    soft, _colon, hard = text.partition(":")
    return {"Name": name, "Hard": _number(hard or soft), "Soft": _number(soft)}


def _number(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?\d+", text) else text


# Settings that are objects: what the value of NAME=VALUE comes to.
MAPS: dict[str, Callable[[str, str], Any]] = {
    "default-ulimits": _ulimit,
    "features": lambda _name, text: text in ("", "true", "1"),
    "log-opts": lambda _name, text: text,
    "runtimes": lambda _name, text: {"path": text},
}


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote that is not closed
        return text.split()


def _assignments(text: str) -> dict[str, str]:
    """Parse a file of systemd's EnvironmentFile=: quotes go, a backslash at the end joins lines."""
    lines = (line.strip() for line in text.replace("\\\n", "").splitlines())
    pairs = (line.partition("=")[::2] for line in lines if "=" in line and not line.startswith(("#", ";")))
    return {name.strip(): " ".join(_words(value)) for name, value in pairs}


def _expanded(word: str, variables: dict[str, str]) -> list[str]:
    """Put variables in as systemd does: $NAME alone becomes any number of words, ${NAME} a part of one."""
    alone = _VARIABLE.fullmatch(word)
    if alone:
        return _words(variables.get(alone[1], ""))
    return [_VARIABLE_INSIDE.sub(lambda found: variables.get(found[1], ""), word)]
