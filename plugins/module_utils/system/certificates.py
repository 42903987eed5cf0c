# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PEM certificates as data, and connections that trust them."""

from __future__ import annotations

import hashlib
import re
import ssl
from typing import TYPE_CHECKING
from urllib.request import HTTPSHandler, build_opener

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

PEM = re.compile(r"-----BEGIN CERTIFICATE-----\s+[A-Za-z0-9+/=\s]+?-----END CERTIFICATE-----")


def split(text: str) -> dict[str, str]:
    """Return the certificates of a PEM file or bundle: SHA-256 fingerprint (hex) to PEM text.

    Raises ValueError when a block between the markers is not base64.
    """
    certificates: dict[str, str] = {}
    for block in PEM.findall(text):
        try:
            der = ssl.PEM_cert_to_DER_cert(block)
        except ValueError as error:
            message = f"certificate block {len(certificates) + 1} is not base64: {error}"
            raise ValueError(message) from error
        certificates[hashlib.sha256(der).hexdigest()] = ssl.DER_cert_to_PEM_cert(der)
    return certificates


def plan(wanted: dict[str, str], ours: dict[str, str], trusted: set[str]) -> tuple[dict[str, str], list[str]]:
    """Return (to add, to remove) by fingerprint.

    wanted and ours map fingerprints to PEM texts: what is asked for, and what gpulab installed before. trusted holds
    the fingerprints that the node trusts without us; those are left alone.
    """
    add = {print_: pem for print_, pem in wanted.items() if print_ not in trusted and print_ not in ours}
    return add, sorted(set(ours) - set(wanted))


def trusting(further: str) -> ssl.SSLContext:
    """Return a context that trusts the machine's authorities and further ones (PEM). Raises ValueError.

    It is no stricter than APT and SSSD: Python from 3.13 on takes no authority that does not say what its key is for
    (ssl.VERIFY_X509_STRICT), which many labs' own ones do not.
    """
    context = ssl.create_default_context()
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if further:
        context.load_verify_locations(cadata="\n".join(split(further).values()))
    return context


def opener(further: str = "") -> OpenerDirector:
    """Return what opens addresses, and trusts as trusting() says. Raises ValueError."""
    return build_opener(HTTPSHandler(context=trusting(further)))
