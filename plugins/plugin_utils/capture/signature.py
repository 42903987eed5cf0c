# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The signature of a capture: by it, root on a node takes only what this user of this controller has captured.

Whoever may write where captures lie can change one and its SHA-256 sums. The signature is an HMAC of these sums with a
key that only the user has who captures. It holds for one host and one time, so that no capture stands in for another.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.capture import own_files
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "SHA256SUMS.hmac"
BYTES = 32
_FOR = b"gpulab capture, 1"


def place() -> Path:
    """Return where this user's key is."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "gpulab" / "capture.key"


def signed(sums: bytes, host: str, name: str) -> bytes:
    """Return the signature of a capture's sums; makes the key where there is none yet. Raises Refusal R087.

    host is the name of the directory that the host's captures are in, name that of the capture.
    """
    return f"{_of(_key(make=True), (host, name), sums)}\n".encode("ascii")


def is_signed(path: Path, sums: bytes, name: str, unsigned: str | None) -> bool:
    """Tell whether the capture in a directory has its signature; one without is taken where it is named as unsigned.

    Raises Refusal R085 for one without, R086 for one with another, and R087.
    """
    try:
        found = (path / NAME).read_bytes().strip()
    except FileNotFoundError:
        if name == unsigned:
            return False
        raise refuse("R085", path=path, name=name) from None
    except OSError as error:
        raise refuse("R006", path=path, detail=error) from error
    key = _key(make=False)
    if not key and name == unsigned:
        return False
    if not key:
        raise refuse("R086", path=path, detail=f"there is no key {place()} on this machine", key=place())
    if not hmac.compare_digest(found, _of(key, (path.parent.name, name), sums).encode("ascii")):
        raise refuse("R086", path=path, detail="its signature does not fit", key=place())
    return True


def others_may_write(directory: Path) -> bool:
    """Tell whether others than this user may change what lies in a directory."""
    found = [one.stat() for one in (directory, *directory.absolute().parents) if one.is_dir()]
    return any(
        one.st_uid not in (0, os.geteuid())
        or (one.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not one.st_mode & stat.S_ISVTX)
        for one in found
    )


def _of(key: bytes, what: Sequence[str], sums: bytes) -> str:
    return hmac.new(key, b"\0".join([_FOR, *map(os.fsencode, what), sums]), hashlib.sha256).hexdigest()


def _key(*, make: bool) -> bytes:
    """Return the key; nothing where there is none, and none is to be made. Raises Refusal R087."""
    path = place()
    try:
        if make and not path.exists():
            _make(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise refuse("R087", path=path, detail=error.strerror) from error
    with os.fdopen(descriptor, "rb") as stream:
        status, key = os.fstat(descriptor), stream.read().strip()
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise refuse("R087", path=path, detail="others may read or write it")
    if len(key) < 2 * BYTES:
        raise refuse("R087", path=path, detail="it is damaged")
    return key


def _make(path: Path) -> None:
    """Make the key, once: of runs that do so at the same time, the first one counts."""
    own_files.make_directory(path.parent)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    own_files.write(new, f"{secrets.token_hex(BYTES)}\n".encode("ascii"))
    own_files.sync(new)
    with contextlib.suppress(FileExistsError):
        path.hardlink_to(new)
    new.unlink()
