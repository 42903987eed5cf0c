# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which work of a rebuild brings back a captured path, or why none does. No I/O here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.capture.rules import Rules
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import LINK
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.software_files import is_of_software

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.disks import Disks
    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import Entry

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
        # Before the packages: DKMS builds modules while they are installed, and would sign them with a new key.
        "/etc/dkms/framework.conf",
        "/etc/dkms/framework.conf.d/*",
        "/var/lib/dkms/mok.*",
        "/var/lib/shim-signed/mok/**",
    ),
    "storage": (
        "/etc/fstab",
        "/etc/crypttab",
        "/etc/cryptsetup-keys.d/**",
        "/etc/mdadm/mdadm.conf",
        "/etc/mdadm.conf",
    ),
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
FILES, SOFTWARE, NOTHING = "files", "software", ""
# What the new system has of its own, what names the former disk, and what programs write again.
OWN = (
    "/etc/*-release",
    "/etc/debian_version",
    "/etc/gpulab-installed-by",
    "/etc/passwd-",
    "/etc/group-",
    "/etc/shadow-",
    "/etc/gshadow-",
    "/etc/subuid-",
    "/etc/subgid-",
    "/etc/rc[0-9S].d/**",
    "/etc/lvm/archive/**",
    "/etc/lvm/backup/**",
    "/etc/lvm/devices/**",
    "/etc/zfs/zpool.cache",
    "/etc/initramfs-tools/conf.d/resume",
    "/etc/blkid.tab",
    "/boot/grub*/device.map",
    "/boot/grub*/grubenv",
)
# What somebody has to repeat by hand, and why.
BY_HAND = {
    "/var/lib/dpkg/diversions": "dpkg keeps it; repeat local ones with dpkg-divert",
    "/var/lib/dpkg/statoverride": "dpkg keeps it; repeat local ones with dpkg-statoverride",
}
CERTIFICATES = "/etc/ssl/certs/"


class Works:
    """The works of a manifest's paths; the keys and headers that crypttab names are of the work storage."""

    def __init__(self, disks: Disks) -> None:
        """Read which keys there are."""
        keys = [path for line in disks.crypttab for path in line.files]
        self._rules = Rules([*((key, "storage") for key in keys), *_pairs()])

    def of(self, entry: Entry) -> str:
        """Return the work of an entry; NOTHING where the new system has its own, SOFTWARE as software_files says."""
        path = entry["path"]
        if is_of_software(path):
            return SOFTWARE
        if path.startswith(CERTIFICATES) and entry["kind"] == LINK:  # update-ca-certificates makes them
            return NOTHING
        found = self._rules.find(path)
        return FILES if found is None else found


def _pairs() -> Iterator[tuple[str, str]]:
    yield from ((pattern, NOTHING) for pattern in OWN)
    yield from ((pattern, work) for work, patterns in PATTERNS.items() for pattern in patterns)
