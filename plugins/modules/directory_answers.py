#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look whether the directory serves the node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: directory_answers
short_description: Refuse a node that cannot join the directory
version_added: 1.1.0
description:
  - Judges the settings of role C(directory) (GPULAB-U013), and asks each server over TLS, as the entry that is to read
    it, whether it has the entry below which people are. The node is refused where none does (GPULAB-U014). Nothing is
    ever changed.
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Asks there too; nothing is ever changed.
options:
  uris:
    description: The servers. One that does not answer is told.
    type: list
    elements: str
    required: true
  base:
    description: The entry below which people and groups are.
    type: str
    default: ""
  groups:
    description: Groups whose members may log in.
    type: list
    elements: str
    default: []
  bind_dn:
    description: The entry as which the node reads. Unset means nobody.
    type: str
    default: ""
  bind_password:
    description: Its password.
    type: str
    default: ""
  certificates:
    description: Further authorities to trust, as PEM.
    type: str
    default: ""
  ask:
    description: Whether to ask the servers. Otherwise only the settings are judged.
    type: bool
    default: true
  local_people:
    description: Names of the people whose accounts the inventory makes, of which there must be none.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Ask the directory before anything changes
  gpulab.node.directory_answers:
    uris: ["ldaps://ldap.lab.example"]
    base: dc=lab,dc=example
    groups: [vision]
"""

RETURN = r"""
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.accounts import host, joining, ldap
from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, Child
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module, run
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.users import refuse
from ansible_collections.gpulab.node.plugins.module_utils.system.certificates import trusting

if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext

    from ansible_collections.gpulab.node.plugins.module_utils.core.child import Emit

SECONDS = 20.0  # for a server, its name in DNS included


def main() -> None:
    """Judge and ask."""
    texts = {name: {"type": "str", "default": ""} for name in ("base", "bind_dn", "certificates")}
    lists = {name: {"type": "list", "elements": "str", "default": []} for name in ("groups", "local_people")}
    module = Module(
        argument_spec={
            **texts,
            **lists,
            "uris": {"type": "list", "elements": "str", "required": True},
            "bind_password": {"type": "str", "default": "", "no_log": True},
            "ask": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    run(module, operate)


def operate(module: Any) -> dict[str, Any]:
    """Return that nothing changed. Raises Refusal."""
    params = module.params
    problems = joining.problems(**{name: params[name] for name in joining.ASKED})
    if problems:
        raise refuse("U013", problems="; ".join(problems))
    refusal = host.problem_of_system(Node())
    if refusal:
        raise refusal
    uris, context = params["uris"] if params["ask"] else [], trusting(params["certificates"])
    children = {uri: Child(asking(uri, params, context), SECONDS) for uri in uris}
    silent = []
    for uri, child in children.items():
        ended = child.wait()
        told = child.messages[0] if ended == DONE and child.messages else f"no answer within {SECONDS:.0f} s"
        silent += [f"{uri}: {told}"] if told else []
    if silent and len(silent) == len(uris):
        raise refuse("U014", servers="; ".join(silent))
    for line in silent:
        module.warn(f"this server of the directory does not serve the node: {line}")
    return {"changed": False}


def asking(uri: str, params: dict[str, Any], context: SSLContext) -> Callable[[Emit], None]:
    """Return the work of a child, which says why a server cannot serve the node; an empty text where it can."""

    def ask(emit: Emit) -> None:
        emit(ldap.problem(uri, params["base"], params["bind_dn"], params["bind_password"], context))

    return ask


if __name__ == "__main__":
    main()
