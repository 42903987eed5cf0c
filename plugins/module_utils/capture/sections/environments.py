# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python environments of a node, as its capture says it; addresses have no secrets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OwnPackage:
    """A package of an environment that no lock brings back."""

    name: str
    version: str
    path: str
    editable: bool
    why: str


@dataclass(frozen=True)
class Environment:
    """A Python environment that somebody made.

    kind is venv, uv or conda; owner a name, or the id as text; home where the interpreter of a virtual environment
    comes from; settings those of pyvenv.cfg; project the directory of the uv.lock that a uv environment belongs to.
    lock has lines for pip; for conda an explicit lock, in which those for pip begin with "# pip ". unreadable are files
    that should describe a package.
    """

    path: str
    kind: str
    owner: str
    python: str
    home: str
    settings: dict[str, str]
    project: str
    lock: list[str]
    own: list[OwnPackage]
    unreadable: list[str]
