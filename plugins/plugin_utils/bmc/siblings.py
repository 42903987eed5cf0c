# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Firmware of machines of one kind, compared over a run; none is the measure of the others. No I/O happens here.

A version is compared for equality alone: makers count in ways of their own, so nobody can say here which is newer.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import counted, first

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ENOUGH = 3
_TOLD = 6


def apart(documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what differs: kind and component, the usual version or None, the versions of hosts, and text.

    documents are those of judge.document(). hosts has those alone that differ from the usual version, which more than
    half of at least three have; without one nobody knows who is right, and it has all.
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    for one in documents:
        kind = kind_of(one)
        for component, version in versions_of(one["firmware"]).items() if kind else ():
            found.setdefault((kind, component), {})[one["host"]] = version
    judged = (_judged(kind, component, versions) for (kind, component), versions in sorted(found.items()))
    return [one for one in judged if one]


def kind_of(one: Mapping[str, Any]) -> str:
    """Return of which kind a machine is: its part number, else its maker and model; empty where the BMC tells none."""
    return str(one["part_number"] or " ".join(filter(None, (one["manufacturer"], one["model"]))))


def versions_of(firmware: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the version of each component; of several that have one name, all that differ."""
    found: dict[str, set[str]] = {}
    for one in firmware:
        if one["version"]:
            found.setdefault(one["name"], set()).add(one["version"])
    return {name: ", ".join(sorted(versions)) for name, versions in found.items()}


def _judged(kind: str, component: str, versions: Mapping[str, str]) -> dict[str, Any] | None:
    (usual, held), *others = Counter(versions.values()).most_common()
    if not others:
        return None
    known = len(versions) >= ENOUGH and held * 2 > len(versions)
    hosts = {host: version for host, version in versions.items() if not known or version != usual}
    told = first([f"{host} {version}" for host, version in hosts.items()], _TOLD)
    rest = f"{held} of {counted(len(versions), 'machine')} have {usual}" if known else "nobody knows which is right"
    text = f"{component} of {kind} differs: {told}; {rest}"
    return {"kind": kind, "component": component, "usual": usual if known else None, "hosts": hosts, "text": text}
