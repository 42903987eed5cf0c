# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an installer's tree is made of. No I/O happens here."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core import processors
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

FORM = 3  # of the image; another form is another image
# Made once, when all is there, and not by the kernel's package and by the packages after it: under emulation, each
# takes minutes. The first has INITRD=No in the environment, and the others find none to make again.
NO_INITRAMFS = {"INITRD": "No"}
_INITRAMFS = 'chroot "$1" update-initramfs -c -k all'
# Keys that all machines of this image would share, and a copy of the controller's resolv.conf.
_CLEAR = 'rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/.resolv.conf.systemd-resolved.bak'


@dataclass(frozen=True)
class Recipe:
    """The tree of a system for one architecture, as the kernel names it, and one kind of firmware ("bios" or "uefi").

    sources are the lines of APT's sources.list; keyring is the file on this machine that verifies them.
    """

    system: str
    codename: str
    architecture: str
    firmware: str
    packages: tuple[str, ...]
    sources: tuple[str, ...]
    keyring: str
    form: int = FORM

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"

    def name(self) -> str:
        """Return the name of the image's directory, which follows from all of the recipe."""
        return (
            f"{self.system}-{self.architecture}-{self.firmware}-{hashlib.sha256(self.text().encode()).hexdigest()[:12]}"
        )

    def command(self, mode: str, target: str) -> list[str]:
        """Return the command that makes the tree as a tar archive at target; mode is mmdebstrap's."""
        return [
            "mmdebstrap",
            f"--mode={mode}",
            "--variant=minbase",
            f"--architectures={processors.OF_IMAGES[self.architecture]}",
            "--format=tar",
            f"--keyring={self.keyring}",
            f"--include={','.join(self.packages)}",
            f"--customize-hook={_INITRAMFS}",
            f"--customize-hook={_CLEAR}",
            self.codename,
            target,
            *self.sources,
        ]


def of(
    record: dict[str, Any],
    machine: tuple[str, str],
    mirrors: tuple[str, str],
    packages: list[str],
    keyring: str | None,
) -> Recipe:
    """Return the recipe by a record of catalog/installers.yml.

    machine is an architecture and a kind of firmware; mirrors are the addresses of the archive and of its security
    updates; packages come beside the record's; keyring replaces the record's. Raises Refusal R034 where the record has
    nothing for such a machine.
    """
    architecture, firmware = machine
    own = record["architectures"].get(architecture, {}).get(firmware)
    if own is None:
        detail = f"there is none of {record['system']} for {architecture} with {firmware.upper()}"
        raise refuse("R034", detail=detail)
    components = " ".join(record["components"])
    suites = [
        (mirror, suite) for mirror, kind in zip(mirrors, ("base", "security")) for suite in record["suites"][kind]
    ]
    return Recipe(
        record["system"],
        record["codename"],
        architecture,
        firmware,
        tuple(dict.fromkeys([*own, *record["packages"], *sorted(packages)])),
        tuple(f"deb {address.rstrip('/')} {suite} {components}" for address, suite in suites),
        keyring or record["keyring"],
    )
