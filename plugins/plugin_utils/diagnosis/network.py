# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why the network fails a program: names, ports, servers, certificates, proxies."""

from __future__ import annotations

import ipaddress
import time
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import asked as pasted
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.reach import (
    OPEN,
    REFUSED,
    SILENT,
    UNREACHABLE,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.ending import ask
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.hang import ranks
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import (
    MOST,
    NETWORK,
    SOME,
    STOPS,
    Finding,
    named,
    rule,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import ExaminedProcess
    from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Case

TORCHRUN = "https://docs.pytorch.org/docs/stable/elastic/run.html"
RESOLVER = "https://man7.org/linux/man-pages/man3/getaddrinfo.3.html"
TLS = "https://docs.openssl.org/master/man1/openssl-verification-options/"
PROXY = "https://docs.python.org/3/library/urllib.request.html"
FIREWALL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"
SHOW = "openssl s_client -connect {} </dev/null | openssl x509 -noout -{}"
FREE_PORT = "$(python3 -c 'import socket; s = socket.socket(); s.bind((\"\", 0)); print(s.getsockname()[1])')"


@rule("network-port-taken", NETWORK, TORCHRUN)
def port_taken(case: Case) -> Iterator[Finding]:
    """Name who has the port that a program could not take."""
    error = case.asked.error or ""
    job = case.job
    for one in case.evidence.listeners:
        taken = pasted.is_taken(error)
        if not taken and (not job or one.pid in job or one.pid is None):
            continue  # the job has it itself
        if not taken and not _is_first(case):
            continue
        who = f"{one.command} (PID {one.pid}, user {one.user})" if one.pid else "a process of another namespace"
        yield Finding(
            f"port {one.port} is taken by {who}",
            f"torchrun --master-port {FREE_PORT} ... Or: {ask(case, [one.pid])}"
            if one.pid
            else f"docker ps --filter publish={one.port} names its container",
            STOPS,
            (f"{one.command} listens on port {one.port}",),
        )


def _is_first(case: Case) -> bool:
    """Tell whether the first rank of the job is on this node: it alone needs the port."""
    return any(record.environment.get("RANK") == "0" for record in case.processes)


@rule("network-name", NETWORK, RESOLVER)
def name(case: Case) -> Iterator[Finding]:
    """Find names that cannot be resolved, the node's own among them."""
    own = case.evidence.hostname
    for one in case.evidence.names:
        if one.problem:
            yield Finding(
                f"the name {one.name} cannot be resolved: {one.problem}",
                f"Correct the name, or say its address: echo 'ADDRESS {one.name}' >> /etc/hosts; resolvectl status "
                "shows the DNS servers",
                STOPS,
                (f"getent hosts {one.name}: {one.problem}",),
            )
    if own and own.problem:
        yield Finding(
            f"the node cannot resolve its own name, {own.name}: torchrun, Gloo and MPI fail",
            f"echo '127.0.1.1 {own.name}' >> /etc/hosts; with gpulab: network_state: present",
            MOST,
            (own.problem,),
        )


@rule(
    "network-loopback-name",
    NETWORK,
    "https://docs.pytorch.org/docs/stable/distributed.html#common-environment-variables",
)
def loopback(case: Case) -> Iterator[Finding]:
    """Find a job over nodes on a node whose own name leads to itself only: the others are told 127.0.1.1."""
    own = case.evidence.hostname
    if not own or not own.addresses or not all(ipaddress.ip_address(one).is_loopback for one in own.addresses):
        return
    over_nodes = [
        group[0]
        for job in ranks(case).values()
        for group in job.values()
        if _number(group[0], "WORLD_SIZE") > _number(group[0], "LOCAL_WORLD_SIZE") > 0
        and "GLOO_SOCKET_IFNAME" not in group[0].environment
    ]
    interface = next((one["name"] for one in case.facts.get("network", []) if one.get("default_route")), "eth0")
    if over_nodes:
        yield Finding(
            f"this node's name, {own.name}, leads to {own.addresses[0]}, which it tells the job's other nodes",
            f"export GLOO_SOCKET_IFNAME={interface} NCCL_SOCKET_IFNAME={interface}; for good: the node's address before"
            " its name in /etc/hosts (network_state: present)",
            STOPS,
            (f"getent hosts {own.name}: {', '.join(own.addresses)}",),
        )


def _number(record: ExaminedProcess, variable: str) -> int:
    text = record.environment.get(variable, "")
    return int(text) if text.isdigit() else 0


@rule("network-server", NETWORK, FIREWALL)
def server(case: Case) -> Iterator[Finding]:
    """Say how a server that a program needs answers, and so what keeps it away."""
    proxies = {(one.host, one.port) for one in case.evidence.proxies}
    for one in case.evidence.servers:
        place = f"{one.host}:{one.port}"
        if (one.host, one.port) in proxies:
            continue
        if one.state == REFUSED:
            yield Finding(
                f"nothing listens at {place}",
                f"Start the program there (rank 0 of a job first); on {one.host}: ss -ltnp 'sport = {one.port}'",
                STOPS,
                ("connection refused",),
            )
        elif one.state in (SILENT, UNREACHABLE):
            way = "a firewall drops the connection, or the machine is down" if one.state == SILENT else "no route"
            yield Finding(
                f"{place} does not answer: {way}",
                f"On {one.host}: firewall-cmd --list-all, ufw status or nft list ruleset; here: ip route get "
                f"{one.host}",
                STOPS,
                (one.state,),
            )


@rule("network-certificate", NETWORK, TLS)
def certificate(case: Case) -> Iterator[Finding]:
    """Say what is wrong with a server's certificate, and whether the node's clock is the cause."""
    for one in case.evidence.servers:
        found = one.certificate
        if one.state != OPEN or not found:
            continue
        place = f"{one.host}:{one.port}"
        clock = case.facts.get("system.clock_synchronized")
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        problem = found.problem
        if "expired" in problem or "not yet valid" in problem:
            remedy = (
                "timedatectl set-ntp true: this node's clock is not synchronised"
                if clock is False
                else f"Its owner has to renew it: {SHOW.format(place, 'dates')}"
            )
            text = f"the certificate of {place} holds from {found.starts} until {found.ends}"
        elif "hostname" in problem.lower() or "mismatch" in problem.lower():
            remedy = f"Use the name that it was made for: {SHOW.format(place, 'ext subjectAltName')}"
            text = f"the certificate of {place} was made for another name"
        else:
            remedy = (
                "Add its authority's certificate to base_ca_certificates; for Python: export "
                "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"
            )
            text = f"the certificate of {place} is not trusted"
        yield Finding(text, remedy, STOPS, (problem, f"it is now {now}"))


@rule("network-proxy", NETWORK, PROXY)
def proxy(case: Case) -> Iterator[Finding]:
    """Find a proxy that does not answer, and a job that sends its rendezvous through one."""
    states = {(one.host, one.port): one.state for one in case.evidence.servers}
    told = set()
    for one in case.evidence.proxies:
        place = one.host, one.port
        if states.get(place, OPEN) != OPEN and place not in told:
            told.add(place)
            variables = " ".join(other.variable for other in case.evidence.proxies if (other.host, other.port) == place)
            yield Finding(
                f"the proxy {one.host}:{one.port} of {one.variable} does not answer ({states[place]})",
                f"unset {variables}; or correct it in /etc/environment",
                STOPS,
                (f"{one.host}:{one.port}: {states[place]}",),
            )


@rule(
    "network-interface",
    NETWORK,
    "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname",
)
def interface(case: Case) -> Iterator[Finding]:
    """Find an interface that a program is told to use and that does not exist, or is down."""
    there = {one["name"]: one for one in case.facts.get("network", [])}
    best = next((name for name, one in there.items() if one.get("default_route")), None)
    for record in case.processes if there else ():
        for variable in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            value = record.environment.get(variable, "")
            if not value or value.startswith("^") or value.lstrip("=") == "lo":
                continue
            matching = _matching(value, there, exact=variable.startswith("GLOO"))
            if not any(there[name].get("up") for name in matching):
                yield Finding(
                    f"{named(record)} is told to use {value}, which "
                    + ("is down" if matching else "this node does not have"),
                    f"export {variable}={best}" if best else f"unset {variable}",
                    STOPS,
                    (f"{variable}={value}; there are {', '.join(there)}",),
                )


def _matching(value: str, there: Iterable[str], *, exact: bool) -> list[str]:
    """Return the interfaces that a variable names, by the beginnings of their names unless it is exact or has a =."""
    wanted = value.lstrip("=").split(",")
    if exact or value.startswith("="):
        return [name for name in there if name in wanted]
    return [name for name in there if name.startswith(tuple(wanted))]


@rule("network-clock", NETWORK, "https://man7.org/linux/man-pages/man2/adjtimex.2.html")
def clock(case: Case) -> Iterator[Finding]:
    """Find a clock that nobody keeps in time."""
    if case.facts.get("system.clock_synchronized") is False and not case.facts.get("system.container"):
        services = case.facts.get("system.clock_services", [])
        yield Finding(
            "the node's clock is not synchronised: certificates, tokens and jobs over nodes fail",
            f"systemctl enable --now {services[0]}" if services else "timedatectl set-ntp true",
            SOME,
            ("adjtimex says unsynchronised",),
        )
