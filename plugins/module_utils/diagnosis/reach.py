# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the network gives to a program: names, ports and their owners, servers, certificates, proxies.

Each look may wait for somebody far away; the caller runs it in a child with a deadline.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from dataclasses import asdict
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.processes import owner
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import (
    Certificate,
    Listener,
    Name,
    Socket,
    TriedServer,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.core.child import Emit
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

SECONDS = 3.0
TLS_PORTS = (443, 636, 6443, 8443)
LISTEN, SYN_SENT = "0A", "02"  # include/net/tcp_states.h
OPEN, REFUSED, SILENT, UNREACHABLE, UNKNOWN = "open", "refused", "no answer", "unreachable", "unknown name"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_TIME = re.compile(rb"\x17\x0d(\d{12})Z|\x18\x0f(\d{14})Z")  # DER: UTCTime, GeneralizedTime


def read(node: Node, names: list[str], servers: list[tuple[str, int]], ports: list[int], emit: Emit) -> None:
    """Emit {"connecting"}, {"listeners"}, {"hostname"}, {"names"} and {"servers"}, lists of what shapes.py has."""
    found = sockets(node)
    emit({"connecting": [asdict(one) for one in found if one.state == SYN_SENT]})
    emit({"listeners": [asdict(one) for one in listeners(node, found, ports)]})
    emit({"hostname": [asdict(resolved(socket.gethostname()))]})
    for name in names:
        emit({"names": [asdict(resolved(name))]})
    for host, port in servers:
        emit({"servers": [asdict(server(host, port))]})


def sockets(node: Node) -> list[Socket]:
    """List TCP sockets that listen or still connect."""
    found = []
    for path in _TABLES:
        for line in node.text(path).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] in (LISTEN, SYN_SENT):  # noqa: PLR2004 - up to the inode
                peer, _colon, peer_port = fields[2].partition(":")
                port = int(fields[1].rpartition(":")[2], 16)
                found.append(Socket(fields[3], port, address(peer), int(peer_port, 16), int(fields[9])))
    return found


def address(text: str) -> str:
    """Return an address of /proc/net/tcp as people write it: its 32-bit words are in the machine's order."""
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    data = b"".join(words)
    if len(data) == 16 and data.startswith(b"\0" * 10 + b"\xff\xff"):  # noqa: PLR2004 - IPv4 in IPv6
        data = data[12:]
    return socket.inet_ntop(socket.AF_INET if len(data) == 4 else socket.AF_INET6, data)  # noqa: PLR2004


def listeners(node: Node, found: list[Socket], ports: Iterable[int]) -> list[Listener]:
    """Name who listens on each of the ports."""
    wanted = {one.inode: one.port for one in found if one.state == LISTEN and one.port in set(ports)}
    owners: dict[int, int] = {}
    if wanted:
        for name in filter(str.isdigit, node.names("/proc")):
            for descriptor in node.names(f"/proc/{name}/fd"):
                match = re.fullmatch(r"socket:\[(\d+)\]", node.link(f"/proc/{name}/fd/{descriptor}") or "")
                if match and int(match[1]) in wanted:
                    owners.setdefault(wanted[int(match[1])], int(name))
    return [
        Listener(port, owners[port], owner(node, owners[port]), node.text(f"/proc/{owners[port]}/comm"))
        if port in owners
        else Listener(port, None, None, None)
        for port in sorted(set(wanted.values()))
    ]


def resolved(name: str) -> Name:
    """Ask the resolver."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return Name(name, [], getattr(error, "strerror", None) or str(error))
    return Name(name, sorted({str(one[4][0]) for one in found}), None)


def server(host: str, port: int) -> TriedServer:
    """Try a server."""
    try:
        with socket.create_connection((host, port), SECONDS) as connected:
            return TriedServer(host, port, OPEN, certificate(connected, host, port) if port in TLS_PORTS else None)
    except socket.gaierror:
        state = UNKNOWN
    except ConnectionRefusedError:
        state = REFUSED
    except (socket.timeout, TimeoutError):
        state = SILENT
    except OSError:
        state = UNREACHABLE
    return TriedServer(host, port, state)


def certificate(connected: socket.socket, host: str, port: int) -> Certificate | None:
    """Return what is wrong with a server's certificate; None where nothing is."""
    try:
        with ssl.create_default_context().wrap_socket(connected, server_hostname=host):
            return None
    except ssl.SSLCertVerificationError as error:
        return Certificate(error.verify_message, *_validity(host, port))
    except OSError as error:  # no TLS at all
        return Certificate(for_people(str(error)), None, None)


def _validity(host: str, port: int) -> tuple[str | None, str | None]:
    """Read from when and until when a certificate holds, in UTC; nothing of it is believed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), SECONDS) as again,
            context.wrap_socket(again, server_hostname=host) as secured,
        ):
            return validity(secured.getpeercert(binary_form=True) or b"")
    except OSError:
        return None, None


def validity(der: bytes) -> tuple[str | None, str | None]:
    """Parse the validity of a certificate: the first two times in it."""
    found = []
    for short, long in _TIME.findall(der)[:2]:
        text = long.decode() if long else ("20" if short < b"50" else "19") + short.decode()
        found.append(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.strptime(text, "%Y%m%d%H%M%S")))
    return (found[0], found[1]) if len(found) == 2 else (None, None)  # noqa: PLR2004 - both


def proxy(value: str) -> tuple[str, int] | None:
    """Return host and port of a proxy variable."""
    parts = urlsplit(value if "://" in value else f"http://{value}")
    try:
        return (parts.hostname, parts.port or 80) if parts.hostname else None
    except ValueError:
        return None
