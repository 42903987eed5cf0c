# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The people whom the inventory gave the node: whether their accounts and the limits of their sessions are still so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.accounts import host, kept, limits, plan, quotas, wanted
from ansible_collections.gpulab.node.plugins.module_utils.accounts.differences import differences
from ansible_collections.gpulab.node.plugins.module_utils.facts import system

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import GivenPeople, Quotas, SessionLimits


class AccountsQuery:
    """The facts ``accounts``; systemd tells the limits beside the caller's other work."""

    def __init__(self, node: Node) -> None:
        """Ask for the slices of those who are logged in, and of one who may not be. Raises Refusal H220."""
        self._node = node
        self._kept = kept.read(node)
        people = self._kept["people"] if self._kept and self._kept["limits"] else []
        known = set(node.names(host.SESSIONS)) if people else set()
        asked = {
            person["uid"]: person["name"] for person in people if str(person["uid"]) in known or person is people[0]
        }
        self._names = asked
        self._shown = node.start(limits.show(asked)) if asked else None

    def facts(self) -> GivenPeople | None:
        """Return {"people", "differs", "unlisted", "limits", "quotas"}; None where the inventory gave the node nobody.

        people is their number; differs says by name what is otherwise than at the last run; unlisted are the numbers of
        accounts in the range of people's that are in no list; limits and quotas are None where none are set.
        """
        if self._kept is None:
            return None
        lists = wanted.parse(self._kept["groups"], self._kept["people"], homes=self._kept["homes"])
        found = host.look(self._node, lists)
        given = quotas.of_kept(self._kept)
        sides = quotas.look(self._node, given, {})
        differs = {**differences(lists, found)}
        for name, what in quotas.differences(given, sides):
            differs.setdefault(name, []).append(what)
        return {
            "people": len(lists.people),
            "differs": dict(sorted(differs.items())),
            "unlisted": sorted(found.users[name].uid for name in plan.unlisted(lists, found)),
            "limits": self._limits(self._kept["limits"]) if self._kept["limits"] else None,
            "quotas": self._full(given, sides) if given else None,
        }

    @staticmethod
    def _full(given: list[quotas.Quota], sides: Mapping[tuple[str, str], quotas.Side]) -> Quotas:
        return {"set": len(given), "full": quotas.full(given, sides)}

    def _limits(self, wanted_limits: dict[str, object]) -> SessionLimits:
        shown = limits.parse((self._shown.output() or "") if self._shown else "")
        memory = (system.memory_mib(self._node.text("/proc/meminfo")) or 0) << 20
        return {
            "slices": len(shown),
            "differs": [
                {"user": self._names[number], "property": name, "wanted": value, "found": there}
                for number, block in shown.items()
                for name, value, there in limits.differing(wanted_limits, block, memory)
            ],
        }
