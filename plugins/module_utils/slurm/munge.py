# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a MUNGE key: whoever knows it is root on every node of a cluster. No I/O happens here."""

from __future__ import annotations

from collections import Counter

LEAST = 32  # bytes, as mungekey(8) demands
MOST = 1024
_VARIED = 16  # different bytes; a random key of 32 bytes has fewer once in more than 10**12 keys
_CRYPT = (b"$1$", b"$2", b"$5$", b"$6$", b"$y$")  # crypt(5): a password's hash, as DeepOps writes one
_WELL_KNOWN = (b"deepops", b"munge", b"slurm", b"password", b"changeme", b"default", b"example", b"secret")


def problem(key: bytes) -> str | None:
    """Say in a few words why a key is not to be used, without showing it; None where it may be."""
    if len(key) < LEAST:
        return f"{len(key)} bytes long, less than {LEAST}"
    if len(key) > MOST:
        return f"{len(key)} bytes long, more than {MOST}"
    if key.startswith(_CRYPT):
        return "the hash of a password"
    if any(word in key.lower() for word in _WELL_KNOWN):
        return "an example's, or made of a word"
    if len(Counter(key)) < _VARIED:
        return "not random"
    return None
