# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time that the installer has: when it is over, the machine is rebooted, whatever hangs.

The machine's own watchdogs, and the kernel's, are fed until then, so that a kernel that hangs is rebooted, too.
https://docs.kernel.org/watchdog/watchdog-api.html
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
import time
from pathlib import Path
from typing import Callable

SECONDS = 60  # that a watchdog goes without food
EVERY = 5.0
_SETTIMEOUT = 0xC0045706  # linux/watchdog.h: WDIOC_SETTIMEOUT, of an int
_CLOSE = b"V"  # lets a watchdog be closed without a reboot


class Watchdog:
    """A deadline, and the watchdogs that are fed until then."""

    def __init__(self, seconds: float, expired: Callable[[], None], devices: Path = Path("/dev")) -> None:
        """Open all watchdogs; expired is called in a thread of its own when the time is over."""
        self._deadline = time.monotonic() + seconds
        self._expired = expired
        self._lock = threading.Lock()
        self._over = False
        self._stop = threading.Event()
        self._descriptors: list[int] = []
        for path in sorted(devices.glob("watchdog[0-9]*")):
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_WRONLY)
                self._descriptors.append(descriptor)
                fcntl.ioctl(descriptor, _SETTIMEOUT, struct.pack("i", SECONDS))
        self.count = len(self._descriptors)
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def _feed(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                self._over = time.monotonic() >= self._deadline
            if self._over:
                self._expired()
                return
            for descriptor in self._descriptors:
                with contextlib.suppress(OSError):
                    os.write(descriptor, b"\0")
            self._stop.wait(min(EVERY, max(0.0, self._deadline - time.monotonic())))

    def extend(self, seconds: float) -> bool:
        """Let the time end so many seconds from now; tell whether it was not over yet."""
        with self._lock:
            self._deadline = time.monotonic() + seconds
            return not self._over

    def close(self) -> None:
        """Let the watchdogs rest: the system that boots next must not be rebooted by them."""
        self._stop.set()
        self._thread.join(EVERY)
        for descriptor in self._descriptors:
            with contextlib.suppress(OSError):
                os.write(descriptor, _CLOSE)
                os.close(descriptor)
        self._descriptors = []
