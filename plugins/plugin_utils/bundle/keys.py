# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two keys that a bundle is signed with: one of OpenSSH for its list, one of OpenPGP for the indexes APT reads.

They are in one folder on the controller, readable by its owner only, and are made where there are none. Beside them
lies allowed_signers, which says who may sign a bundle.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.bundle.folder import PURPOSE
from ansible_collections.gpulab.node.plugins.module_utils.core import signatures
from ansible_collections.gpulab.node.plugins.module_utils.packages import openpgp
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SIGNING, APT = "signing", "apt.asc"
PROGRAMS = {"apt-get": "apt", "gpg": "gnupg", "ssh-keygen": "openssh-client"}


def check_programs() -> None:
    """Raise Refusal B018 where this machine lacks a program with which bundles are made."""
    for program, package in PROGRAMS.items():
        if not shutil.which(program):
            raise refuse("B018", program=program, package=package)


@dataclass(frozen=True)
class Keys:
    """The keys in a folder."""

    directory: Path

    @property
    def signing(self) -> Path:
        """Return the private key of the list."""
        return self.directory / SIGNING

    @property
    def signers(self) -> Path:
        """Return the file that says who may sign."""
        return self.directory / signatures.SIGNERS

    def make(self) -> None:
        """Make what is missing. Raises Refusal B021."""
        try:
            signatures.make_key(self.signing, PURPOSE)
        except signatures.NotSigned as error:
            raise refuse("B021", what="the bundle", detail=error, keys=self.directory) from error
        path = self.directory / APT
        if not path.exists():
            with _home() as home:
                self._gpg(home, "--quick-generate-key", PURPOSE, "ed25519", "sign", "never")
                text = self._gpg(home, "--armor", "--export-secret-keys")
            path.touch(mode=0o600)
            path.write_bytes(text)

    def public(self) -> bytes:
        """Return the armored public key of the indexes. Raises Refusal B021."""
        with _home() as home:
            self._gpg(home, "--import", str(self.directory / APT))
            return self._gpg(home, "--armor", "--export")

    def fingerprint(self) -> str:
        """Return the fingerprint of the key of the indexes."""
        return openpgp.fingerprints(openpgp.dearmor(self.public().decode("ascii")))[0]

    def clear_sign(self, paths: Mapping[Path, Path]) -> None:
        """Write files with their signatures within: for each path, where to. Raises Refusal B021."""
        with _home() as home:
            self._gpg(home, "--import", str(self.directory / APT))
            for path, signed in paths.items():
                signed.unlink(missing_ok=True)
                self._gpg(home, "--digest-algo", "SHA512", "--output", str(signed), "--clearsign", str(path))

    def _gpg(self, home: str, *arguments: str) -> bytes:
        call = ["gpg", "--homedir", home, "--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback"]
        return self._run([*call, "--passphrase", "", *arguments])

    def _run(self, call: list[str]) -> bytes:
        done = subprocess.run(call, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise refuse("B021", what="the bundle", detail=said, keys=self.directory)
        return done.stdout


@contextmanager
def _home() -> Iterator[str]:
    """Give a home for gpg, with an agent of its own, which ends with it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        try:
            yield home
        finally:
            subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False, capture_output=True)
