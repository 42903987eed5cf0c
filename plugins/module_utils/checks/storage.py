# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that the tiers of storage are mounted, each from its own device and as declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    check,
    fail,
    inapplicable,
    info,
    ok,
    skipped,
    unknown,
    warn,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Node, Result

SOURCE = "https://man7.org/linux/man-pages/man5/fstab.5.html"
EXPORTS = "https://man7.org/linux/man-pages/man5/exports.5.html"


@check("storage-mounts", proves="each storage tier is mounted from its own device", source=SOURCE)
def storage_mounts(node: Node) -> Iterator[Result]:
    """Compare the device in each place with the one that is declared."""
    tiers = node.facts["storage"]
    if not tiers:
        yield inapplicable("no storage tier is declared")
    for tier in tiers:
        place, mounted, declared = tier["mount"], tier.get("mounted"), tier.get("declared")
        if tier.get("waits"):
            yield info(f"{place} is mounted on first access", observed=None, expected=tier["source"])
        elif mounted is None:
            yield fail(f"{place} is not mounted", "check_storage", observed=None, expected=tier["source"])
        elif not tier["there"]:
            yield fail(f"{place} is mounted from {mounted}, which no longer exists", "check_storage", observed=mounted)
        elif declared is None:
            yield unknown(f"{tier['source']} is unknown to the node, so the device of {place} cannot be compared")
        elif mounted != declared:
            yield fail(f"{place} is mounted from another device", "check_storage", observed=mounted, expected=declared)
        else:
            yield ok(f"{place} is mounted from {mounted}", mounted)


@check(
    "storage-options",
    proves="each storage tier is mounted with its options, and writable where declared",
    source=SOURCE,
)
def storage_options(node: Node) -> Iterator[Result]:
    """Compare; a file system that met an error turns read-only."""
    tiers = [tier for tier in node.facts["storage"] if tier.get("mounted")]
    if not tiers:
        declared = node.facts["storage"]
        yield (
            skipped("no storage tier is mounted (see storage-mounts)")
            if declared
            else inapplicable("no storage tier is declared")
        )
    for tier in tiers:
        place, differing = tier["mount"], tier["options"]
        if "rw" in differing:
            yield fail(f"{place} is read-only", "check_storage", observed="ro", expected="rw")
        elif differing:
            yield warn(f"{place} is mounted without {', '.join(differing)}", "configure", expected=differing)
        else:
            yield ok(f"{place} is mounted as declared")


@check("storage-exports", proves="the NFS server exports each storage tier to its clients", source=EXPORTS)
def storage_exports(node: Node) -> Iterator[Result]:
    """Look whether the server runs and has each export in its table; where nothing is mounted, it offers nothing."""
    found = [(tier, export) for tier in node.facts["storage"] for export in tier.get("exports", [])]
    if not found:
        yield inapplicable("no storage tier is exported")
    for tier, export in found:
        told = f"{tier['mount']} is exported to {export['client']}"
        if not export["live"] or (tier.get("mounted") is None and not tier.get("waits")):
            yield fail(told.replace(" is ", " is not "), "check_exports", observed=None, expected=export["client"])
        elif export["missing"]:
            yield warn(f"{told} without {', '.join(export['missing'])}", "configure", expected=export["missing"])
        else:
            yield ok(told)
