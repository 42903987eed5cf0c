# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that the tiers of storage are mounted, each from its own device, and that the store of models is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import counted, first

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Node, Result

SOURCE = "https://man7.org/linux/man-pages/man5/fstab.5.html"
CACHE = "https://huggingface.co/docs/huggingface_hub/guides/manage-cache"
MOST_DAYS = 30  # in which each file of the store of models has to be read whole
SHOWN = 3  # files of a repository that a line names
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


@check("storage-models", proves="the models and data sets of the store are whole", source=CACHE)
def storage_models(node: Node) -> Iterator[Result]:
    """Take what sizes tell now and what the nights found; nothing is read here."""
    store = node.facts.optional("model_store")
    if store is None:
        yield inapplicable("no store of models is kept (model_store_repositories)")
        return
    if not store["answers"]:
        yield unknown(f"the disk of {store['directory']} did not answer in time")
        return
    faults = [fault for one in store["repositories"] for fault in _faults_of(one)]
    for summary, files in faults:
        yield fail(summary, "refill_models", observed=files)
    if store["unread_days"] is not None and store["unread_days"] > MOST_DAYS:
        summary = f"a file of the store was last read whole {store['unread_days']} days ago"
        yield warn(summary, "read_models", observed=store["unread_days"], expected=MOST_DAYS)
    elif not faults:
        yield ok(f"{counted(len(store['repositories']), 'snapshot')} whole in {store['directory']}")


def _faults_of(repository: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield what is wrong with a repository of the store, and with which of its files."""
    label = f"{repository['name']}@{repository['revision'][:8]}"
    missing, damaged = list(repository["missing"]), list(repository["damaged"])
    if not repository["is_there"]:
        yield f"{label} is not in the store (GPULAB-M008)", []
    if missing:
        yield f"{label} lacks {first(missing, SHOWN)} (GPULAB-M008)", missing
    if damaged:
        yield f"{label} has damaged files: {first(damaged, SHOWN)} (GPULAB-M002)", damaged
