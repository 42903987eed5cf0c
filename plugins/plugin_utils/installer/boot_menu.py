# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What GRUB does on installation media: it knows the machine by its DMI UUID, and starts that machine's installer.

The same files are in the ISO image and in the folder for network boot. No I/O happens here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = 30  # for a person at the console
SECONDS_INSTALLED = 5
HOSTS = "gpulab/hosts"


@dataclass(frozen=True)
class Entry:
    """How one host is installed.

    host is its name as that of a file, machine its DMI UUID, disk the one that is wiped, in words. kernel and initrds
    are paths on the media, arguments the kernel's. installed is what GRUB's search finds once the host was installed by
    these media: ("--fs-uuid", UUID) or ("--file", path). unattended says whether it installs without being asked.
    """

    host: str
    machine: str
    disk: str
    kernel: str
    initrds: Sequence[str]
    arguments: Sequence[str]
    installed: tuple[str, str]
    unattended: bool


def main(entries: Sequence[Entry]) -> str:
    """Return grub.cfg, which goes on with the file of the machine's host."""
    chosen = "".join(
        f'if [ "$machine" = "{one.machine.lower()}" ]; then\n  configfile /{HOSTS}/{one.host}.cfg\nfi\n'
        for one in entries
    )
    known = "".join(f'echo "  {one.machine.lower()}  {one.host}"\n' for one in entries)
    return f"""\
if serial --unit=0 --speed=115200; then
  terminal_input console serial
  terminal_output console serial
fi
smbios --type 1 --get-uuid 8 --set=machine
{chosen}echo "gpulab: these media are not for this machine. Its DMI UUID is $machine; the media are for:"
{known}echo "Nothing was written. In {SECONDS} seconds, the machine goes on as if they were not there."
sleep --interruptible {SECONDS}
exit
"""


def _text(words: str) -> str:
    """Return a text for between double quotes of GRUB's language."""
    return re.sub(r'[^ -~]|["$\\`]', "?", words)


def of_host(entry: Entry) -> str:
    """Return the menu of a host: install it, or start what is on its disk, the default once it is installed."""
    how, what = entry.installed
    initrds = " ".join(f"/{path}" for path in entry.initrds)
    unit = re.search(r"console=ttyS(\d)(?:,(\d+))?", " ".join(entry.arguments))
    port = f"serial --unit={unit[1]} --speed={unit[2] or 115200}\n" if unit else ""
    return f"""\
{port}set default={"install" if entry.unattended else "disk"}
set timeout={SECONDS}
search --no-floppy {how} --set=installed {what}
if [ -n "$installed" ]; then
  set default=disk
  set timeout={SECONDS_INSTALLED}
fi
menuentry "Install {entry.host}: wipe the disk with the {_text(entry.disk)}, and no other" --id install {{
  echo "gpulab: loading the installer of {entry.host}"
  linux /{entry.kernel} {" ".join(entry.arguments)}
  initrd {initrds}
}}
menuentry "Install nothing: start what is on the disk" --id disk {{
  if [ "$grub_platform" = pc -a -n "$installed" ]; then
    regexp --set=1:disk '^(hd[0-9]+)' "$installed"
    set root="$disk"
    chainloader +1
    boot
  fi
  exit
}}
"""
