# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which roles have something to do on a node, and why: a role is left out where its receipt still holds.

A receipt holds where the role would work from the same (its settings, its part of the plan, the GPUs, the nodes it
names, the code of gpulab that it runs), and where everything that it answers for is as the last run left it.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError
from ansible_collections.gpulab.node.plugins.module_utils.receipts.items import digest
from ansible_collections.gpulab.node.plugins.plugin_utils import options
from ansible_collections.gpulab.node.plugins.plugin_utils.options import forms
from ansible_collections.gpulab.node.plugins.plugin_utils.peers import host_names
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import known
from ansible_collections.gpulab.node.plugins.plugin_utils.roles.code import RoleCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Plan

ALL = "all"
GPU_NODES = "gpu-nodes"
ADDRESSES = ("network_address", "nccl_address", "ansible_host", host_names.OPTION)
# They say when and where the driver's modules are built, not what the node gets; the playbook sets the first.
BY_PLAYBOOK = "nvidia_driver_build_beside"
HOW_IT_IS_BUILT = {BY_PLAYBOOK, "nvidia_driver_builds_directory"}
# What the plan says of the node as it is, not of what it gets.
OF_NOW = {"because", "change", "packages_change", "restart", "engine_packages", "engine_repository"}
OF_NOW |= {"retire_packages", "remove_packages", "conflicting_packages"}
NO_RECEIPT = "it has no receipt on the node"
NEWER_DRIVER = "the distribution may have a newer driver"
WHY = {
    "gpulab": "gpulab changed",
    "settings": "its settings changed",
    "plan": "its part of the plan changed",
    "gpus": "the GPUs changed",
    "nodes": "the nodes of its group changed",
    "files": "files on the controller changed",
}


def inputs(
    role: str,
    plan: Plan,
    facts: Mapping[str, Any],
    values: options.Values,
    variables: Mapping[str, Any],
) -> dict[str, str]:
    """Return a digest of each thing that a role works from on a host with these variables."""
    parts: Mapping[str, Any] = plan
    own, host = {name: _value(name, values) for name in settings(role)}, variables.get("inventory_hostname", "")
    return {
        "gpulab": code()[role],
        "settings": digest(own),
        "plan": digest({part: _planned(parts[part]) for part in known.load()[role].plan}),
        "gpus": digest([[gpu["address"], gpu["device"]] for gpu in facts["pci"]["gpus"]]),
        "nodes": digest(_nodes(role, plan, values, variables)),
        "files": digest([_content(path, host) for name in sorted(own) for path in _paths(name, own[name])]),
    }


def compared(role: str, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the role's receipt keeps of the plan."""
    return {part: _only(plan[part], names) for part, names in known.load()[role].compared.items()}


def _only(part: Any, names: list[str]) -> Any:
    if isinstance(part, list):
        return [_only(one, names) for one in part]
    return {name: part[name] for name in names}


def roles(
    receipts: Mapping[str, Mapping[str, Any]],
    plan: Plan,
    facts: Mapping[str, Any],
    values: options.Values,
    variables: Mapping[str, Any],
) -> dict[str, list[str]]:
    """Return why each role is due that is, by role, from the receipts and the variables of a host."""
    with_receipt = known.with_receipt()
    if values["gpulab_due"] == ALL:
        return {role: ["gpulab_due is all"] for role in with_receipt}
    found: dict[str, list[str]] = {}
    for role, declared in with_receipt.items():
        why = _differs(receipts.get(role), inputs(role, plan, facts, values, variables))
        why += [f"{other} is due" for other in found if other in declared.due_with]
        if role == "nvidia_driver" and plan["driver"]["upgrade"]:
            why.append(NEWER_DRIVER)
        if role == "nvidia_driver" and facts["driver"]["former"]:
            why.append("its new driver is not confirmed yet")
        if why:
            found[role] = why
    if facts["reboot"]["reasons"] or facts["reboot"]["loadable"]:
        found["reboot"] = facts["reboot"]["reasons"] or ["the driver is not loaded"]
    return found


def at_work(variables: Mapping[str, Any], due: Mapping[str, Any]) -> list[str]:
    """Return the roles that are due and that the tags of this run choose."""
    chosen, skipped = variables.get("ansible_run_tags", ["all"]), variables.get("ansible_skip_tags", [])
    return [role for role in due if role not in skipped and ("all" in chosen or role in chosen)]


def _differs(receipt: Mapping[str, Any] | None, current: Mapping[str, str]) -> list[str]:
    if receipt is None:
        return [NO_RECEIPT]
    if receipt["problem"]:
        return [receipt["problem"]]
    former = receipt["inputs"]
    return [WHY[name] for name in current if former.get(name) != current[name]] + list(receipt["differs"])


def _nodes(role: str, plan: Plan, values: options.Values, variables: Mapping[str, Any]) -> Any:
    """Return what a role's work depends on of other nodes: their names and addresses, from a host's variables."""
    if role not in ("network", "nccl") or (role == "network" and values["network_state"] != "present"):
        return None
    groups, hosts = variables.get("groups", {}), variables.get("hostvars", {})
    group = values["network_group"] if role == "network" else plan["tuning"]["host_type"] or GPU_NODES
    names = [name for name in groups.get(group) or groups.get(group.replace("-", "_"), []) if name in hosts]
    if role == "network":
        return [[name, *(hosts[name].get(variable) for variable in ADDRESSES)] for name in names]
    return [hosts[name].get("nccl_address") or hosts[name].get("ansible_host") or name for name in names[:1]]


def _value(name: str, values: options.Values) -> Any:
    """Return an option's value; a text where it cannot be known before the role runs, which then is always due."""
    try:
        return values[name]
    except AnsibleError as error:
        return f"not known yet: {error}"


def settings(role: str) -> tuple[str, ...]:
    """Return the names of the settings that a role reads."""
    there = options.load()
    own = (name for name in there.options if there.role_of(name) == role and name not in HOW_IT_IS_BUILT)
    return (*own, *known.load()[role].settings)


def _planned(part: Any) -> Any:
    """Return a part of the plan without what it says of the node as it is now."""
    if isinstance(part, dict):
        return {name: _planned(value) for name, value in part.items() if name not in OF_NOW}
    return [_planned(value) for value in part] if isinstance(part, list) else part


def _paths(name: str, value: Any) -> list[str]:
    """Return the paths on the controller in an option's value."""
    if isinstance(value, dict):
        return [path for key, one in value.items() for path in _paths(f"{name}.{key}", one)]
    if isinstance(value, list):
        return [path for one in value for path in _paths(name, one)]
    here = forms.OPTIONS.get(name) in (forms.HERE, forms.FETCHED)
    return [value] if here and isinstance(value, str) and "://" not in value else []


def _content(path: str, host: str) -> Any:
    """Return a file's digest; of a directory, those of what a host has in it."""
    place = Path(path).expanduser()
    if place.is_dir():
        own = sorted(one for top in place.glob(f"{host}*") for one in (top.rglob("*") if top.is_dir() else [top]))
        return [[str(one.relative_to(place)), _content(str(one), host)] for one in own if one.is_file()]
    try:
        return hashlib.sha256(place.read_bytes()).hexdigest()
    except OSError:
        return None


@lru_cache(maxsize=1)
def code() -> dict[str, str]:
    """Return a digest of the files of gpulab that each role works with, by role."""
    files = RoleCode(known.ROOT)
    return {role: files.digest(role) for role in known.with_receipt()}
