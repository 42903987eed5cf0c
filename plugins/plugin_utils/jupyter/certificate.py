# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a certificate and a key serve an address, for long enough. No message shows anything of the key."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

with suppress(ImportError):  # ansible-core brings it, and its own tests of imports do without
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

DAYS = 14  # which it has to be good for


def faults(host: str, name: str, certificate: str, key: str, now: datetime | None = None) -> Iterator[Refusal]:
    """Yield J001 to J003 for texts of PEM files; name is that of the address, host the node's for the messages.

    now is a time with its zone; unset is this moment.
    """
    try:
        first = x509.load_pem_x509_certificates(certificate.encode())[0]
    except ValueError:
        yield refuse("J001", host=host, problem="the certificate is missing, or is no PEM")
        return
    problem = _of_key(first, key)
    if problem:
        yield refuse("J001", host=host, problem=problem)
    names = _names(first)
    if not any(_fits(name.lower(), pattern.lower()) for pattern in names):
        yield refuse("J002", host=host, name=name, names=", ".join(names) or "no name")
    begin, end = first.not_valid_before_utc, first.not_valid_after_utc
    now = now or datetime.now(timezone.utc)
    if begin > now or end < now + timedelta(days=DAYS):
        yield refuse("J003", host=host, begin=begin.date(), end=end.date(), days=DAYS)


def _of_key(certificate: x509.Certificate, text: str) -> str | None:
    """Return what is wrong with a key; None where it is the certificate's."""
    try:
        key = load_pem_private_key(text.encode(), password=None)
    except TypeError:
        return "the key has a passphrase"
    except ValueError:
        return "the key is missing, or is no PEM"
    public = [
        part.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        for part in (certificate.public_key(), key.public_key())
    ]
    return None if public[0] == public[1] else "the key is that of another certificate"


def _names(certificate: x509.Certificate) -> list[str]:
    """Return the names and addresses that browsers take a certificate for: none of its subject."""
    try:
        given = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*given.get_values_for_type(x509.DNSName), *map(str, given.get_values_for_type(x509.IPAddress))]


def _fits(name: str, pattern: str) -> bool:
    """Tell whether a name is the one of a certificate; an asterisk stands for its first part."""
    return name == pattern or (pattern.startswith("*.") and name.partition(".")[2] == pattern[2:])
