# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts of a play, as a filter over the groups: a play without hosts would end well and have done nothing."""

from __future__ import annotations

from typing import Any, Callable

from ansible import context
from ansible.utils.display import Display
from ansible_collections.gpulab.node.plugins.action import gpu_facts
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils import (
    catalog,
    options,
    plan,  # noqa: F401 - for the workers
    preflight,  # noqa: F401
    proof,  # noqa: F401
)
from ansible_collections.gpulab.node.plugins.plugin_utils.core.gpulab_version import need_ansible
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check import structure
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.report import hosts  # noqa: F401
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import due, known

display = Display()
RC_PARSER_ERROR = 4  # of ansible-playbook, where a playbook cannot be run
LOOKS_ONLY = ("syntax", "listhosts", "listtasks", "listtags")


def gpu_nodes(groups: dict[str, Any]) -> str:
    """Return the pattern of the GPU nodes.

    Ends the run where it would find none (I020), and where it would begin after its nodes were read (I040): an error of
    a filter would stand in an excerpt of the playbook, which is not what is wrong.
    """
    need_ansible()
    try:
        if task := context.CLIARGS.get("start_at_task"):
            raise refuse("I040", task=task)
        # Here, in the process that all workers are forked from, so that none of them imports and reads these again.
        options.load()
        known.load()
        due.code()
        gpu_facts.reader()
        catalog.load().read_all()
        sources = context.CLIARGS.get("inventory") or ()
        return structure.selection(groups, sources)
    except Refusal as refusal:
        if any(context.CLIARGS.get(option) for option in LOOKS_ONLY):
            return structure.GPU_NODES
        display.error(str(refusal), wrap_text=False)
        raise SystemExit(RC_PARSER_ERROR) from refusal


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[[dict[str, Any]], str]]:
        """Return the filters by name."""
        return {"gpu_nodes": gpu_nodes}
