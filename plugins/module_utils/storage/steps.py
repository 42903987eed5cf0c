# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tiers of storage are brought about with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.lsblk import Device


@dataclass(frozen=True)
class Written:
    """A device that is written to: by this name, and what it was when it was judged; none where it is still to come."""

    name: str
    device: Device | None


@dataclass(frozen=True)
class Step:
    """One thing to do: what it is in words, and its command where it has one.

    kind is one of withdraw, unmount, assemble, array, format, fstab, directory, mount, remount, exports, enable, serve,
    export, disable. devices are those that an array or a format writes to, place is the directory that a step makes or
    is about, text the new text of /etc/fstab or of the file of exports.
    """

    kind: str
    what: str
    argv: tuple[str, ...] = ()
    devices: tuple[Written, ...] = ()
    place: str = ""
    text: str = ""
