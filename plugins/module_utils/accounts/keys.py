# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public keys of people, as a line of a file .pub has them. No message shows their text. No I/O happens here."""

from __future__ import annotations

import base64
import binascii
import struct

KINDS = frozenset(
    {
        "ssh-ed25519",
        "ssh-rsa",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "sk-ssh-ed25519@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
    }
)
LEAST_RSA_BITS = 2048


def body(line: str) -> str:
    """Return what tells a key from others: its kind and its numbers, without the comment."""
    return " ".join(line.split()[:2])


def problem(line: str) -> str | None:
    """Return why a line is no key that a person may have; None where it is one."""
    kind, _space, rest = line.strip().partition(" ")
    if "PRIVATE KEY" in line:
        return "is a private key, which everybody who reads the inventory has now"
    if not line.strip().isprintable():
        return "is more than one line, or no text"
    if kind.startswith("ssh-dss"):
        return "is a DSA key, which sshd does not take"
    if kind not in KINDS:
        has_options = any(word in KINDS for word in rest.split())
        return "has options before the key" if has_options else "is not a public key"
    return _problem_of_body(kind, (rest.split() or [""])[0])


def _problem_of_body(kind: str, text: str) -> str | None:
    fields = _fields(text) or [b""]
    if fields[0] != kind.encode() or len(fields) < 2:  # noqa: PLR2004 - a kind and a number
        return "is damaged"
    bits = int.from_bytes(fields[-1], "big").bit_length()
    return f"is an RSA key of {bits} bits" if kind == "ssh-rsa" and bits < LEAST_RSA_BITS else None


def _fields(text: str) -> list[bytes] | None:
    """Return the fields of a key (RFC 4253, section 6.6), each behind its length; None where it has another form."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    fields = []
    while data:
        length = struct.unpack(">I", data[:4])[0] if len(data) >= 4 else len(data)  # noqa: PLR2004 - bytes of a length
        if len(data) < 4 + length:
            return None
        fields.append(data[4 : 4 + length])
        data = data[4 + length :]
    return fields
