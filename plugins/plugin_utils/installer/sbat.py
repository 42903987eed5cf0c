# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which boot loaders shim revokes. No I/O happens here.

Under Secure Boot, shim starts a loader, and itself, only if each component in its section .sbat is of the generation
that the firmware's variable SbatLevel asks for, or of a later one. An update of another system on the machine may have
raised it. Source: SBAT.md in the sources of shim.
"""

from __future__ import annotations

import struct

from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

_SECTION = 40  # bytes of a section's header in a PE file
_LEAST_FIELDS = 2


def components(text: str) -> dict[str, int]:
    """Return the generation of each component, by lines such as "grub.debian,4,..."."""
    lines = [line.split(",") for line in text.replace("\0", "").splitlines()]
    return {
        fields[0]: int(fields[1]) for fields in lines if len(fields) >= _LEAST_FIELDS and fields[1].strip().isdecimal()
    }


def of_loader(content: bytes) -> dict[str, int]:
    """Return the components of a boot loader, a PE file. Raises ValueError where it has no section .sbat."""
    found = None
    try:
        (start,) = struct.unpack_from("<I", content, 0x3C)
        sections, optional = struct.unpack_from("<6xH12xH", content, start)
        table = start + 24 + optional
        for place in range(table, table + sections * _SECTION, _SECTION):
            name, size, _address, _raw_size, offset = struct.unpack_from("<8sIIII", content, place)
            if name.rstrip(b"\0") == b".sbat":
                found = content[offset : offset + size].decode("utf-8", "replace")
    except struct.error as error:
        raise ValueError(str(error)) from error
    if found is None:
        raise ValueError(".sbat")
    return components(found)


def check(host: str, level: str | None, path: str, loader: dict[str, int], way: str) -> None:
    """Raise Refusal R038 where a machine's shim revokes a boot loader.

    level is what its firmware asks for, None where it does not; loader are the components of the one at path; way is
    how to get a later one.
    """
    asked = components(level or "")
    revoked = [
        f"{name} {generation} ({asked[name]} is asked for)"
        for name, generation in loader.items()
        if generation < asked.get(name, 0)
    ]
    if revoked:
        raise refuse("R038", host=host, path=path, revoked=", ".join(revoked), way=way)
