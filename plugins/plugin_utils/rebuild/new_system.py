# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a new system: by them it answers as the old one did, until the rebuild. No I/O here."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import ROOT
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import bootstrap_network

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.system import Ssh
    from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import User
    from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.case import Case

AUTHORIZED_KEYS = ".ssh/authorized_keys"
SUDOERS, SSHD = "/etc/sudoers.d/gpulab-reinstall", "/etc/ssh/sshd_config.d/00-gpulab-reinstall.conf"
USUAL_PORT = "22"
_HEAD = "# Written by gpulab for the time until the rebuild\n"


@dataclass(frozen=True)
class NewFile:
    """A file of the new system."""

    content: bytes
    mode: int = 0o644
    uid: int = 0
    gid: int = 0


def files(case: Case, user: User) -> dict[str, NewFile]:
    """Return the files of the new system by path."""
    found, identity, captured = case.found, case.sections.identity, case.captured
    made = {path: NewFile(text.encode()) for path, text in _network(case).items()}
    made["/etc/hostname"] = NewFile(f"{case.hostname}\n".encode())
    hosts = f"127.0.0.1 localhost\n127.0.1.1 {case.hostname}\n::1 localhost\n".encode()
    made["/etc/hosts"] = NewFile(captured.data("/etc/hosts") or hosts)
    if identity.machine_id:
        made["/etc/machine-id"] = NewFile(f"{identity.machine_id}\n".encode(), 0o444)
    for key in case.sections.ssh.host_keys:
        for path, mode in ((key.path, 0o600), (f"{key.path}.pub", 0o644)):
            if path in captured.paths:
                made[path] = NewFile(captured.data(path), mode)
    sshd = "".join(_sshd(case.sections.ssh))
    if sshd:
        made[SSHD] = NewFile(f"{_HEAD}{sshd}".encode())
    if found.authorized_keys.strip():
        keys = found.authorized_keys.rstrip("\n").encode("utf-8", "surrogateescape") + b"\n"
        made[posixpath.join(user["home"], AUTHORIZED_KEYS)] = NewFile(keys, 0o600, user["uid"], user["gid"])
    if user["name"] != ROOT:
        made[SUDOERS] = NewFile(f"{_HEAD}{user['name']} ALL=(ALL:ALL) NOPASSWD: ALL\n".encode(), 0o440)
    return made


def _network(case: Case) -> dict[str, str]:
    """Return the texts of files that set up the network, by path."""
    network = case.sections.network
    if case.wishes.network:
        given = {f"{bootstrap_network.DIRECTORY}/{name}": text for name, text in case.wishes.network.items()}
        return {**given, **bootstrap_network.resolv(network.dns)}
    return bootstrap_network.files(network, bootstrap_network.needed(network, case.found.server, case.found.client))


def _sshd(ssh: Ssh) -> Iterator[str]:
    """Yield the lines by which the new sshd answers where the old one did, and with its keys."""
    ports = [port for port in ssh.options.get("Port", ()) if port.isdigit()]
    if ports and ports != [USUAL_PORT]:
        yield from (f"Port {port}\n" for port in dict.fromkeys(ports))
    paths = [one.path for one in ssh.host_keys]
    if any(posixpath.dirname(path) != "/etc/ssh" for path in paths):
        yield from (f"HostKey {path}\n" for path in paths)
