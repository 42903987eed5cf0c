"""The lists of the roles in playbooks/ and docs/, as the meta/gpulab.yml of each role says it.

Ansible cannot read that at run time: a loop over include_role has one name and one set of tags for all roles.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import known

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

APPLY = """---
# Written by `make docs` from roles/*/meta/gpulab.yml: the roles in their order, each once. provision.yml runs those
# that are due, plan.yml predicts their changes. remove.yml has those that can be removed, in reverse.
{roles}"""
ROLE = """- name: {task}
  ansible.builtin.include_role:
    name: gpulab.node.{name}
    apply: {{tags: {tags}}}
{variables}  when: {when}
  tags: {tags}
"""
END = """- name: {task}, to the end
  ansible.builtin.include_role:
    name: gpulab.node.{name}
    tasks_from: end
    apply: {{tags: {tags}}}
  when: {when}
  tags: {tags}
"""
TABLE = """| Role | What it does | Parts of the plan | Is due with | `remove.yml` |
| --- | --- | --- | --- | --- |
"""
IS_DUE = "\"'{}' in ansible_facts['gpulab_plan'].due\""


def apply(roles: Iterable[known.Role]) -> str:
    """Return the text of playbooks/tasks/roles.yml, which runs the roles in this order."""
    roles = list(roles)
    texts = []
    for role in roles:
        texts += [_task(other, END) for other in roles if other.ends_before == role.name]
        texts.append(_task(role, ROLE))
    return APPLY.format(roles="\n".join(texts))


def _task(role: known.Role, text: str) -> str:
    return text.format(
        name=role.name,
        task=role.task,
        tags=f"[{', '.join([role.name, *role.tags])}]" if role.tags else role.name,
        variables=f"  vars:\n{_block(role.variables)}" if role.variables else "",
        when=role.when or IS_DUE.format(role.name),
    )


def remove(roles: Mapping[str, known.Role]) -> dict[str, str]:
    """Return what playbooks/remove.yml has of the roles, which are in the order in which they run."""
    return {
        "variables": "".join(_block(role.at_removal) for role in reversed(roles.values())),
        "roles": "".join(f"    - role: gpulab.node.{name}\n      tags: {name}\n" for name in known.removed()),
        "receipts": f"      loop: [{', '.join(name for name, role in roles.items() if role.stays)}]\n",
    }


def table(roles: Iterable[known.Role]) -> str:
    """Return the rows of docs/architecture.md, one for each role."""
    rows = (
        f"| [{role.name}](../roles/{role.name}/README.md) | {role.task} | {', '.join(role.plan)} |"
        f" {', '.join(role.due_with)} | {'stays' if role.stays else 'is removed' if role.is_removed else ''} |\n"
        for role in roles
    )
    return f"\n{TABLE}{''.join(rows)}\n"


def _block(values: Mapping[str, Any]) -> str:
    """Return the lines of a mapping."""
    return "".join(f"    {name}: {_value(value)}\n" for name, value in values.items())


def _value(value: Any) -> str:
    if isinstance(value, str) and "{{" in value:
        return json.dumps(value)
    return yaml.safe_dump(value, default_flow_style=True, width=1000).splitlines()[0]
