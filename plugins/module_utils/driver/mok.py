# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The key with which DKMS signs kernel modules, and how it stands with the firmware. Reads, writes nothing.

With Secure Boot on, the kernel loads a module only if the key that signed it is among shim's machine owner keys (MOK).
mokutil asks for one to be added, and shim adds it at the next boot, when somebody at the console agrees.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

CONFIGURATION = "/etc/dkms/framework.conf"
EFIVARS = "/sys/firmware/efi/efivars"
MOK_VARIABLES = "/sys/firmware/efi/mok-variables"  # what is too large for the firmware is whole here
SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"
BUILT = "var/lib/dkms"

MISSING, HALF = "missing", "half"  # no pair; one file of it, which DKMS would overwrite
ABSENT, PENDING, ENROLLED = "absent", "pending", "enrolled"  # for the firmware
UNKNOWN = "unknown"


@dataclass(frozen=True)
class KeyPair:
    """Where both halves of the key lie; the private one may be in a token instead (pkcs11:...)."""

    private: str
    certificate: str

    @property
    def files(self) -> tuple[str, ...]:
        """Return the files of the pair."""
        return (self.certificate,) if self.private.startswith("pkcs11:") else (self.private, self.certificate)


OF_DKMS = KeyPair("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub")
OF_UBUNTU = KeyPair("/var/lib/shim-signed/mok/MOK.priv", "/var/lib/shim-signed/mok/MOK.der")


def key_pair(node: Node, distribution: str) -> KeyPair:
    """Return the pair that DKMS uses on this distribution, whether it is there or not."""
    named = [f"{CONFIGURATION}.d/{name}" for name in node.names(f"{CONFIGURATION}.d") if name.endswith(".conf")]
    texts = "\n".join(map(node.text, [CONFIGURATION, *named]))
    chosen = dict(re.findall(r"""^\s*(mok_signing_key|mok_certificate)=["']?([^"'\s]+)""", texts, re.MULTILINE))
    if distribution == "ubuntu" and "mok_signing_key" not in chosen:
        return OF_UBUNTU
    return KeyPair(chosen.get("mok_signing_key", OF_DKMS.private), chosen.get("mok_certificate", OF_DKMS.certificate))


def standing(node: Node, pair: KeyPair) -> str:
    """Tell how the key stands: MISSING, HALF, ABSENT, PENDING, ENROLLED or UNKNOWN."""
    there = [node.exists(path) for path in pair.files]
    if not all(there):
        return HALF if any(there) else MISSING
    certificate = node.data(pair.certificate)
    if not certificate:
        return UNKNOWN
    enrolled, pending = _variables(node, "MokListRT"), _variables(node, "MokNew")
    for state, contents in ((ENROLLED, enrolled), (PENDING, pending)):
        if any(certificate in content for content in contents if content):
            return state
    return UNKNOWN if None in [*enrolled, *pending] else ABSENT


def accepts(node: Node, pair: KeyPair, signer: str, serial: str) -> bool | None:
    """Tell whether the key that signed a module is enrolled; None where nobody knows, as of a distribution's own key.

    signer and serial are what modinfo prints: the name in the key's certificate, and its serial number (5c:28:...).
    DKMS' keys are all of one name, so that a module may be signed by one that was there before.
    """
    try:
        digits = bytes.fromhex(serial.replace(":", ""))
        whole = b"\0" + digits if digits[:1] >= b"\x80" else digits  # DER's numbers have a sign
        number = bytes([2, len(whole)]) + whole
    except ValueError:
        return None
    enrolled = _variables(node, "MokListRT")
    if any(number in content for content in enrolled if content):
        return True
    certificate = node.data(pair.certificate) or b""
    of_dkms = number in certificate or signer.encode() in certificate
    return False if of_dkms and None not in enrolled else None


def _variables(node: Node, name: str) -> list[bytes | None]:
    """Return what an EFI variable of shim's holds: lists of whole certificates, one after the other, maybe in parts."""
    parts = [part for part in node.names(EFIVARS) if re.fullmatch(rf"{name}\d*-{SHIM}", part)]
    paths = [*(f"{EFIVARS}/{part}" for part in parts), f"{MOK_VARIABLES}/{name}"]
    return [node.data(path) for path in paths if node.exists(path)]


def fingerprint(certificate: bytes) -> str:
    """Return a certificate's fingerprint as mokutil prints it."""
    return hashlib.sha1(certificate, usedforsecurity=False).digest().hex(":")


def listed(output: str) -> list[str]:
    """Return the fingerprints in what ``mokutil --list-new`` printed."""
    return re.findall(r"^SHA1 Fingerprint: ([0-9a-f:]+)$", output, re.MULTILINE)


def maker(pair: KeyPair, usage_of_dkms: str) -> list[str]:
    """Return the command by which this DKMS would make its pair; usage_of_dkms is empty where DKMS is not there yet.

    On Ubuntu, ``dkms generate_mok`` would ask for the enrolment, too, in a dialogue.
    """
    if pair == OF_UBUNTU:
        return ["update-secureboot-policy", "--new-key"]
    if "generate_mok" in usage_of_dkms:
        return ["dkms", "generate_mok"]
    return [
        *("openssl", "req", "-new", "-x509", "-nodes", "-days", "36500", "-subj", "/CN=DKMS module signing key"),
        *("-newkey", "rsa:2048", "-addext", "extendedKeyUsage=codeSigning"),
        *("-keyout", pair.private, "-outform", "DER", "-out", pair.certificate),
    ]


def signs_nothing(node: Node) -> bool:
    """Tell whether there is no module that DKMS has built, and so none that its key signed."""
    return not any(node.path(BUILT).glob("*/*/*/*/module/*.ko*"))


def typeable(password: str) -> bool:
    """Tell whether a password can be typed at shim's console: 8 to 256 printable characters of ASCII."""
    return re.fullmatch(r"[!-~]{8,256}", password) is not None
