# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a node is watched: its addresses, node exporter's settings and answer, the age of the GPUs' metrics."""

from __future__ import annotations

import http.client
import re
import shlex
import socket
import time
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, Child, Emit

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.services import Collector, DcgmExporter, Monitoring

PROGRAM = "/usr/bin/prometheus-node-exporter"
DEFAULTS = "/etc/default/prometheus-node-exporter"
DROP_IN = "/etc/systemd/system/prometheus-node-exporter.service.d/gpulab.conf"
DCGM_PROGRAM = "/usr/bin/dcgm-exporter"
DCGM_DROP_IN = "/etc/systemd/system/nvidia-dcgm-exporter.service.d/gpulab.conf"
TIMER = "/etc/systemd/system/gpulab-metrics.timer"
METRICS = "/var/lib/prometheus/node-exporter/gpulab-gpu.prom"
# Only the text files: reading all that node exporter knows may take seconds.
QUERY = "/metrics?collect[]=textfile"
OURS = b"gpulab_collector_timestamp_seconds "
DCGM_QUERY, DCGM = "/metrics", b"DCGM_FI_"
OUTSIDE = ("192.0.2.1", 9)  # RFC 5737, discard; nothing is sent there
_MOST_BYTES = 1 << 22
_LISTEN = re.compile(r"--web\.listen-address=(\S+)")
_DCGM_LISTEN = re.compile(r"DCGM_EXPORTER_LISTEN=(\S+)")
_INTERVAL = re.compile(r"^OnUnitActiveSec=(\d{1,6})$", re.MULTILINE)
_LOCAL = re.compile(r"\|-- (\d+\.\d+\.\d+\.\d+)\n\s*/32 host LOCAL")


def own_addresses(fib_trie: str, if_inet6: str) -> list[str]:
    """Return the node's own addresses, from /proc/net/fib_trie and /proc/net/if_inet6."""
    found = set(_LOCAL.findall(fib_trie))
    for line in if_inet6.splitlines():
        digits = line.partition(" ")[0]
        if re.fullmatch("[0-9a-f]{32}", digits):
            found.add(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits)))
    return sorted(found)


def routed_address() -> str | None:
    """Return the IPv4 address that the default route sends from; None where there is no such route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(OUTSIDE)
        except OSError:
            return None
        return str(probe.getsockname()[0])


def arguments(defaults: str) -> list[str]:
    """Return the arguments that a file of /etc/default gives node exporter in ARGS; none where it cannot be parsed."""
    found = ""
    for line in re.sub(r"\\\n", " ", defaults).splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and name == "ARGS":
            found = value
    try:
        return [word for part in shlex.split(found, comments=True) for word in part.split()]
    except ValueError:
        return []


def answer(address: str, seconds: float, query: str, series: bytes) -> bool | None:
    """Ask an exporter at host:port: whether it serves these series, None where it does not answer."""
    host, _colon, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=seconds)
    try:
        connection.request("GET", query)
        response = connection.getresponse()
        return series in response.read(_MOST_BYTES) if response.status == http.client.OK else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


class _Exporter:
    """An exporter that gpulab told where to listen, and that is asked there, in a child of its own."""

    def __init__(self, told: re.Match[str] | None, seconds: float, query: str, series: bytes) -> None:
        self.listen = told.group(1) if told else None
        self._child = None
        if told:
            address = told.group(1)

            def ask(emit: Emit) -> None:
                emit(answer(address, seconds, query, series))

            self._child = Child(ask, seconds)

    def serves(self) -> bool | None:
        """Return what it answered; None where it did not, or nobody told it where to listen."""
        messages = self._child.messages if self._child and self._child.wait() == DONE else []
        return messages[0] if messages else None


class MonitoringQuery:
    """The facts ``monitoring``; the exporters answer beside the caller's other work."""

    def __init__(self, node: Node, seconds: float) -> None:
        """Ask each where gpulab told it to listen, if it did."""
        self._node = node
        self._exporter = _Exporter(_LISTEN.search(node.text(DROP_IN)), seconds, QUERY, OURS)
        self._dcgm = _Exporter(_DCGM_LISTEN.search(node.text(DCGM_DROP_IN)), seconds, DCGM_QUERY, DCGM)

    def facts(self) -> Monitoring:
        """Return them; collector is None where gpulab watches no GPUs here, listen where gpulab set no address."""
        node = self._node
        return {
            "addresses": own_addresses(node.text("/proc/net/fib_trie"), node.text("/proc/net/if_inet6")),
            "routed_address": routed_address(),
            "exporter": {
                **_answer(self._exporter, installed=node.exists(PROGRAM)),
                "arguments": arguments(node.text(DEFAULTS)),
            },
            "dcgm_exporter": _answer(self._dcgm, installed=node.exists(DCGM_PROGRAM)),
            "collector": _collector(node),
        }


def _answer(exporter: _Exporter, *, installed: bool) -> DcgmExporter:
    serves = exporter.serves()
    return {
        "installed": installed,
        "listen": exporter.listen,
        "answers": None if exporter.listen is None else serves is not None,
        "serves_gpus": serves,
    }


def _collector(node: Node) -> Collector | None:
    interval = _INTERVAL.search(node.text(TIMER))
    if not interval:
        return None
    try:
        # One of the future is of before the clock was set back: as old as it is far away.
        age: int | None = abs(round(time.time() - node.path(METRICS).stat().st_mtime))
    except OSError:
        age = None
    return {"interval_seconds": int(interval.group(1)), "age_seconds": age}
