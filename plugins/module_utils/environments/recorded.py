# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What gpulab records of the environments that it makes."""

from __future__ import annotations

from typing import Any, TypedDict


class Notes(TypedDict):
    """What is to be said of an environment: packages that were built from source, and older ones than asked for."""

    built: list[dict[str, str]]
    older: list[dict[str, str]]


class _Later(TypedDict, total=False):
    content: str
    expected: dict[str, Any]
    notes: Notes


class Made(_Later):
    """What the records of all environments have that gpulab made."""

    fingerprint: str
    names: list[str]


class _Sizes(TypedDict, total=False):
    sizes: dict[str, int]


class Record(Made, _Sizes):
    """The record of an environment by pip."""


class Answer(TypedDict):
    """What the test of an environment always says: why it failed, or nothing."""

    failure: Any
