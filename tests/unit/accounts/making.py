"""Keys as ssh-keygen writes them; of none is there a private one."""

import base64
import struct


def line(kind, *fields):
    """Return a public key of a kind, with these fields."""
    data = b"".join(struct.pack(">I", len(field)) + field for field in (kind.encode(), *fields))
    return f"{kind} {base64.b64encode(data).decode()} somebody@laptop"


def rsa(bits):
    """Return an RSA key of so many bits."""
    return line("ssh-rsa", b"\1\0\1", (1 << bits - 1 | 1).to_bytes(bits // 8 + 1, "big"))


ED25519, OTHER = (line("ssh-ed25519", bytes([first]) * 32) for first in (7, 9))
RSA_1024, RSA_2048 = rsa(1024), rsa(2048)
DSA = line("ssh-dss", b"\1" * 20)
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----"
