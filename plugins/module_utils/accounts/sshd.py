# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where sshd looks for keys: in a directory of root's, beside the places that it had before. No I/O happens here.

sshd judges a draft of its whole configuration first, so that no file is written that it would not start with.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PROGRAM, MAIN, PARTS = "/usr/sbin/sshd", "/etc/ssh/sshd_config", "/etc/ssh/sshd_config.d"
DIRECTORY = "/etc/ssh/gpulab-keys"
DROP_IN = f"{PARTS}/10-gpulab-users.conf"
OURS = f"{DIRECTORY}/%u"
_INCLUDE = re.compile(rf"^\s*Include\s+{re.escape(PARTS)}/\*\.conf\s*$", re.MULTILINE | re.IGNORECASE)


def draft(main: str, parts: Iterable[str]) -> str:
    """Return the main file with these files in place of all that it includes from the directory, in sshd's order."""
    lines = "\n".join(f"Include {path}" for path in parts)
    return _INCLUDE.sub(lambda _match: lines, main)


def places(shown: str) -> list[str]:
    """Return where sshd looks for keys, from what ``sshd -T`` prints."""
    lines = (line.split() for line in shown.splitlines())
    words = next((line[1:] for line in lines if line and line[0].lower() == "authorizedkeysfile"), [])
    return [word for word in words if word not in ("none", OURS)]


def has_ours(shown: str) -> bool:
    """Tell whether sshd looks into the directory of root's."""
    return any(line.lower().startswith("authorizedkeysfile ") and OURS in line.split() for line in shown.splitlines())


def content(before: Iterable[str]) -> str:
    """Return the drop-in, without its first line."""
    return f"AuthorizedKeysFile {' '.join([*before, OURS])}\n"
