# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpulab.node.repository: declare a repository of packages to the package manager that the node has."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle import use
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.core.only_asks import only_asks

# By family of systems: the module, and the options that mean something to no other one.
MODULES = {"debian": "gpulab.node.apt_repository", "redhat": "gpulab.node.dnf_repository"}
OF_ONE = {"debian": ("suite", "components", "packages"), "redhat": ("module_stream", "former")}


class ActionModule(ActionBase):
    """Hand the options on that the node's package manager knows; a bundle that the node uses declares it."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the module says."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        if only_asks(variables):
            return {"changed": False}
        family = variables["ansible_facts"]["gpulab"]["system"]["family"]
        foreign = {name for other, names in OF_ONE.items() if other != family for name in names}
        given = {name: value for name, value in self._task.args.items() if name not in foreign}
        bundle = use.in_use(variables)
        try:
            given = use.repository(bundle, variables["inventory_hostname"], given) if bundle else given
        except Refusal as refusal:
            return failure([refusal])
        result = self._execute_module(MODULES[family], given, task_vars=variables)
        return {**result, "changed": bool(result.get("changed"))}
