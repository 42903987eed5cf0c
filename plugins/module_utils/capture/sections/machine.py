# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tells a machine from others, as a capture says it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Release:
    """A system as the facts have it, of which a capture keeps all; family is None for one that gpulab does not know."""

    id: str
    version: str | None
    codename: str | None
    name: str
    family: str | None
    architecture: str


@dataclass(frozen=True)
class Machine:
    """A machine; what its firmware does not tell is empty."""

    dmi_uuid: str
    dmi_serial: str
    product: str
    system: Release

    def same_release(self, other: Machine) -> bool:
        """Tell whether both run the same release."""
        return (self.system.id, self.system.version) == (other.system.id, other.system.version)
