# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that the node is tuned as planned: live values against the plan's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import check, ok, skipped, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Node, Result

CATALOG = "catalog/tuning.yml"


def _planned(node: Node, part: str) -> dict[str, str]:
    tuning = node.plan.get("tuning") if node.plan else None
    return dict(tuning[part].data) if tuning else {}


@check("tuning-values", proves="the running kernel has the values of the plan", source=CATALOG)
def tuning_values(node: Node) -> Iterator[Result]:
    """Compare; a value that this kernel or this hardware does not have is passed over."""
    planned = _planned(node, "values")
    if not planned:
        yield skipped("no kernel value is planned")
        return
    if node.facts.get("system.container"):
        yield skipped("a container has its host's kernel")
        return
    live = node.facts["tuning.values"].data
    yield from _differences(planned, {name: live[name] for name in planned if live.get(name)}, "the kernel", "reboot")


@check("tuning-limits", proves="sessions and services have the limits of the plan", source=CATALOG)
def tuning_limits(node: Node) -> Iterator[Result]:
    """Compare what PAM and systemd give to what starts from now on."""
    planned = _planned(node, "limits")
    if not planned:
        yield skipped("no limit is planned")
        return
    for who, remedy in (("pam", "configure"), ("systemd", "reboot")):
        found = node.facts[f"tuning.limits.{who}"].data
        yield from _differences(planned, {name: found[name] for name in planned}, who, remedy)


def _differences(planned: dict[str, str], found: dict[str, Any], who: str, remedy: str) -> Iterator[Result]:
    wrong = [name for name in found if found[name] != planned[name]]
    for name in wrong:
        yield warn(f"{name}: {who} has {found[name]}", remedy, observed=found[name], expected=planned[name])
    if not wrong:
        yield ok(f"{who} has the {len(found)} values of the plan", len(found))
