# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages of a Python environment, by the names of what their installers leave in it. No I/O happens here.

pip, uv and setuptools leave directories and files beside the packages (PyPA, "Recording installed projects"), conda
leaves a file of each package in conda-meta.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

DIST_INFO, EGG_LINK = "dist-info", "egg-link"
# pip renames what it removes to ~name
_RECORD = re.compile(r"(?!~)(?P<name>.+)\.(?P<kind>dist-info|egg-info|egg-link)")
_VERSIONED = re.compile(r"(?P<name>.+)-(?P<version>[^-]+)")
_OF_CONDA = re.compile(r"(?P<name>[^.].*)-(?P<version>[^-]+)-(?P<build>[^-]+)\.json")


class Conda(NamedTuple):
    """What conda has of a package."""

    version: str
    build: str


def normalized(name: str) -> str:
    """Return a package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def record_kind(name: str) -> str:
    """Return what record of a package a name in a site-packages directory is of; empty where it is none."""
    match = _RECORD.fullmatch(name)
    return match["kind"] if match else ""


def of_wheels(names: Iterable[str]) -> dict[str, str]:
    """Return the version of each package that was installed as a wheel, from the names in a site-packages directory."""
    records = (_RECORD.fullmatch(name) for name in names)
    parts = (_VERSIONED.fullmatch(match["name"]) for match in records if match and match["kind"] == DIST_INFO)
    return {normalized(match["name"]): match["version"] for match in parts if match}


def of_conda(names: Iterable[str]) -> dict[str, Conda]:
    """Return version and build of each package, from the names in a conda-meta directory."""
    matches = (_OF_CONDA.fullmatch(name) for name in names)
    return {match["name"]: Conda(match["version"], match["build"]) for match in matches if match}
