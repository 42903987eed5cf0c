# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The name of a host as the name of a file on the controller."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote


def file_name(host: str) -> str:
    """Return the host's name where it can be a file's, else a name made of it that no other host has."""
    return host if re.fullmatch(r"\w[\w.:-]*", host, re.ASCII) else quote(host, safe="").replace(".", "%2E")


def host_of(name: str) -> str:
    """Return the host whose file has this name."""
    return unquote(name)
