# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the inventory of a play on the controller, once for all its hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleError
from ansible.inventory.manager import split_host_pattern
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, inventory_check, options
from ansible_collections.gpulab.node.plugins.plugin_utils.core.failure import failure
from ansible_collections.gpulab.node.plugins.plugin_utils.core.hosts_action import HostsAction
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check import unread

display = Display()

# What is known only after the node was read; a variable made of it cannot be judged before.
OF_THE_NODE = ("ansible_facts", "ansible_local")


class ActionModule(HostsAction):
    """Collect the variables of the play's hosts and fail with everything that is wrong with them."""

    def for_hosts(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - there are none
        """Return success, or one line for each refusal."""
        known = options.load()
        hosts = {name: _variables(variables["hostvars"], name, known) for name in variables["ansible_play_hosts_all"]}
        groups = variables["groups"]
        refusals = inventory_check.check(hosts, groups, known, catalog.load())
        tags = [variables.get(name, ()) for name in ("ansible_run_tags", "ansible_skip_tags")]
        directories = _directories(variables)
        refusals += [*unread.tags(context.CLIARGS.get("args", ()), *tags), *unread.groups(directories, groups)]
        refusals += unread.limits(split_host_pattern(context.CLIARGS.get("subset") or ""), groups)
        refusals += unread.nulls(load_extra_vars(self._loader))
        if warning := unread.hosts(directories, groups.get("all", ())):
            display.warning(warning)
        if not refusals:
            return {"changed": False, "msg": f"the inventory of {len(hosts)} hosts is valid"}
        return failure(refusals)


def _directories(task_vars: dict[str, Any]) -> list[Path]:
    """Return the directories in which Ansible looks for group_vars and host_vars."""
    sources = [Path(source) for source in task_vars.get("ansible_inventory_sources", ()) if "," not in source]
    playbooks = [Path(task_vars["playbook_dir"])] if "playbook_dir" in task_vars else []
    places = [source if source.is_dir() else source.parent for source in sources]
    return list(dict.fromkeys(place.absolute() for place in [*places, *playbooks]))


def _variables(hostvars: Any, host: str, known: options.Options) -> dict[str, Any]:
    """Return the variables of a host that are to be judged, their templates worked out."""
    mine, variables = hostvars[host], {}
    facts = mine.get("ansible_facts", {})  # where Ansible injects them, they are variables too, and no input
    kept = hostvars._variable_manager._nonpersistent_fact_cache.get(host, {})  # noqa: SLF001 - nothing else tells them apart
    of_roles = {name for name in kept if name.startswith("__")}  # which an earlier play of the run has run
    for name in mine:
        if name in facts or name in of_roles or not (name in inventory_check.CONNECTION or known.concerns(name)):
            continue
        try:
            variables[name] = mine[name]
        except AnsibleError as error:
            raw = str(hostvars.raw_get(host)[name])
            if not any(fact in raw for fact in OF_THE_NODE):
                variables[name] = inventory_check.Broken(str(error))
    return variables
