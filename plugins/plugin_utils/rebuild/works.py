# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which work of a rebuild brings back a captured path, or why none does. No I/O here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Iterable

# The first work whose pattern fits counts; what is left is of the work files.
PATTERNS = {
    "accounts": ("/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow", "/etc/subuid", "/etc/subgid"),
    "identity": (
        "/etc/hostname",
        "/etc/machine-id",
        "/etc/machine-info",
        "/var/lib/dbus/machine-id",
        "/etc/localtime",
        "/etc/timezone",
        "/etc/adjtime",
        "/etc/locale.conf",
        "/etc/default/locale",
        "/etc/default/keyboard",
        "/etc/vconsole.conf",
        "/etc/hosts",
        "/etc/ssh/ssh_host_*",
        "/etc/ssh/sshd_config",
        "/etc/ssh/sshd_config.d/**",
    ),
    "storage": ("/etc/fstab", "/etc/crypttab", "/etc/mdadm/mdadm.conf", "/etc/mdadm.conf"),
    "network": (
        "/etc/netplan/**",
        "/etc/network/**",
        "/etc/NetworkManager/**",
        "/etc/sysconfig/network-scripts/**",
        "/etc/systemd/network/**",
        "/etc/udev/rules.d/*persistent-net*",
        "/etc/resolv.conf",
    ),
}
FILES = "files"


class Works:
    """The works of a manifest's paths; the files that crypttab names as keys are of the work storage."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        """Read which keys there are."""
        keys = [line["key"] for line in manifest["sections"].get("disks", {}).get("crypttab", ()) if line["key"]]
        self._rules = Rules([*((key, "storage") for key in keys), *_pairs()])

    def of(self, path: str) -> str:
        """Return the work of a path."""
        return self._rules.find(path) or FILES


def _pairs() -> Iterable[tuple[str, str]]:
    return ((pattern, work) for work, patterns in PATTERNS.items() for pattern in patterns)
