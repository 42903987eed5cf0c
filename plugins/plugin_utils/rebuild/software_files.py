# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which captured files come back with the software, and not with all others: APT's before the packages, jobs held.

No I/O happens here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import Entry

APT = re.compile(r"/etc/apt(?:/|$)")
JOBS = re.compile(
    r"/etc/cron(?:tab|\.\w+)(?:/|$)|/etc/anacrontab$|/etc/at\.(?:allow|deny)$|/var/spool/(?:cron|at|anacron)(?:/|$)"
    r"|/etc/systemd/(?:system|user)(?:/|$)|/usr/local/lib/systemd(?:/|$)|/usr/lib/systemd/(?:system|user)/"
    r"|/var/lib/systemd/linger(?:/|$)"
)


def is_of_software(path: str) -> bool:
    """Tell whether a path comes back with packages or jobs."""
    return bool(APT.match(path) or JOBS.match(path))


def of_apt(entry: Entry) -> bool:
    """Tell whether a captured file is one that APT reads."""
    return bool(APT.match(entry["path"]))


def of_jobs(entry: Entry) -> bool:
    """Tell whether a captured file starts work, or lets it start."""
    return bool(JOBS.match(entry["path"]))
