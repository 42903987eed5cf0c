# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which releases of Slurm work with each other. No I/O happens here.

A daemon understands the releases before its own: two of them, and from 24.11 on three. The same holds for the state
that it finds after an upgrade. See https://slurm.schedmd.com/upgrades.html#compatibility_window.
"""

from __future__ import annotations

import re

from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.slurm import refuse

# Until 23.11 the steps between releases differ; from 24.05 on there is one every May and November.
RELEASES = ("20.02", "20.11", "21.08", "22.05", "23.02", "23.11", "24.05")
_MONTHS = 6
_THREE_SINCE = "24.11"
_VERSION = re.compile(r"(?:\d+:)?(\d\d)\.(\d\d)(?:\D|$)")


def release(version: str) -> str | None:
    """Return the release that a version belongs to, "24.11" of "24.11.5-4"; None for another text."""
    found = _VERSION.match(version)
    return f"{found[1]}.{found[2]}" if found else None


def understands(newer: str, older: str) -> bool:
    """Tell whether a daemon of one version can work with daemons, or with the state, of an older or equal one.

    An unknown version counts as one that can, for Slurm itself refuses what it cannot read.
    """
    one, other = release(newer), release(older)
    if one is None or other is None:
        return True
    steps = _number(one) - _number(other)
    return 0 <= steps <= (3 if _number(one) >= _number(_THREE_SINCE) else 2)


def _number(name: str) -> int:
    """Return the place of a release in their order; one between two known ones counts as the earlier."""
    last = RELEASES[-1]
    if name <= last:
        return sum(known <= name for known in RELEASES)
    months = (int(name[:2]) - int(last[:2])) * 12 + int(name[3:]) - int(last[3:])
    return len(RELEASES) + months // _MONTHS


def check_node(host: str, version: str, controller: str, controllers: str) -> None:
    """Raise Refusal F035 where slurmd of a host cannot work with the slurmctld of its controller."""
    if version and controllers and not understands(controllers, version):
        raise refuse("F035", host=host, version=version, controller=controller, other=controllers)


def check_upgrade(host: str, before: str, after: str) -> None:
    """Raise Refusal F038 where the packages that come to a host cannot read the state of those that are there."""
    if before and after and not understands(after, before):
        raise refuse("F038", host=host, before=before, after=after)
