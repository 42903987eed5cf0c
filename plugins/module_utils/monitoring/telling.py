# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How people are told on a node: at their terminals, and by mail where the node can."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TERMINALS = Path("/dev/pts")
SENDMAIL = "/usr/sbin/sendmail"
MINUTE = 60
_MAIL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*@[A-Za-z0-9_][A-Za-z0-9_.-]*")


def tell(uid: int, subject: str, text: str) -> None:
    """Tell somebody a text of several lines; who has no account on this node cannot be told here."""
    with contextlib.suppress(KeyError):
        account = pwd.getpwuid(uid)
        for path in terminals(uid):
            write(path, text)
        send(account.pw_gecos, subject, text)


def terminals(uid: int, directory: Path = TERMINALS) -> Iterator[Path]:
    """Yield the terminals of somebody who takes messages there (mesg y)."""
    for path in sorted(directory.iterdir()):
        with contextlib.suppress(OSError):  # it was closed just now
            status = path.lstat()
            if stat.S_ISCHR(status.st_mode) and status.st_uid == uid and status.st_mode & stat.S_IWGRP:
                yield path


def write(path: Path, text: str) -> None:
    """Write to a terminal, and never wait for one that is stopped."""
    data = f"\n\a{text}".replace("\n", "\r\n").encode()
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)


def send(comment: str, subject: str, text: str, program: str = SENDMAIL) -> None:
    """Mail to the address in the comment of an account, which role users puts there, where the node can mail.

    Its second to fourth fields, such as the room, are what people may change themselves, by chfn(1): they do not count.
    """
    fields = comment.split(",")
    address = next((word for word in fields[:1] + fields[4:] if _MAIL.fullmatch(word)), None)
    if address is None or not os.access(program, os.X_OK):
        return
    mail = f"To: {address}\nSubject: {subject}\n\n{text}"
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run([program, "-i", "--", address], input=mail.encode(), check=False, timeout=MINUTE)
