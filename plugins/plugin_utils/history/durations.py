# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long roles will take on a host, by what they took in earlier runs there, or on other hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.history.files import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PROOF = "verify"  # the role that ends every run
SIBLINGS = 8  # files of other hosts that are read, the latest first
TAIL_BYTES = 50_000


def expected(directory: Path, host: str, due: Mapping[str, bool]) -> dict[str, float]:
    """Return the seconds of each role that is due, and of the proof; empty where one of them has never run anywhere.

    due tells for each role whether it begins from nothing: such a one takes as long as it ever took, others as long as
    the last time. A host's own runs count first.
    """
    wanted, found = {**due, PROOF: False}, dict[str, float]()
    for runs in _runs(directory, host) if due else ():
        for role in wanted.keys() - found.keys():
            took = [run[role] for run in runs if role in run]
            if took:
                found[role] = max(took) if wanted[role] else took[-1]
        if found.keys() == wanted.keys():
            return {role: found[role] for role in wanted}
    return {}


def _runs(directory: Path, host: str) -> Iterator[list[dict[str, float]]]:
    """Yield the roles' seconds of each run of this host, then those of others."""
    yield _of_host(directory, host)
    others = sorted(directory.glob("*.jsonl"), key=lambda path: -path.stat().st_mtime) if directory.is_dir() else []
    for path in others[:SIBLINGS]:
        yield _of_host(directory, path.stem)


def _of_host(directory: Path, host: str) -> list[dict[str, float]]:
    return [roles for line in read(directory, host, TAIL_BYTES) if (roles := line.get("roles"))]
