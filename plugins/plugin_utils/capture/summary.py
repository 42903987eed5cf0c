# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a capture says to people: where it is, what is in which bin, and what a reinstall would lose."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import Count
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import one_line
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import reinstall
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import encodable
from ansible_collections.gpulab.node.plugins.plugin_utils.preview.text import size, table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.files import Deleted
    from ansible_collections.gpulab.node.plugins.plugin_utils.capture.manifest import Manifest

LEFT_OVER = "R002"  # is listed before
MOST = 40  # lines of the remainder that people are shown; the manifest has all
WIDEST = 80  # characters of a path in the table
MEANINGS = {
    "package": "of packages, unchanged",
    "changed": "of packages, changed: captured",
    "gpulab": "made by gpulab",
    "captured": "captured",
    "lock": "in environments and images, by their locks",
    "cache": "made again by the system",
    "receipt": "in a backup",
    "acknowledged": "acknowledged",
}


def result(
    manifest: Manifest,
    path: Path | None,
    damage: Sequence[str] = (),
    notes: Sequence[str] = (),
    allow: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the result of the task.

    path is that of the capture, None in check mode; damage says what is wrong with the capture before, notes what else
    people have to know, allow what the lab gives up at a reinstall.
    """
    plan = reinstall.plan(manifest, allow)
    damaged = [f"  the capture before: {one}" for one in damage]
    lines = [*_head(manifest, path), *notes, *damaged, *_bins(manifest), *_remainder(manifest), *_reinstall(plan)]
    told = {
        "damage": list(damage),
        "bins": {name: asdict(one) for name, one in manifest.bins.items()},
        "remainder": list(map(asdict, manifest.remainder)),
        "reinstall": asdict(plan),
        "lines": lines,
    }
    return {"changed": False, **({"path": str(path)} if path else {}), **encodable(told)}


def _head(manifest: Manifest, path: Path | None) -> list[str]:
    where = f"captured to {path}" if path else "would be captured"
    secrets = sum(1 for entry in manifest.files if entry.get("secret"))
    files = f"{len(manifest.files)} files, {secrets} of them only in the encrypted archive"
    return [f"{manifest.host}: {where} in {manifest.seconds:.0f} s, {files}"]


def _bins(manifest: Manifest) -> list[str]:
    counts = {name: manifest.bins.get(name, Count(0, 0)) for name in MEANINGS}
    rows = [(f"  {one.files}", size(one.bytes), MEANINGS[name]) for name, one in counts.items() if one.files]
    return table(rows) if rows else []


def _remainder(manifest: Manifest) -> list[str]:
    remainder = sorted(manifest.remainder, key=lambda one: (-one.bytes, one.path))
    found = [_deleted(one) for one in manifest.open_deleted]
    if not remainder:
        return ["  nothing is left over", *found]
    files, total = sum(one.files for one in remainder), sum(one.bytes for one in remainder)
    rows = [
        (
            f"    {shortened(one_line(one.path))}",
            str(one.files),
            size(one.bytes),
            one.owner or "",
            one.why,
        )
        for one in remainder[:MOST]
    ]
    more = [f"    and {len(remainder) - MOST} more; the manifest has all"] if len(remainder) > MOST else []
    return [
        f"  LEFT OVER: {files} files, {size(total)}. A reinstall would lose them:",
        *table([("    path", "files", "size", "owner", ""), *rows]),
        *more,
        "  Move each to another disk, or set capture_paths, capture_receipts or capture_acknowledged: docs/capture.md",
        *found,
    ]


def _reinstall(plan: reinstall.Reinstall) -> list[str]:
    lines = [f"    {line}" for line in plan.lines()]
    lines += [f"    stands against it: {blocker}" for blocker in plan.blockers if blocker.code != LEFT_OVER]
    return ["  A reinstall:", *lines] if lines else []


def _deleted(one: Deleted) -> str:
    return (
        f"  {one.program} (process {one.process}) writes to {one_line(one.path)},"
        f" {size(one.bytes)}, which is deleted: it ends with the process"
    )


def shortened(path: str) -> str:
    """Return a path that fits into the table: its beginning and its end."""
    return path if len(path) <= WIDEST else f"{path[: WIDEST // 2]}...{path[3 - WIDEST // 2 :]}"
