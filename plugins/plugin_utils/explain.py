# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a task failed, in the operator's terms, read from its result."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.refusal import Refusal, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

# Code and what tells of it, in the order in which they are tried; the line that matches is shown as the detail.
_OF_CONNECTIONS = [
    ("H006", r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED|authenticity of host"),
    ("H007", r"Could not resolve hostname|Name or service not known"),
    ("H005", r"Permission denied \([a-z,-]+\)|Authentication failed|Too many authentication failures"),
]
_OF_MODULES = [
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
    ("H012", r"Failed to create temporary directory"),
]
# Where Ansible speaks; what a command said (stderr) is about its own business.
_TEXTS = ("msg", "module_stderr", "module_stdout")
DETAIL_LENGTH = 300
_WRAPPING = (
    r"Task failed: |Action failed: |Failed to connect to the host via ssh: |Module result deserialization failed: "
    r"|No start of json char found: |Data could not be sent to remote host \S+ "
    r"Make sure this host can be reached over ssh: |ssh: "
)


def explain(result: Mapping[str, Any], host: str, *, unreachable: bool = False) -> Refusal | None:
    """Return the refusal that says why a task failed on a host; None when the result speaks only for itself.

    result is the task's result; a refusal that it carries is taken over as it is.
    """
    own = result.get("refusal")
    if own:
        return Refusal(own["code"], own["cause"], own["remedy"])
    text = "\n".join(str(result[key]) for key in _TEXTS if result.get(key))
    for code, pattern in [*(_OF_CONNECTIONS if unreachable else []), *_OF_MODULES]:
        match = re.search(f"^.*(?:{pattern}).*$", text, re.MULTILINE)
        if match:
            return refuse(code, host=host, detail=_one_line(match[0]))
    if unreachable:
        return refuse("H001", host=host, detail=_one_line(text) or "no answer")
    return None


def _one_line(text: str) -> str:
    """Return a message without line breaks, without the words Ansible puts around it, and of bounded length."""
    line = " ".join(text.replace("\\r\\n", " ").split())
    line = re.sub(f"^(?:{_WRAPPING})+", "", line)
    line = re.sub(r"^(Failed to create temporary directory)\..* (exited with result )", r"\1, mkdir \2", line)
    return line if len(line) <= DETAIL_LENGTH else line[: DETAIL_LENGTH - 1] + "…"
