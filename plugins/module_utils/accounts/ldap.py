# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a directory answers over TLS, lets the node read, and has the entry that it is to read: RFC 4511, no more."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people

if TYPE_CHECKING:
    from collections.abc import Callable

PORT = 636
SECONDS = 8.0  # without an octet
MOST = 1 << 16  # octets of one answer
SEQUENCE, INTEGER, OCTETS, ENUMERATED, BOOLEAN = 0x30, 0x02, 0x04, 0x0A, 0x01
BIND, BOUND, SEARCH, ENTRY, REFERENCE, SEARCHED = 0x60, 0x61, 0x63, 0x64, 0x73, 0x65
SIMPLE, PRESENT = 0x80, 0x87  # how to bind; a filter: the entry has this attribute
OTHER, ENDED = "what answers does not speak LDAP", "it ends the connection"
MEANINGS = {
    32: "it has no entry {base}",
    34: "{base} or {dn} is no name of an entry",
    48: "it lets nobody read without a name and a password",
    49: "it does not take the password of {dn}",
    50: "{dn} may not read {base}",
}


class Server(NamedTuple):
    """A server of ldaps and its port."""

    name: str
    port: int


def server(uri: str) -> Server | None:
    """Return whom a URI means; None where it is none of ldaps, or says more than a server and its port."""
    try:
        parts = urlsplit(uri)
        port = parts.port or PORT
    except ValueError:
        return None
    plain = uri.isprintable() and not {" ", ","} & set(uri)  # urlsplit takes line breaks out
    plain = plain and not (parts.username or parts.query or parts.fragment or parts.path.strip("/"))
    return Server(parts.hostname, port) if parts.scheme == "ldaps" and parts.hostname and plain else None


def problem(uri: str, base: str, dn: str, password: str, context: ssl.SSLContext) -> str:
    """Return why the server cannot serve the node, for people; empty where it lets it read the entry base.

    dn and password are empty where anybody may read.
    """
    asked = server(uri)
    if asked is None:
        return "it is no address of the form ldaps://NAME"
    try:
        with (
            socket.create_connection(asked, SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=asked.name) as connection,
        ):
            code = _ask(connection, base, dn, password)
            connection.sendall(_element(SEQUENCE, _number(3) + _element(0x42, b"")))
    except ssl.SSLCertVerificationError as error:
        return for_people(f"its certificate is not accepted: {error.verify_message}")
    except (OSError, ValueError) as error:
        return for_people(str(getattr(error, "strerror", None) or error))
    meaning = MEANINGS.get(code, "it answers with LDAP's error {code}")
    return for_people(meaning.format(base=base, dn=dn or "nobody", code=code)) if code else ""


def _ask(connection: ssl.SSLSocket, base: str, dn: str, password: str) -> int:
    """Return LDAP's result code of a bind and a look at the entry; 0 where both succeed."""
    who = _number(3) + _element(OCTETS, dn.encode()) + _element(SIMPLE, password.encode())
    connection.sendall(_element(SEQUENCE, _number(1) + _element(BIND, who)))
    code = _result(connection.recv, BOUND)
    if code:
        return code
    wanted = (
        _element(OCTETS, base.encode())
        + _element(ENUMERATED, b"\0") * 2  # this entry only; aliases as they are
        + _number(1)
        + _number(5)
        + _element(BOOLEAN, b"\0")
        + _element(PRESENT, b"objectClass")
        + _element(SEQUENCE, _element(OCTETS, b"1.1"))  # no attributes
    )
    connection.sendall(_element(SEQUENCE, _number(2) + _element(SEARCH, wanted)))
    return _result(connection.recv, SEARCHED)


def _result(receive: Callable[[int], bytes], kind: int) -> int:
    """Read answers up to one of this kind; return its result code. Raises ValueError where it is no LDAP."""
    while True:
        _sequence, message = _read(receive)
        _id, rest = _split(message)[1:]
        found, content, _controls = _split(rest)
        if found == kind:
            return int.from_bytes(_split(content)[1], "big")
        if found not in {ENTRY, REFERENCE}:
            raise ValueError(OTHER)


def _read(receive: Callable[[int], bytes]) -> tuple[int, bytes]:
    """Return the kind and the content of the next element."""
    head = _exactly(receive, 2)
    more = head[1] & 0x7F if head[1] & 0x80 else 0
    length = int.from_bytes(_exactly(receive, more), "big") if more else head[1]
    if head[0] != SEQUENCE or more > 4 or length > MOST:  # noqa: PLR2004 - octets of a length
        raise ValueError(OTHER)
    return head[0], _exactly(receive, length)


def _exactly(receive: Callable[[int], bytes], count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = receive(count - len(data))
        if not part:
            raise ValueError(ENDED)
        data += part
    return data


def _split(data: bytes) -> tuple[int, bytes, bytes]:
    """Return the kind of the first element, its content, and what follows it. Raises ValueError."""
    try:
        more = data[1] & 0x7F if data[1] & 0x80 else 0
        length = int.from_bytes(data[2 : 2 + more], "big") if more else data[1]
        return data[0], data[2 + more : 2 + more + length], data[2 + more + length :]
    except IndexError as error:
        raise ValueError(OTHER) from error


def _element(kind: int, content: bytes) -> bytes:
    """Return an element in BER, with a length of four octets where it is long."""
    length = len(content)
    size = bytes([length]) if length < 0x80 else b"\x84" + length.to_bytes(4, "big")  # noqa: PLR2004 - the short form
    return bytes([kind]) + size + content


def _number(value: int) -> bytes:
    return _element(INTEGER, bytes([value]))
