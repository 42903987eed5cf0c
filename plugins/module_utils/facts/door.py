# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a login that is no job of Slurm opens a GPU, where role slurm has closed that door."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import account_files

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import SlurmDoor

POLICY = "/etc/systemd/system/user-.slice.d/50-gpulab-slurm.conf"
# What lets people in: its program, and its file of PAM, which makes a session of what they start.
WAYS = {
    "sshd": "/usr/sbin/sshd",
    "cron": "/usr/sbin/cron",
    "atd": "/usr/sbin/atd",
}
UNITS_OF_CRON = "/usr/lib/systemd/system-generators/systemd-crontab-generator"  # systemd-cron: units of the system
ROOTS = (
    "docker",
    "incus-admin",
    "lxd",
)  # groups whose daemon starts what a member wants, as root and outside of slices
NOBODY = 65534
_GPU = re.compile(r"nvidia\d+")
_SESSION = re.compile(r"^-?session\s.*\bpam_systemd\.so", re.MULTILINE)
_INCLUDED = re.compile(r"^(?:@include|-?session\s+(?:include|substack))\s+(\S+)", re.MULTILINE)
_WITHOUT_PAM = re.compile(r"^\s*UsePAM\s+no\b", re.MULTILINE | re.IGNORECASE)


class DoorQuery:
    """The facts ``slurm.door``; nobody's try to open a GPU goes on beside the caller's other work."""

    def __init__(self, node: Node) -> None:
        """Try, where the door is closed: as a user without rights, in a slice of his as a login gets it."""
        self._node = node
        self._closed = node.exists(POLICY)
        self._device = next(iter(sorted(filter(_GPU.fullmatch, node.names("/dev")))), "")
        if self._closed and self._device:
            self._try = node.start(
                [
                    *("systemd-run", "--quiet", "--pipe", "--wait", "--collect", f"--slice=user-{NOBODY}.slice"),
                    *(f"--uid={NOBODY}", "--setenv=LC_ALL=C", "--property=RuntimeMaxSec=20"),
                    *("sh", "-c", f": < /dev/{self._device}"),
                ]
            )

    def facts(self) -> SlurmDoor | None:
        """Return {"opens", "why", "beside", "as_root"}; None where role slurm has closed nothing.

        opens tells whether the try opened a GPU, None where it could not be made, and why says why. beside has what
        starts programs of people outside of their slices, as_root the people who may let a daemon of root start some.
        """
        if not self._closed:
            return None
        opens, why = self._tried()
        return {"opens": opens, "why": why, "beside": self._beside(), "as_root": self._as_root()}

    def _tried(self) -> tuple[bool | None, str]:
        if not self._device:
            return None, "the node has no device file of a GPU"
        answer = self._try.result()
        if answer is None:
            return None, "systemd-run did not answer in time"
        rc, output, errors = answer
        told = " ".join(f"{output} {errors}".split())
        if rc and "Operation not permitted" in told and self._device in told:
            return False, ""
        if rc and ("Permission denied" in told or self._device not in told):
            return None, f"/dev/{self._device} could not be tried: {told or f'exit status {rc}'}"
        return True, f"/dev/{self._device}"  # whatever a driver says of it, it was asked

    def _beside(self) -> list[str]:
        found = [name for name, program in WAYS.items() if self._node.exists(program) and not self._is_session(name)]
        configuration = ["/etc/ssh/sshd_config", *self._below("/etc/ssh/sshd_config.d")]
        if "sshd" not in found and any(_WITHOUT_PAM.search(self._node.text(path)) for path in configuration):
            found.append("sshd")
        return [*found, *(["systemd-cron"] if self._node.exists(UNITS_OF_CRON) else [])]

    def _below(self, directory: str) -> list[str]:
        return [f"{directory}/{name}" for name in self._node.names(directory)]

    def _is_session(self, service: str) -> bool:
        """Tell whether PAM makes a session of logind's for a service; an included file may do so."""
        if not list(self._node.path("/usr/lib").glob("*/security/pam_systemd.so")):
            return False
        left, read = [service], set()
        while left:
            name = left.pop()
            text = self._node.text(f"/etc/pam.d/{name}")
            if _SESSION.search(text):
                return True
            read.add(name)
            left += [other for other in _INCLUDED.findall(text) if other not in read]
        return False

    def _as_root(self) -> list[str]:
        groups = account_files.groups(self._node.text(account_files.GROUP))
        return sorted({member for group in groups if group.name in ROOTS for member in group.members})
