# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the node has to reboot after the plan is applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import branch_of

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Driver, Reboot


def plan(case: Case, driver: Driver) -> Reboot:
    """Return {needed, because}: a reboot is needed where the loaded modules cannot be those of the plan."""
    if not case.gpus:
        return {"needed": False, "because": ["The node has no GPU to load the driver for."]}
    if case.container:
        return {"needed": False, "because": ["A container uses its host's kernel and modules."]}
    modules = case.facts["modules"]
    because = [
        f"{name} is in use and holds the GPUs until a reboot."
        for name in ("nouveau", "nova_core")
        if name in modules and modules[name]["loaded"] and not (name == "nouveau" and case.facts["nouveau"]["unused"])
    ]
    nvidia = modules["nvidia"]["version"] if modules["nvidia"]["loaded"] else None
    planned = driver["version"] or driver["branch"]
    if nvidia and planned not in (nvidia, branch_of(nvidia)):
        because.append(f"nvidia {nvidia} is loaded; the plan is {planned}.")
    return {"needed": bool(because), "because": because or ["The driver loads without a reboot."]}
