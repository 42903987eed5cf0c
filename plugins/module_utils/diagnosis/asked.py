# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a pasted error names that can be looked at on the node: addresses and ports. No I/O happens here.

What is mentioned is not what was needed: an address counts only in a clause that says that a connection failed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = r"(?=[\w.-]*[A-Za-z])[A-Za-z0-9][\w-]*(?:\.[\w-]+)*"
_HOST = rf"(?:\d{{1,3}}(?:\.\d{{1,3}}){{3}}|{_NAME})"
_PLACE = (
    rf"(?:\[(?:::ffff:)?(?P<bracketed>[0-9A-Fa-f.]*:[0-9A-Fa-f:.]+|{_HOST})\]"
    rf"|[('\[]{{0,2}}(?P<host>{_HOST})['\])]{{0,2}})"
)
_ADDRESSES = (
    re.compile(rf"https?://(?:[^\s/@]*@)?(?P<host>{_HOST})(?::(?P<port>\d{{1,5}}))?"),
    re.compile(rf"\bhost=['\"]?(?P<host>{_HOST})['\"]?,\s*port=(?P<port>\d{{1,5}})"),
    # as ssh, curl, Gloo, gRPC and PyTorch's sockets write them: to HOST:PORT, to (HOST, PORT), to host HOST port PORT
    re.compile(rf"\b(?:to|of|reach)\s+(?:host\s+)?{_PLACE}(?::|,\s*|\s+port\s+)(?P<port>\d{{1,5}})\b"),
)
_UNRESOLVED = (
    re.compile(rf"could not resolve (?:host(?:name)?|proxy)?\W+(?P<host>{_HOST})", re.IGNORECASE),
    re.compile(rf"failed to resolve ['\"](?P<host>{_HOST})['\"]", re.IGNORECASE),
    re.compile(
        rf"(?:name resolution for|failure resolving|error resolving(?: host)?) ['\"]?(?P<host>{_HOST})\b", re.IGNORECASE
    ),
    re.compile(
        rf"\blookup (?P<host>{_HOST})(?: on \S+)?: (?:no such host|server misbehaving|\S+ timeout|\S+ \S+->)",
        re.IGNORECASE,
    ),
    re.compile(rf"addresses of \((?P<host>{_HOST}), \d+\) cannot be retrieved", re.IGNORECASE),
    re.compile(rf"(?P<host>{_HOST})['\"]?: (?:Name or service not known|Temporary failure in name resolution)"),
)
_CLAUSE = re.compile(r"\n|(?<=[.!?])\s+(?=[A-Z])")
_FAILED = re.compile(
    r"connect\w*\b[^\n]*\b(?:fail|refused|timed out|unreachable|reset by|aborted)|max retries exceeded"
    r"|(?:failed|unable|could ?n.t|could not|cannot|can.t|timed out)\b[^\n]*\b"
    r"(?:connect|access|reach|resolve|download|fetch|clone|pull|open url)"
    r"|connection (?:failed|refused|timed out|error)|no route to host|network is unreachable"
    r"|failed to connect|do request failed",
    re.IGNORECASE,
)
# Ports of NCCL's peers, which close with their job; a node without IPv6, where PyTorch goes on with IPv4;
# a program that was told to ask nobody
_NO_SERVER = re.compile(
    r"\bNCCL (?:WARN|INFO|TRACE)\b|\bGot completion from peer\b|\berrno: 97\b|\boffline ?mode"
    r"|outgoing traffic has been disabled",
    re.IGNORECASE,
)
_PAGE = re.compile(
    r"(?:\b(?:see|search for|visit|go to|from the url|help|docs|read)\b|reference|documentation)[^\n.]{0,60}\Z",
    re.IGNORECASE,
)
# What stands before a quotation: a comment (not a step of docker build), a search for the text, advice, or the line of
# a program that would print it. A row of a table is one, too.
_QUOTES = re.compile(
    r"^\s*(?:#(?!\d+ [\d.]+ )|//|\*|\$ )|\b(?:grep|such as|for example|e\.g\.|in case of|looks? for)\b"
    r"|\bif you (?:see|get|run into|encounter)\b"
    r"|\b(?:raise \w+(?:\.\w+)*|print|assert\w*|re\.(?:compile|search|match)|log(?:ger|ging)?\.\w+|TORCH_CHECK\w*)\(",
    re.IGNORECASE,
)
_ROW = re.compile(r"^\s*\| .+ \| .+ \|\s*\Z")
_RETRIES = re.compile(
    r"\b(?:retry|retrying|retries|falling back|will try|trying again|try again with)\b", re.IGNORECASE
)
_GOES_ON = re.compile(
    r"\b(?:step|epoch|iter(?:ation)?|loss|it/s|s/it|tokens/s|load_model|loaded|loading|started|completed?|ready|running"
    r"|resum\w+|saved|connected|succeeded|success\w*)\b|\d+%\|",
    re.IGNORECASE,
)
_BREAKS = re.compile(r"\b(?:Traceback|\w*Error|\w*Exception|FATAL|fatal|Killed|aborted|core dumped|giving up)\b")
_FILES = re.compile(r"\.(?:py|pyx|c|cc|cpp|cxx|cu|cuh|h|hpp|go|rs|js|ts|java|sh|so|log)\Z", re.IGNORECASE)
_NOWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - no address to reach
_PORT = re.compile(r"\bport[ :=]+(\d{2,5})\b", re.IGNORECASE)
_BOUND = re.compile(r"(?:bind|listen|address)\b[^\n]{0,80}?(?::|, )(\d{2,5})\b", re.IGNORECASE)
_TAKEN = re.compile(
    r"address already in use|EADDRINUSE|port is already allocated|port \d+ is already in use", re.IGNORECASE
)
HTTPS = 443
_MOST = 4
_LONGEST = 4000  # characters of a clause


def addresses(error: str) -> list[tuple[str, int]]:
    """Return the (host, port) pairs that an error names as those it could not use, in its order."""
    found = []
    for clause in _clauses(error):
        for form in _ADDRESSES:
            for match in form.finditer(clause):
                host, port = _host(match), int(match["port"] or HTTPS)
                if _is_server(host, port) and not _PAGE.search(clause[: match.start()]):
                    found.append((host, port))
    return list(dict.fromkeys(found))[:_MOST]


def names(error: str) -> list[str]:
    """Return the host names that an error could not resolve."""
    found = [
        match["host"]
        for form in _UNRESOLVED
        for match in form.finditer(error)
        if is_meant(error, match.start(), match.end()) and not _FILES.search(match["host"])
    ]
    return list(dict.fromkeys(found))[:_MOST]


def is_meant(text: str, start: int, end: int) -> bool:
    """Tell whether what stands from start to end in a text is an error: no quotation, and not made good later."""
    line = text.rfind("\n", 0, start) + 1
    whole = text[line:end] + text[end:].partition("\n")[0]
    return not (_QUOTES.search(text[line:start]) or _ROW.search(whole) or _is_mended(text, line, end))


def _is_mended(text: str, line: int, end: int) -> bool:
    """Tell whether the program said that it tries again, and then went on without a further error."""
    following = text.find("\n", end)
    rest = text[following:] if following >= 0 else ""
    retries = _RETRIES.search(text, line)
    return retries is not None and _GOES_ON.search(rest) is not None and _BREAKS.search(rest) is None


def _clauses(error: str) -> Iterator[str]:
    """Yield the clauses that say that a connection failed."""
    start = 0
    for end in (*(match.end() for match in _CLAUSE.finditer(error)), len(error)):
        clause = error[start:end][:_LONGEST]
        if _FAILED.search(clause) and not _NO_SERVER.search(clause) and is_meant(error, start, end):
            yield clause
        start = end


def _host(match: re.Match[str]) -> str:
    return match["host"] or match.groupdict().get("bracketed") or ""


def _is_server(host: str, port: int) -> bool:
    return host not in _NOWHERE and not _FILES.search(host) and 0 < port < 1 << 16


def taken_ports(error: str) -> list[int]:
    """Return the ports that an error says are taken by somebody else."""
    if not is_taken(error):
        return []
    found = [int(port) for port in _PORT.findall(error) + _BOUND.findall(error)]
    return [port for port in dict.fromkeys(found) if 0 < port < 1 << 16][:_MOST]


def is_taken(error: str) -> bool:
    """Tell whether an error says that a port is taken."""
    return _TAKEN.search(error) is not None
