# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes need the same kernel modules, as a filter over the hosts of a play."""

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.gpulab.node.plugins.plugin_utils.peers import shared_builds


def alike(hosts: list[str], hostvars: Any, host: str, *, kept: bool = False) -> list[str]:
    """Return those of the hosts that may have to build the same kernel modules as this host."""
    return shared_builds.alike(shared_builds.read(hostvars, hosts), host, kept=kept)


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., list[str]]]:
        """Return the filters by name."""
        return {"alike": alike}
