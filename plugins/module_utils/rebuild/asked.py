# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the works of a rebuild take: of the capture what they need of it, and of the run who it is."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.accounts import Accounts
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.disks import Disks
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import Entry
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.machine import Machine
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.system import Network


class Judged(Entry, total=False):
    """A captured file that comes back if nothing is in its way.

    names are UUIDs and mapped devices of the former system disk in it, modules those of PAM that it needs, version is
    that of its package, why says why it has to stay away.
    """

    names: list[str]
    modules: list[str]
    version: str
    why: str


@dataclass(frozen=True)
class Part:
    """A part of a file's content, from start on, in Base64; last tells whether it is the last one."""

    sha256: str
    path: str
    start: int
    data: str
    last: bool


@dataclass(frozen=True)
class Asked:
    """What each work takes.

    capture is the name of the one, user who Ansible connects as, minutes how long settings of the network are tried;
    contents are in Base64, by path.
    """

    capture: str
    host: str
    machine: Machine
    user: str
    minutes: int
    entries: list[Judged]
    contents: dict[str, str]

    def decoded(self) -> dict[str, bytes]:
        """Return the contents."""
        return {path: base64.b64decode(data) for path, data in self.contents.items()}


@dataclass(frozen=True)
class WithAccounts(Asked):
    """What the works identity and accounts take."""

    accounts: Accounts


@dataclass(frozen=True)
class WithDisks(Asked):
    """What the work storage takes."""

    disks: Disks


@dataclass(frozen=True)
class WithNetwork(Asked):
    """What the work network takes."""

    network: Network
