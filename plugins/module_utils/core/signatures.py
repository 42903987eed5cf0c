# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures of OpenSSH: of a bundle's list, of a certificate. Each has a purpose, for which alone it counts.

The purpose is the namespace of ssh-keygen -Y, and the name that allowed_signers has for who may sign.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

SIGNERS = "allowed_signers"
SUFFIX = ".sig"


class NotSigned(Exception):  # noqa: N818 - why there is no signature, as ssh-keygen says it
    """A file that could not be signed, or a key that could not be made."""


def make_key(key: Path, purpose: str) -> None:
    """Make a key where there is none, and beside it the file that says it may sign. Raises NotSigned, OSError."""
    key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not key.exists():
        _run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", purpose, "-f", str(key)])
    signers = key.with_name(SIGNERS)
    if not signers.exists():
        public = key.with_suffix(".pub").read_text(encoding="utf-8")
        signers.write_text(f'{purpose} namespaces="{purpose}" {public}', encoding="utf-8")


def sign(path: Path, key: Path, purpose: str) -> None:
    """Write the signature of a file beside it, by a key or by the agent that has it (KEY.pub). Raises NotSigned."""
    path.with_name(path.name + SUFFIX).unlink(missing_ok=True)
    _run(["ssh-keygen", "-q", "-Y", "sign", "-n", purpose, "-f", str(key), str(path)])


def fault(data: bytes, signature: bytes, signers: str, purpose: str) -> str:
    """Return why nobody of these signers has signed the data for this purpose; nothing where one has.

    signers is a text of the form of allowed_signers.
    """
    with tempfile.TemporaryDirectory() as directory:
        allowed, signed = Path(directory) / SIGNERS, Path(directory) / "signature"
        allowed.write_text(signers, encoding="utf-8")
        signed.write_bytes(signature)
        call = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", purpose, "-n", purpose, "-s", str(signed)]
        try:
            done = subprocess.run(call, input=data, capture_output=True, check=False)
        except FileNotFoundError:
            return "there is no ssh-keygen (package openssh-client) to verify it"
    if done.returncode == 0:
        return ""
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    return said[-1] if said else "ssh-keygen says no more"


def _run(call: list[str]) -> None:
    try:
        done = subprocess.run(call, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        message = "there is no ssh-keygen (package openssh-client)"
        raise NotSigned(message) from error
    if done.returncode:
        raise NotSigned(done.stderr.strip())
