# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The name of a host, in the form of RFC 1123: the one thing that may be written where a host is named.

A machine may call itself what it likes, two lines of a file too. No I/O happens here.
"""

from __future__ import annotations

import re
import socket

# An underscore within a label is no part of RFC 1123, but Linux and Slurm take it, and machines are called so.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
FORM = rf"{_LABEL}(?:\.{_LABEL})*"
MOST = 253  # characters


class HostName(str):
    """A host's name of RFC 1123's form. Raises ValueError for a text that is none."""

    __slots__ = ()

    def __new__(cls, text: str) -> HostName:  # noqa: PYI034 - typing.Self is too new for nodes
        """Take a text that has the form."""
        if not is_host_name(text):
            msg = f"{text!r} is no name of a host"
            raise ValueError(msg)
        return super().__new__(cls, text)

    @property
    def short(self) -> HostName:
        """Return it without its domain."""
        return HostName(self.partition(".")[0])


def is_host_name(text: object) -> bool:
    """Tell whether a text has the form of a host's name, and is no address: resolvers take 10.1 and 0x7f.1 for one."""
    if not isinstance(text, str) or len(text) > MOST or not re.fullmatch(FORM, text):
        return False
    return not _is_address(text)


def _is_address(text: str) -> bool:
    try:
        socket.inet_aton(text)
    except OSError:
        return False
    return True
