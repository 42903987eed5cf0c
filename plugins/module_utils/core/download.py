# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is fetched from elsewhere, through the proxies of the environment: what does not come is asked for again."""

from __future__ import annotations

import shutil
import time
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, TypeVar

from ansible.module_utils.urls import open_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOT_TRUSTED = "certificate verify failed"  # OpenSSL's words
TRIES = 3
PAUSE = 2.0  # seconds between them

Taken = TypeVar("Taken")


def fetch(url: str, take: Callable[[Any], Taken], timeout: float, tries: int = TRIES) -> Taken:
    """Return what take makes of the answer. Raises OSError; timeout is in seconds without an octet."""
    try:
        with open_url(url, timeout=timeout) as answer:
            return take(answer)
    except (OSError, ValueError, HTTPException) as error:  # of which urllib's are
        if NOT_TRUSTED in str(error):  # and asking again would not change that
            message = f"{error}; if a proxy issues its own certificates, add its authority to base_ca_certificates"
            raise OSError(message) from error
        if tries == 1:
            raise OSError(str(error)) from error
    time.sleep(PAUSE)
    return fetch(url, take, timeout, tries - 1)


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
