#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give a node the people of the inventory."""

from __future__ import annotations

DOCUMENTATION = r"""
module: user_accounts
short_description: Give a node the people and groups of the inventory
version_added: 1.0.0
description:
  - Makes groups and accounts with the numbers of the inventory, their homes and their keys, and ends accounts. All
    people are looked at before the first change, and one refusal names everything that is wrong.
  - An account that is there keeps its number and its files. An account that no list names is left alone, and told.
  - Keys lie in C(/etc/ssh/gpulab-keys), which is root's; sshd looks there beside the places that it had before.
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Reports what would change, refuses as it would, and changes nothing.
options:
  groups:
    description: The groups, each with O(groups[].name) and O(groups[].gid).
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the group.
        type: str
        required: true
      gid:
        description: Its number.
        type: int
        required: true
  people:
    description: The people.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the account.
        type: str
        required: true
      uid:
        description: Its number, which is the number of the person's own group, too.
        type: int
        required: true
      groups:
        description: Names of O(groups) that the person belongs to.
        type: list
        elements: str
        default: []
      keys:
        description: Public keys.
        type: list
        elements: str
        default: []
      mail:
        description: Where the person is written to.
        type: str
      until:
        description: The last day of the account.
        type: str
      state:
        description: Whether the person is there, is about to leave, or has left.
        type: str
        choices: [present, leaving, absent]
        default: present
      heir:
        description: Who takes over what the person leaves behind.
        type: str
      quota:
        description: How much the person may have in place of that of O(quota), as V(200G).
        type: str
        version_added: 1.1.0
  homes:
    description: The directory in which homes are made.
    type: path
    default: /home
  leave_now:
    description: Whether the sessions of those who leave are ended.
    type: bool
    default: false
  unmounted:
    description: >-
      What a run mounts before it makes homes, as V(disk) or V(server) by place. Only check mode, which comes earlier,
      takes that into account.
    type: dict
    default: {}
    version_added: 1.1.0
  quota:
    description: >-
      How much each person may have on the file system of O(homes), with names as in C(users_quota). Quotas of a former
      run that are in neither O(quota) nor O(directories) are taken away.
    type: dict
    default: {}
    version_added: 1.1.0
  directories:
    description: Directories of groups, each a project of the file system, with names as in C(users_directories).
    type: list
    elements: dict
    default: []
    version_added: 1.1.0
  limits:
    description: >-
      Limits of the sessions of people, with which a proof compares. They are set elsewhere. Names are those of
      C(users_limits).
    type: dict
    default: {}
    version_added: 1.1.0
  sshd_keys:
    description: Whether sshd looks into C(/etc/ssh/gpulab-keys). Unset leaves that alone.
    type: bool
"""

EXAMPLES = r"""
- name: Give the node its people
  gpulab.node.user_accounts:
    groups: [{name: vision, gid: 21000}]
    people:
      - {name: ada, uid: 20001, groups: [vision], keys: ["ssh-ed25519 AAAA... ada@laptop"]}
    sshd_keys: true
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: make, what: account ada}]
unlisted:
  description: Accounts with numbers from 20000 to 59999 that no list names.
  returned: success
  type: list
  elements: str
remaining:
  description: What is left of those who leave.
  returned: success
  type: list
  elements: str
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.accounts import host, kept, plan, quotas, sshd, wanted
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes, of_files
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module, run
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

if TYPE_CHECKING:
    from collections.abc import Mapping

# By action of a step: how the preview calls it, and what is changed.
SHOWN = {
    plan.RESERVE: ("set", "the number of {}"),
    plan.GROUP: ("make", "group {}"),
    plan.ACCOUNT: ("make", "account {}"),
    plan.HOME: ("make", "home of {}"),
    plan.JOIN: ("admit", "{} to {detail}"),
    plan.PART: ("unset", "{} in {detail}"),
    plan.EXPIRE: ("set", "end of the account {}"),
    plan.KEYS: ("set", "keys of {}"),
    plan.LINGER: ("unset", "lingering of {}"),
    plan.CRONTAB: ("remove", "crontab of {}, kept for its heir"),
    plan.AT: ("remove", "job of at of {}, kept for its heir"),
    plan.CANCEL: ("remove", "{detail} jobs of {} that wait in Slurm"),
    plan.END: ("disable", "sessions of {}"),
    plan.REMOVE: ("remove", "account {}"),
}
GROUP = {"name": {"type": "str", "required": True}, "gid": {"type": "int", "required": True}}
PERSON = {
    "name": {"type": "str", "required": True},
    "uid": {"type": "int", "required": True},
    "groups": {"type": "list", "elements": "str", "default": []},
    "keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
    "mail": {"type": "str"},
    "until": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "leaving", "absent"], "default": "present"},
    "heir": {"type": "str"},
    "quota": {"type": "str"},
}
SHOWN_QUOTAS = {
    quotas.MAKE: ("make", "directory {place} of {name}"),
    quotas.TAKE: ("set", "project of {place}"),
    quotas.ENFORCE: ("enable", "quotas of {mount}"),
    quotas.LIMIT: ("set", "quota of {name} in {place}"),
}


def main() -> None:
    """Read, plan, carry out."""
    module = Module(
        argument_spec={
            "groups": {"type": "list", "elements": "dict", "default": [], "options": GROUP},
            "people": {"type": "list", "elements": "dict", "default": [], "options": PERSON},
            "homes": {"type": "path", "default": "/home"},
            "leave_now": {"type": "bool", "default": False},
            "unmounted": {"type": "dict", "default": {}},
            "quota": {"type": "dict", "default": {}},
            "directories": {"type": "list", "elements": "dict", "default": []},
            "limits": {"type": "dict", "default": {}},
            "sshd_keys": {"type": "bool"},
        },
        supports_check_mode=True,
    )
    run(module, operate)


def operate(module: Any) -> dict[str, Any]:
    """Return the result. Raises Refusal."""
    params, node = module.params, Node()
    lists = wanted.parse(params["groups"], params["people"], homes=params["homes"], leave_now=params["leave_now"])
    refusal = host.problem_of_system(node) if lists.people else None
    if not refusal:
        unmounted = params["unmounted"] if module.check_mode else {}
        found = look(node, lists, unmounted)
        refusal = plan.refusal(lists, found, datetime.now(timezone.utc).date())
    if refusal:
        raise refusal
    change = quotas.Change(node, lists, params["quota"], params["directories"], unmounted)
    drop_in = host.drop_in_steps(module, node, wanted=params["sshd_keys"])
    steps, reload = plan.steps(lists, found), host.RELOAD.exists()
    if module.check_mode:
        found = replace(found, jobs={name: jobs._replace(waiting=0) for name, jobs in (found.jobs or {}).items()})
    else:
        keep = partial(kept.write, params["groups"], params["people"], params["homes"], params["limits"])
        keep([*change.wanted, *change.former])  # a run that is killed leaves none that the next one does not know
        host.carry_out(module, lists, steps, found)
        change.carry_out(partial(host.run, module))
        keep(change.wanted)
        host.put_drop_in(module, drop_in)
        found = look(node, lists)
    if lists.people:
        drop_ins = [sshd.DROP_IN] if params["sshd_keys"] and node.exists(sshd.PROGRAM) else []
        evidence.note(module, people=["accounts"], file=[kept.FILE, *drop_ins])
    unlisted, remaining = plan.unlisted(lists, found), plan.remaining(lists, found)
    if unlisted and lists.people:
        module.warn(f"users_people does not name these accounts, which were left alone: {', '.join(unlisted)}")
    for line in [*remaining, *plan.unmade(lists, found)]:
        module.warn(line)
    written = of_files({step.path: step.after for step in drop_in})
    return {
        "changed": bool(steps or change.steps or drop_in or reload),
        "changes": [
            *shown(steps),
            *shown_quotas(change.steps),
            *written,
            *changes(load=["configuration of sshd"] if reload else []),
        ],
        "unlisted": unlisted,
        "remaining": remaining,
    }


def look(node: Node, lists: wanted.Wanted, unmounted: Mapping[str, str] | None = None) -> plan.Found:
    """Return what the node has. Homes whose file system a run has yet to mount have no problem so far."""
    found = host.look_closely(node, lists, host.look(node, lists))
    coming = quotas.coming(lists.homes, unmounted or {})
    if not coming:
        return found
    return replace(found, homes=frozenset(), homes_problem=None, homes_local=coming != quotas.SERVER)


def shown(steps: list[plan.Step]) -> list[dict[str, str]]:
    """Return the steps as the preview shows them."""
    found = []
    for step in steps:
        action, what = SHOWN[step.action]
        found += changes(**{action: [what.format(step.name, detail=step.detail)]})
    return found


def shown_quotas(steps: list[quotas.Step]) -> list[dict[str, str]]:
    """Return the steps of quotas as the preview shows them."""
    found = []
    for step in steps:
        action, what = SHOWN_QUOTAS[step.action]
        found += changes(**{action: [what.format(mount=step.mount, **step.quota._asdict())]})
    return found


if __name__ == "__main__":
    main()
