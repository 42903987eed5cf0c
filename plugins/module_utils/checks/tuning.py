# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that the node is tuned as planned: live values against the plan's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import check, inapplicable, ok, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Node, Result

CATALOG = "catalog/tuning.yml"


def _planned(node: Node, part: str) -> dict[str, Any]:
    return dict(node.planned("tuning")[part].data)


@check("tuning-values", proves="the kernel has the planned values, now and after the next boot", source=CATALOG)
def tuning_values(node: Node) -> Iterator[Result]:
    """Compare; a value that this kernel or this hardware does not have is passed over.

    A value that another file sets at every boot is reported with that file: a reboot would not cure it.
    """
    planned = _planned(node, "values")
    if not planned:
        yield inapplicable("no kernel values are planned")
        return
    if node.facts.get("system.container"):
        yield inapplicable("a container has its host's kernel")
        return
    live = node.facts["tuning.values"].data
    who, remedy = "the kernel", "reboot"
    if node.facts["services"].get("tuned.active") == "active":
        who, remedy = f"the kernel, also set by tuned's profile {node.facts['tuning.tuned_profile']},", "configure"
    undone = {name: one for name, one in _undone(node, planned).items() if live.get(name)}
    for name, one in undone.items():
        yield warn(
            f"{one['file']}, line {one['line']}, sets {name} to {one['value']} at every boot, after gpulab's own file",
            "configure",
            observed=one["value"],
            expected=planned[name],
            reason=f"the kernel has {live[name]} now; remove the line, or change tuning_overrides",
        )
    found = {name: live[name] for name in planned if live.get(name) and name not in undone}
    if found or not undone:
        yield from _differences(planned, found, who, remedy)


def _undone(node: Node, planned: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return the planned values that files after gpulab's set differently."""
    later: Any = node.facts.get("tuning.later")
    return {
        name: one
        for name, one in (later.data if later else {}).items()
        if planned.get(name, one["value"]) != one["value"]
    }


@check("tuning-limits", proves="sessions and services have the planned limits", source=CATALOG)
def tuning_limits(node: Node) -> Iterator[Result]:
    """Compare what PAM and systemd give to what starts from now on."""
    planned = _planned(node, "limits")
    if not planned:
        yield inapplicable("no limits are planned")
        return
    for who, remedy in (("pam", "configure"), ("systemd", "reboot")):
        found = node.facts[f"tuning.limits.{who}"].data
        yield from _differences(planned, {name: found.get(name) for name in planned}, who, remedy)


@check("tuning-services", proves="the tuning services run", source=CATALOG)
def tuning_services(node: Node) -> Iterator[Result]:
    """Look at each; in a container none of them has anything to tune."""
    planned = [name for name, wanted in _planned(node, "services").items() if wanted]
    if not planned:
        yield inapplicable("no services are planned")
        return
    if node.facts.get("system.container"):
        yield inapplicable("a container has its host's kernel")
        return
    for name in planned:
        state = node.facts["services"].get(f"{name}.active", "absent")
        if state == "active":
            yield ok(f"{name} runs", state)
        else:
            yield warn(f"{name} is {state}", "start_service", observed=state, expected="active")


@check("tuning-swap", proves="the swap that is declared is in use", source=CATALOG)
def tuning_swap(node: Node) -> Iterator[Result]:
    """Look for the declared place among the active ones, by all their names."""
    place = node.planned("tuning").get("swap.place")
    if not place:
        yield inapplicable("no swap is planned")
        return
    if any(place in names for names in node.facts["tuning.swaps"].data.values()):
        yield ok(f"{place} is in use", place)
    else:
        yield warn(f"the swap {place} is not in use", "configure", observed=None, expected=place)


def _differences(planned: dict[str, str], found: dict[str, Any], who: str, remedy: str) -> Iterator[Result]:
    wrong = [name for name in found if found[name] != planned[name]]
    for name in wrong:
        yield warn(f"{name}: {who} has {found[name]}", remedy, observed=found[name], expected=planned[name])
    if not wrong:
        yield ok(f"{who} has the {len(found)} planned values", len(found))
