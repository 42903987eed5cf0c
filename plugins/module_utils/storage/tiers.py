# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tiers of storage that an inventory declares, and what of them cannot be meant. No I/O happens here.

A tier is a place with a purpose: scratch, which may be lost, or datasets, which may not.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.storage import refuse
from ansible_collections.gpulab.node.plugins.module_utils.storage import exports
from ansible_collections.gpulab.node.plugins.module_utils.storage.exports import Export

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SCRATCH, DATASETS = "scratch", "datasets"
DEFAULT_FILESYSTEM = "ext4"
FORMATS = {"ext4": ["mkfs.ext4", "-q", "-U"], "xfs": ["mkfs.xfs", "-q", "-m"]}
QUOTA_FEATURES = ["-O", "quota,project"]  # which ext4 has from the beginning, or gets while nobody uses it
QUOTA_OPTIONS = frozenset({"usrquota", "prjquota"})
_PLACE = re.compile(r"(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+")
_SERVER = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9.:_\[\]-]*:/[^\s\\\"]*")
_OPTION = re.compile(r"[^\s,#\\\"]+")


@dataclass(frozen=True)
class Tier:
    """One tier, as the inventory declares it: devices or an export of an NFS server; and who may mount it from here."""

    name: str
    purpose: str
    mount: str
    devices: tuple[str, ...] = ()
    nfs: str = ""
    filesystem: str = ""
    options: tuple[str, ...] = ("noatime",)
    format: bool = False
    blank_checked: tuple[str, ...] = ()
    export_to: tuple[str, ...] = ()
    export_options: tuple[str, ...] = ()


def read(records: Iterable[dict[str, Any]]) -> list[Tier]:
    """Read the tiers of an inventory. Raises Refusal H150 for one that cannot be meant, H166 for one open to all."""
    declared = list(records)
    found = [
        Tier(
            record["name"],
            record["purpose"],
            record["mount"],
            tuple(record.get("devices") or ()),
            record.get("nfs") or "",
            record.get("filesystem") or "",
            tuple(("noatime",) if record.get("options") is None else record["options"]),
            bool(record.get("format")),
            tuple(record.get("blank_checked") or ()),
            tuple(record.get("export_to") or ()),
            tuple(record.get("export_options") or ()),
        )
        for record in declared
    ]
    for number, tier in enumerate(found):
        for wrong in (*_wrong(tier, found[:number]), *_wrong_export(tier)):
            raise refuse("H150", tier=tier.name, wrong=wrong)
        everybody = [client for client in tier.export_to if exports.is_everybody(client)]
        if everybody and not declared[number].get("export_to_everybody"):
            raise refuse("H166", tier=tier.name, client=", ".join(everybody))
    return found


def _wrong(tier: Tier, others: list[Tier]) -> Iterator[str]:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,30}", tier.name):
        yield "needs a name of at most 31 small letters, digits, '-' and '_'"
    if bool(tier.devices) == bool(tier.nfs):
        yield "needs either devices or nfs"
    if not _PLACE.fullmatch(tier.mount):
        yield f"has the mount point {tier.mount}, which is not a plain absolute path"
    if tier.nfs and (tier.format or tier.filesystem or not _SERVER.fullmatch(tier.nfs)):
        yield "is an NFS tier: it needs nfs: server:/path, and neither filesystem nor format"
    if len(set(tier.devices)) < len(tier.devices):
        yield "names a device twice"
    if not all(_OPTION.fullmatch(option) for option in tier.options):
        yield "has an option with white space, a comma, '#', a quote or a backslash: write the options as a list"
    if tier.name in {other.name for other in others}:
        yield "is declared twice"
    if any(
        f"{tier.mount}/".startswith(f"{other.mount}/") or f"{other.mount}/".startswith(f"{tier.mount}/")
        for other in others
    ):
        yield "overlaps with the mount point of another tier"
    if tier.format and (tier.filesystem or DEFAULT_FILESYSTEM) not in FORMATS:
        yield f"requests the filesystem {tier.filesystem}, but gpulab can create only {' and '.join(FORMATS)}"


def _wrong_export(tier: Tier) -> Iterator[str]:
    strange = [client for client in tier.export_to if not exports.is_client(client)]
    if strange:
        yield f"is exported to {', '.join(strange)}, which is not a host, network, pattern or netgroup"
    unknown = exports.wrong_options(tier.export_options)
    if unknown:
        yield f"has the export option {', '.join(unknown)}, which is unknown to gpulab"
    if tier.export_to and tier.nfs:
        yield "is an NFS tier itself and cannot be exported: export it from its server"
    if len(set(tier.export_to)) < len(tier.export_to):
        yield "is exported to the same client twice"


def exported(wanted: Iterable[Tier]) -> list[Export]:
    """Return what these tiers export."""
    return [
        Export(tier.mount, client, exports.options(tier.export_options)) for tier in wanted for client in tier.export_to
    ]


def export_of(source: str) -> str:
    """Return an export of NFS as its server knows it: SERVER:/path/ is server:/path."""
    found = _SERVER.fullmatch(source)
    host, _colon, path = source.rpartition(":")
    return f"{host.lower()}:{posixpath.normpath(path)}" if found else source
