# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenPGP public keys as data: which keys a file holds, by fingerprint. No I/O happens here.

Packets and fingerprints as in RFC 9580, sections 4.2, 5.5.4 and 6. Signatures are not judged; apt does that.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

ARMOR = re.compile(r"-----BEGIN PGP PUBLIC KEY BLOCK-----(.*?)-----END PGP PUBLIC KEY BLOCK-----", re.DOTALL)
PUBLIC_KEY, SECRET_KEY = 6, 5
LIMIT = 0xFFFF  # octets of a key
# Why a file cannot be used
NOT_PUBLIC = "it contains a secret key"
NO_KEY = "it contains no public key"
NOT_ARMORED = "it contains no armored public key"
TOO_LONG = "it contains a key of an impossible length"
NO_PACKETS = "it is not in OpenPGP's format"
NO_LENGTH = "a packet has no length"
CUT_OFF = "it is cut off"
IN_PARTS = "a packet is split into parts"


def fingerprints(data: bytes) -> list[str]:
    """Return the fingerprints (upper-case hex) of the primary keys in a key file, armored or binary.

    Raises ValueError when it holds no public key, a secret key, or is damaged.
    """
    found = []
    packets = dearmor(data.decode("ascii", "replace")) if b"-----BEGIN PGP" in data else data
    while packets:
        tag, body, packets = _next_packet(packets)
        if tag == SECRET_KEY:
            raise ValueError(NOT_PUBLIC)
        if tag == PUBLIC_KEY:
            found.append(_fingerprint(body))
    if not found:
        raise ValueError(NO_KEY)
    return found


def dearmor(text: str) -> bytes:
    """Return the packets of the armored public keys in a text. Raises ValueError when there is none, or damage."""
    blocks = ARMOR.findall(text)
    if not blocks:
        raise ValueError(NOT_ARMORED)
    data = b""
    for block in blocks:
        lines = [line.strip() for line in block.strip("\r\n").splitlines()]
        if "" in lines:  # headers such as Comment end with an empty line
            lines = lines[lines.index("") + 1 :]
        try:
            # The last line, "=" and a checksum, is optional and of no use beside the fingerprint.
            data += base64.b64decode("".join(line for line in lines if not line.startswith("=")), validate=True)
        except binascii.Error as error:
            message = f"its armor is damaged ({error})"
            raise ValueError(message) from error
    return data


def _fingerprint(body: bytes) -> str:
    version, length = body[0] if body else 0, len(body)
    if length > LIMIT:
        raise ValueError(TOO_LONG)
    if version == 4:  # noqa: PLR2004 - the versions of the format
        return hashlib.sha1(b"\x99" + length.to_bytes(2, "big") + body).hexdigest().upper()  # noqa: S324 - the format's
    if version == 6:  # noqa: PLR2004
        return hashlib.sha256(b"\x9b" + length.to_bytes(4, "big") + body).hexdigest().upper()
    message = f"it contains a key of version {version}, which is obsolete"
    raise ValueError(message)


def _next_packet(data: bytes) -> tuple[int, bytes, bytes]:
    """Split off the first packet: its tag, its body, the rest."""
    first = data[0]
    if not first & 0x80:
        raise ValueError(NO_PACKETS)
    if first & 0x40:
        tag, (octets, length) = first & 0x3F, _length(data[1:])
    else:
        tag, octets = (first >> 2) & 0x0F, 1 << (first & 0x03)
        if octets == 8:  # noqa: PLR2004 - the fourth length type: to the end of the file
            raise ValueError(NO_LENGTH)
        length = int.from_bytes(data[1 : 1 + octets], "big")
    end = 1 + octets + length
    if len(data) < end:
        raise ValueError(CUT_OFF)
    return tag, data[1 + octets : end], data[end:]


def _length(data: bytes) -> tuple[int, int]:
    """Read a length of the current format: how many octets it takes, and the length. Keys never come in parts."""
    first = data[0] if data else 0
    if first < 192:  # noqa: PLR2004 - the bounds are the format's
        return 1, first
    if first < 224:  # noqa: PLR2004
        return 2, ((first - 192) << 8) + (data[1] if len(data) > 1 else 0) + 192
    if first < 255:  # noqa: PLR2004
        raise ValueError(IN_PARTS)
    return 5, int.from_bytes(data[1:5], "big")
