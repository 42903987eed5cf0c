# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a pasted error names that can be looked at on the node: addresses and ports. No I/O happens here."""

from __future__ import annotations

import re

_HOST = r"(?:\d{1,3}(?:\.\d{1,3}){3}|[A-Za-z][\w-]*(?:\.[\w-]+)+)"
_URL = re.compile(rf"https?://(?:[^\s/@]*@)?({_HOST})(?::(\d{{2,5}}))?")
_FIELDS = re.compile(rf"\bhost=['\"]?({_HOST})['\"]?,\s*port=(\d{{2,5}})")
_PAIR = re.compile(
    rf"(?:connect(?:ion)?(?:ing)?(?:\s+\w+)*|client socket|peer|server)\W+(?:\w+\s+)*?"
    rf"\[?({_HOST})\]?(?::|, |<)(\d{{2,5}})",
    re.IGNORECASE,
)
_NAME = re.compile(
    rf"(?:could not resolve host(?:name)?|name resolution for|resolv\w+)\W+['\"]?({_HOST})", re.IGNORECASE
)
_PORT = re.compile(r"\bport[ :=]+(\d{2,5})\b", re.IGNORECASE)
_BOUND = re.compile(r"(?:bind|listen|address)\b[^\n]{0,80}?(?::|, )(\d{2,5})\b", re.IGNORECASE)
_TAKEN = re.compile(
    r"address already in use|EADDRINUSE|port is already allocated|port \d+ is already in use", re.IGNORECASE
)
HTTPS = 443
_MOST = 4


def addresses(error: str) -> list[tuple[str, int]]:
    """Return the (host, port) pairs that an error names as those it could not use, in its order."""
    found = [(host, int(port or HTTPS)) for host, port in _URL.findall(error)]
    found += [(host, int(port)) for host, port in _FIELDS.findall(error) + _PAIR.findall(error)]
    return list(dict.fromkeys(found))[:_MOST]


def names(error: str) -> list[str]:
    """Return the host names that an error could not resolve."""
    return list(dict.fromkeys(_NAME.findall(error)))[:_MOST]


def taken_ports(error: str) -> list[int]:
    """Return the ports that an error says are taken by somebody else."""
    if not is_taken(error):
        return []
    found = [int(port) for port in _PORT.findall(error) + _BOUND.findall(error)]
    return [port for port in dict.fromkeys(found) if 0 < port < 1 << 16][:_MOST]


def is_taken(error: str) -> bool:
    """Tell whether an error says that a port is taken."""
    return _TAKEN.search(error) is not None
