# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The secret files of a node as one encrypted archive. Their contents reach neither a disk nor a command line as text.

What is encrypted is a tar with members that are numbered; the first, index.json, names the path and SHA-256 of each.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypedDict

from ansible import constants
from ansible.errors import AnsibleError
from ansible.parsing.vault import VaultLib, VaultSecretsContext, match_encrypt_secret
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import is_path
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

INDEX = "index.json"
PUBLIC = ("age1", "ssh-")  # how a public key for age begins
DEADLINE = 600  # seconds for age


class Indexed(TypedDict):
    """A file among the encrypted ones."""

    path: str
    sha256: str


class Cipher(ABC):
    """A way to encrypt a host's secrets; name is that of the archive, and readable tells whether decrypt can work."""

    name: str
    readable: bool

    def __init__(self, host: str) -> None:
        """Encrypt secrets of this host."""
        self._host = host

    @abstractmethod
    def encrypt(self, plain: bytes) -> bytes:
        """Return the bytes encrypted. Raises Refusal R007."""

    @abstractmethod
    def decrypt(self, data: bytes, place: Path) -> bytes:
        """Return what was encrypted and lies at place. Raises Refusal R006."""

    def pack(self, files: Mapping[str, bytes]) -> bytes:
        """Return files, by path, as an encrypted archive. Raises Refusal R007."""
        index = [{"path": path, "sha256": hashlib.sha256(data).hexdigest()} for path, data in files.items()]
        members = {INDEX: json.dumps(index).encode("ascii")}
        members.update((str(number), data) for number, data in enumerate(files.values()))
        return self.encrypt(_tar(members))

    def unpack(self, data: bytes, place: Path) -> dict[str, bytes]:
        """Return the files of an encrypted archive, by path. Raises Refusal R006 for all that pack does not write."""
        return _files(self.decrypt(data, place), place)


class Vault(Cipher):
    """Ansible Vault, with the vault passwords of this run: --ask-vault-pass, --vault-password-file, --vault-id."""

    name = "secrets.vault"

    def __init__(self, host: str) -> None:
        """Take the passwords."""
        super().__init__(host)
        context = VaultSecretsContext.current(optional=True)
        self._secrets = context.secrets if context else []
        self.readable = bool(self._secrets)

    def encrypt(self, plain: bytes) -> bytes:
        """Encrypt for the vault id of --encrypt-vault-id, else for the first one."""
        if not self.readable:
            raise refuse("R007", host=self._host, detail="there is neither a vault password nor a recipient for age")
        try:
            name, secret = match_encrypt_secret(self._secrets, constants.DEFAULT_VAULT_ENCRYPT_IDENTITY)
            return bytes(VaultLib(self._secrets).encrypt(plain, secret, name))
        except AnsibleError as error:
            raise refuse("R007", host=self._host, detail=error) from error

    def decrypt(self, data: bytes, place: Path) -> bytes:
        """Decrypt with any of the passwords."""
        try:
            return bytes(VaultLib(self._secrets).decrypt(data))
        except AnsibleError as error:
            raise refuse("R006", path=place, detail="no vault password of this run decrypts it") from error


class Age(Cipher):
    """The program age, for the owners of public keys; identity is a file with a private key, where it is here."""

    name = "secrets.age"

    def __init__(self, host: str, recipients: Sequence[str] = (), identity: str | None = None) -> None:
        """Take public keys."""
        super().__init__(host)
        self._recipients, self._identity = recipients, identity
        self.readable = identity is not None

    def encrypt(self, plain: bytes) -> bytes:
        """Encrypt for all recipients."""
        if not all(one.startswith(PUBLIC) for one in self._recipients):  # a private key is not shown to all processes
            raise refuse("R007", host=self._host, detail="a recipient for age is not a public key (age1..., ssh-...)")
        return self._run(
            [f"--recipient={one}" for one in self._recipients], plain, {"code": "R007", "host": self._host}
        )

    def decrypt(self, data: bytes, place: Path) -> bytes:
        """Decrypt with the private key."""
        if self._identity is None:
            raise refuse("R006", path=place, detail="it cannot be decrypted without a private key of age")
        return self._run(["--decrypt", f"--identity={self._identity}"], data, {"code": "R006", "path": place})

    @staticmethod
    def _run(arguments: list[str], data: bytes, refusal: dict[str, Any]) -> bytes:
        try:
            done = subprocess.run(["age", *arguments], input=data, capture_output=True, timeout=DEADLINE, check=False)
        except FileNotFoundError as error:
            raise refuse(**refusal, detail="the program age is not installed on this machine") from error
        except subprocess.TimeoutExpired:
            raise refuse(**refusal, detail=f"age did not end within {DEADLINE} s") from None  # the error has the output
        if done.returncode:
            raise refuse(**refusal, detail=(done.stderr.decode("utf-8", "replace").splitlines() or ["age failed"])[0])
        return done.stdout


def cipher_for(host: str, recipients: Sequence[str], identity: str | None = None) -> Cipher:
    """Return age where there are recipients, else Ansible Vault. Raises Refusal R007 where it cannot encrypt."""
    cipher: Cipher = Age(host, recipients, identity) if recipients else Vault(host)
    cipher.pack({})
    return cipher


def cipher_of(host: str, archive: str, identity: str | None = None) -> Cipher:
    """Return what an archive with this name was encrypted with."""
    return Age(host, identity=identity) if archive == Age.name else Vault(host)


def _tar(members: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o600
            archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def _files(tar: bytes, place: Path) -> dict[str, bytes]:
    try:
        with tarfile.open(fileobj=io.BytesIO(tar), mode="r:", ignore_zeros=True) as archive:
            members = [_member(archive, member) for member in archive]
        index: Any = json.loads(members.pop(0)[1] or b"") if members and members[0][0] == INDEX else None
    except (tarfile.TarError, ValueError, RecursionError) as error:
        raise refuse("R006", path=place, detail=error) from error
    fault = next(_faults(index, members), None)
    if fault:
        raise refuse("R006", path=place, detail=fault)
    return {entry["path"]: data or b"" for entry, (_name, data) in zip(index, members)}


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> tuple[str, bytes | None]:
    """Return the name and content of a member; None for the content of what is not a plain file."""
    stream = archive.extractfile(member) if member.type == tarfile.REGTYPE else None
    return member.name, stream.read() if stream else None


def _faults(index: Any, members: list[tuple[str, bytes | None]]) -> Iterator[str]:
    if any(records.faults(index, list[Indexed])):
        yield "it has no valid index"
        return
    yield from (f"its member {name!a} is not a plain file" for name, data in members if data is None)
    if [name for name, _data in members] != [str(number) for number in range(len(index))]:
        yield "its members are not those of its index"
    if len({entry["path"] for entry in index}) < len(index):
        yield "its index has a path twice"
    for entry, (_name, data) in zip(index, members):
        if not is_path(entry["path"]):
            yield f"its index has the path {entry['path']!a}"
        if hashlib.sha256(data or b"").hexdigest() != entry["sha256"]:
            yield f"the content of {entry['path']!a} was changed"
