# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of /etc/fstab. See fstab(5); type and options may be left out, as systemd and mount(8) take such lines."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.mount_table import unescaped

if TYPE_CHECKING:
    from collections.abc import Collection

SWAP = "swap"
_LEAST = 2  # fields of a line


@dataclass(frozen=True)
class Line:
    """A line; fields are as they are written."""

    fields: tuple[str, ...]

    @property
    def source(self) -> str:
        """What is mounted."""
        return unescaped(self.fields[0])

    @property
    def mount(self) -> str:
        """Where it is mounted, without a slash at the end; what a line of swap has there is no path."""
        place = unescaped(self.fields[1])
        return posixpath.normpath(place) if place.startswith("/") else place

    @property
    def type(self) -> str:
        """The type of its file system; "" where it is left out."""
        return self.fields[2] if len(self.fields) > 2 else ""  # noqa: PLR2004

    @property
    def options(self) -> tuple[str, ...]:
        """Its options; none where they are left out."""
        return tuple(self.fields[3].split(",")) if len(self.fields) > 3 else ()  # noqa: PLR2004

    @property
    def place(self) -> str:
        """Where it is mounted; for swap, what it is."""
        return self.source if self.type == SWAP else self.mount

    def with_(self, source: str | None = None, options: Collection[str] | None = None) -> Line:
        """Return the line with another source, or with other options."""
        fields = [*self.fields, *("auto", "defaults")[max(0, len(self.fields) - _LEAST) :]]
        if source is not None:
            fields[0] = source
        if options is not None:
            fields[3] = ",".join(options) or "defaults"
        return Line(tuple(fields))

    def __str__(self) -> str:
        """Return it as the file has it."""
        return " ".join(self.fields)


def parse(text: str) -> list[Line]:
    """Return the lines that name a file system and a place."""
    found = (line.split() for line in text.splitlines() if not line.lstrip().startswith("#"))
    return [Line(tuple(fields)) for fields in found if len(fields) >= _LEAST]
