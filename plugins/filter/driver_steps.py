# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role nvidia_driver does with a plan, as a filter over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from ansible_collections.gpulab.node.plugins.plugin_utils.plan import driver_steps as core

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.model import Facts
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan


def driver_steps(plan: Plan, facts: Facts, newer: dict[str, Any] | None = None, **asked: Any) -> dict[str, Any]:
    """Return what the role decides on, from the plan and the facts."""
    return core.driver_steps(plan, facts, newer or {}, core.Asked(**asked))


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"driver_steps": driver_steps}
