# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the node grants to programs: locked memory, open files, shared memory."""

from __future__ import annotations

import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Union

from ansible_collections.gpulab.node.plugins.module_utils.core.unit_states import properties

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.services import Limits

Limit = Union[int, str, None]  # bytes or files, "unlimited", None where nobody says

PAM_FILES = "/etc/security/limits.d"
PAM_FILE = "/etc/security/limits.conf"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a place to measure, nothing is written
LIMITS = ("memlock", "nofile", "stack")
# Programs live with the soft limit of locked memory, and raise that of open files to the hard one by themselves.
SYSTEMD = {"memlock": "DefaultLimitMEMLOCKSoft", "nofile": "DefaultLimitNOFILE"}
PAM_TYPES = {"memlock": "soft", "nofile": "hard"}
PAM_UNITS = {"memlock": 1024, "nofile": 1}
UNLIMITED = "unlimited"
_MIB = 1 << 20


def limit(text: str, unit: int = 1) -> Limit:
    """Parse a limit: a number of units, or one of the words for none."""
    if text in ("unlimited", "infinity", "-1"):
        return UNLIMITED
    return int(text) * unit if re.fullmatch(r"[0-9]{1,20}", text) else None


def granted(text: str) -> dict[tuple[str, str], str]:
    """Parse limits.conf(5) for what every user (*) gets: values by item and type, soft or hard; the last wins."""
    found = {}
    for line in text.splitlines():
        fields = line.partition("#")[0].split()
        if len(fields) == 4 and fields[0] == "*":  # noqa: PLR2004 - domain, type, item, value
            _domain, kind, item, value = fields
            found.update(dict.fromkeys([(item, one) for one in (("soft", "hard") if kind == "-" else (kind,))], value))
    return found


def pam_limits(text: str) -> dict[str, Limit]:
    """Return what limits.conf(5) grants to programs of every user; what it says nothing of is left out."""
    values = granted(text)
    return {
        item: limit(values[item, kind], PAM_UNITS[item]) for item, kind in PAM_TYPES.items() if (item, kind) in values
    }


def systemd_limits(text: str) -> dict[str, Limit]:
    """Parse what ``systemctl show`` prints of systemd's own defaults."""
    said = properties(text)
    return {name: limit(said.get(key, "")) for name, key in SYSTEMD.items()}


class LimitTexts:
    """What systemd and the files of limits.conf(5) say of LIMITS; systemd answers beside the caller's other work."""

    def __init__(self, node: Node) -> None:
        """Ask systemd for the defaults of services, which sessions inherit."""
        self._node = node
        names = [f"DefaultLimit{limit.upper()}{soft}" for limit in LIMITS for soft in ("", "Soft")]
        self._job = node.start(["systemctl", "show", f"--property={','.join(names)}"])

    @cached_property
    def systemd(self) -> str:
        """What ``systemctl show`` printed; empty where there is no systemd."""
        return self._job.output() or ""

    @cached_property
    def pam(self) -> str:
        """The text of all files, in the order in which PAM reads them."""
        names = [name for name in self._node.names(PAM_FILES) if name.endswith(".conf")]
        return "\n".join(self._node.text(file) for file in (PAM_FILE, *(f"{PAM_FILES}/{name}" for name in names)))


def read(node: Node, texts: LimitTexts) -> Limits:
    """Return {"services", "sessions", "shared_memory_mib"}.

    services and sessions are {"memlock": bytes, "nofile": files}; sessions are those of users other than root.
    """
    services = systemd_limits(texts.systemd)
    return {
        "services": services,
        "sessions": {**services, **pam_limits(texts.pam)},
        "shared_memory_mib": _shared_memory(node),
    }


def _shared_memory(node: Node) -> int | None:
    try:
        size = os.statvfs(node.path(SHARED_MEMORY))
    except OSError:
        return None
    return size.f_blocks * size.f_frsize // _MIB
