# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a task failed, in the operator's terms, read from its result."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.child import KILLED
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

# Code and what tells of it, in the order in which they are tried; the line that matches is shown as the detail.
_OF_CONNECTIONS = [
    ("H006", r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED|authenticity of host"),
    ("H007", r"Could not resolve hostname|Name or service not known"),
    ("H005", r"no such identity: "),
    ("H005", r"Permission denied \([a-z,-]+\)|Authentication failed|Too many authentication failures"),
]
_OF_MODULES = [
    ("H014", r"^pyenv: (?:python\S*: command not found|version .* is not installed)|No version is set for \S+ python"),
    ("H015", r"you must have a tty to run sudo"),
    ("H003", r"Missing sudo password|a (?:terminal|password) is required|no tty present"),
    ("H013", r"\b(?:sudo|doas|su): (?:No such file|not found|command not found)"),
    ("H004", r"Incorrect sudo password|not in the sudoers file|is not allowed to execute|may not run sudo"),
    ("H008", r"No space left on device|Disk quota exceeded|No usable temporary directory found"),
    ("H010", r"Read-only file system"),
    ("H009", r"future feature annotations is not defined|requires a minimum of Python|SyntaxError: invalid syntax"),
    (
        "H002",
        (
            r"interpreter .* was not found|No python interpreters found"
            r"|(?:python[0-9.]*|/usr/bin/env): (?:No such file|not found|command not found|can't execute)"
            r"|exec: \S*python[0-9.]*: not found|\S*python[0-9.]*: not found|\"\S*python[0-9.]*\": (?:stat|executable)"
        ),
    ),
    (
        "H016",
        (
            r"No module named '?(?:_struct|_posixsubprocess|_ctypes|encodings|json|zlib|_io|math)\b"
            r"|Fatal Python error|error while loading shared libraries: libpython|undefined symbol: _?Py"
        ),
    ),
    ("H012", r"Failed to create temporary directory"),
]
# Where Ansible speaks; what a command said (stderr) is about its own business.
_TEXTS = ("msg", "module_stderr", "module_stdout")
_SAID_NOTHING = "No start of json char found"  # Ansible's words where a module's answer is missing
_SHELLS = re.compile(r"^(?:\S+: line \d+: +\d+ )?Killed\b.*$", re.MULTILINE)  # what dash and bash say then
_DF = re.compile(r"(?P<source>\S+) +[1-9]\d* +\d+ +(?P<free>\d+) +\S+ (?P<mount>/(?!.*/merged$).*)")
LITTLE = 1024  # KiB, or inodes
DETAIL_LENGTH = 300
SSH_PORT = "22"
MOST_ERRORS = 7  # of the options of a role
_WRAPPING = (
    r"Task failed: |Action failed: |Failed to connect to the host via ssh: |Module result deserialization failed: "
    r"|No start of json char found: |Data could not be sent to remote host \S+ "
    r"Make sure this host can be reached over ssh: |ssh: "
)


@dataclass(frozen=True)
class SshAddress:
    """Where SSH goes. Remedies name this address, because ssh does not know the inventory's alias."""

    host: str
    user: str | None = None
    port: int | str | None = None

    @property
    def login(self) -> str:
        """The arguments of ssh and ssh-copy-id."""
        port = f"-p {self.port} " if self._other_port else ""
        return port + (f"{self.user}@{self.host}" if self.user else self.host)

    @property
    def known_host(self) -> str:
        """The host as known_hosts names it, for ssh-keygen -R."""
        return f"'[{self.host}]:{self.port}'" if self._other_port else self.host

    @property
    def _other_port(self) -> bool:
        return str(self.port or SSH_PORT) != SSH_PORT


def address_of(host: str, variables: Mapping[str, Any]) -> SshAddress:
    """Return where SSH goes by the variables of an inventory's host."""
    found = [variables.get(f"ansible_{name}") for name in ("host", "user", "port")]
    told = [None if "{{" in str(value) else value for value in found]  # a template, which nobody has computed here
    return SshAddress(str(told[0] or host), *told[1:])


def explain(
    result: Mapping[str, Any], host: str, *, unreachable: bool = False, address: SshAddress | None = None
) -> Refusal | None:
    """Return the refusal that says why a task failed on a host; None when the result speaks only for itself.

    result is the task's result; a refusal that it carries is taken over as it is. address is what remedies name.
    """
    to = address or SshAddress(host)
    names = {"host": host, "login": to.login, "known_host": to.known_host}
    own = result.get("refusal")
    if own:
        return Refusal(own["code"], own["cause"], own["remedy"])
    text = "\n".join(str(result[key]) for key in _TEXTS if result.get(key))
    for code, pattern in [*(_OF_CONNECTIONS if unreachable else []), *_OF_MODULES]:
        match = re.search(f"^.*(?:{pattern}).*$", text, re.MULTILINE)
        if match:
            return refuse(code, **names, detail=_one_line(match[0]))
    rc = result.get("rc")
    said = _SHELLS.sub("", result.get("module_stderr") or "").strip()
    if rc and _SAID_NOTHING in text and not result.get("module_stdout") and not said:
        killed = rc in KILLED
        return refuse("H017" if killed else "H016", **names, detail=f"it ended with status {rc} and said nothing")
    if unreachable:
        return refuse("H001", **names, detail=_one_line(text) or "no answer")
    return None


def full(report: str) -> list[str]:
    """Return the file systems on which next to nothing is left, from df -P and df -Pi: "/ (/dev/vda1)".

    A container's root is on one that is named itself.
    """
    rows = filter(None, map(_DF.match, report.splitlines()))
    return list(dict.fromkeys(f"{row['mount']} ({row['source']})" for row in rows if int(row["free"]) < LITTLE))


def _one_line(text: str) -> str:
    """Return a message without line breaks, without the words Ansible puts around it, and of bounded length."""
    line = " ".join(text.replace("\\r\\n", " ").split())
    line = re.sub(f"^(?:{_WRAPPING})+", "", line)
    line = re.sub(r"^(Failed to create temporary directory)\..* (exited with result )", r"\1, mkdir \2", line)
    return line if len(line) <= DETAIL_LENGTH else line[: DETAIL_LENGTH - 1] + "…"


def message(result: Mapping[str, Any]) -> str:
    """Return a failed task's message, with the last line of what the command said; of wrong options what is wrong."""
    errors = [str(error) for error in result.get("argument_errors", ())]
    if errors:
        more = [f"and {len(errors) - MOST_ERRORS} more"] if len(errors) > MOST_ERRORS else []
        return "\n".join([*errors[:MOST_ERRORS], *more])
    said = str(result.get("stderr") or result.get("module_stderr") or "").strip().splitlines()
    text = str(result.get("msg", "")).strip()
    return f"{text}: {said[-1]}" if said and said[-1] not in text else text
