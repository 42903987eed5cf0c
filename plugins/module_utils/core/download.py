# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is fetched from elsewhere, through the proxies of the environment: what does not come is asked for again."""

from __future__ import annotations

import errno
import shutil
import time
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar

from ansible.module_utils.urls import open_url

if TYPE_CHECKING:
    from pathlib import Path

NOT_TRUSTED = "certificate verify failed"  # OpenSSL's words
TRIES = 3
PAUSE = 2.0  # seconds between them
NEVER = (401, 403, 404)  # a server that says so says it again
NOT_ELSEWHERE = ("Authorization",)  # headers that no other host gets to which a server sends on
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PARTIAL = 206
_BLOCK = 1 << 20

Taken = TypeVar("Taken")


def ask(url: str, timeout: float, headers: dict[str, str] | None) -> Any:
    """Return the answer of a server, asked by Ansible's own means. Raises OSError and others of urllib's."""
    return open_url(url, timeout=timeout, headers=headers, unredirected_headers=NOT_ELSEWHERE)


Asking = Callable[[str, float, Optional[dict[str, str]]], Any]


def fetch(  # noqa: PLR0913, PLR0917
    url: str,
    take: Callable[[Any], Taken],
    timeout: float,
    tries: int = TRIES,
    headers: dict[str, str] | None = None,
    asking: Asking = ask,
) -> Taken:
    """Return what take makes of the answer. Raises OSError; timeout is in seconds without an octet."""
    try:
        with asking(url, timeout, headers) as answer:
            return take(answer)
    except (OSError, ValueError, HTTPException) as error:  # of which urllib's are
        if NOT_TRUSTED in str(error):  # and asking again would not change that
            message = f"{error}; if a proxy issues its own certificates, add its authority to base_ca_certificates"
            raise OSError(message) from error
        if tries == 1 or _is_final(error):
            raise OSError(str(error)) from error
    time.sleep(PAUSE)
    return fetch(url, take, timeout, tries - 1, headers, asking)


def save(url: str, path: Path, timeout: float) -> None:
    """Fetch a file. Raises OSError."""

    def take(answer: Any) -> None:
        with path.open("wb") as stream:
            shutil.copyfileobj(answer, stream)
        missing = getattr(answer, "length", None)  # a connection that breaks off is no error of urllib's
        if missing:
            message = f"it ended {missing} bytes too early"
            raise OSError(message)

    fetch(url, take, timeout)


def go_on(  # noqa: PLR0913
    url: str, path: Path, size: int, timeout: float, *, until: float, headers: dict[str, str], asking: Asking = ask
) -> bool:
    """Fetch what a file lacks of its size in bytes, and return whether it has all.

    After until (of time.monotonic) it stops where the server can go on later. Raises OSError, also for a larger file.
    """
    for tries in range(TRIES, 0, -1):
        try:
            return _go_on(url, path, size, timeout, until, headers, asking)
        except OSError as error:
            if tries == 1 or _is_final(error.__cause__):
                raise
        time.sleep(PAUSE)
    raise AssertionError


def _go_on(  # noqa: PLR0913, PLR0917
    url: str, path: Path, size: int, timeout: float, until: float, headers: dict[str, str], asking: Asking
) -> bool:
    """Try once."""
    begun = path.stat().st_size if path.exists() else 0
    if path.exists() and begun == size:
        return True

    def take(answer: Any) -> bool:
        goes_on = answer.status == PARTIAL and str(answer.headers.get("Content-Range")).startswith(f"bytes {begun}-")
        may_stop = goes_on or answer.headers.get("Accept-Ranges") == "bytes"
        with path.open("r+b" if goes_on and begun else "wb") as stream:
            return copy(answer, stream, begun if goes_on else 0, size, until if may_stop else None)

    return fetch(url, take, timeout, 1, {**headers, "Range": f"bytes={begun}-", "Accept-Encoding": "identity"}, asking)


def copy(source: Any, stream: Any, begin: int, size: int, until: float | None) -> bool:
    """Copy to a stream from an offset on, until it has size bytes or the time until is over; whether it has them.

    Raises OSError where the source has more or fewer.
    """
    stream.seek(begin)
    stream.truncate()
    for block in iter(lambda: source.read(_BLOCK), b""):
        begin += len(block)
        if begin > size:
            raise OSError(errno.EFBIG, f"it has more than {size} bytes")
        stream.write(block)
        if until is not None and time.monotonic() > until and begin < size:
            return False
    if begin < size:
        message = f"it ended {size - begin} bytes too early"
        raise OSError(message)
    return True


def _is_final(error: BaseException | None) -> bool:
    """Tell whether another try would not change a failure."""
    return getattr(error, "code", None) in NEVER or getattr(error, "errno", None) in FULL
