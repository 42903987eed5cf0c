# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles that carry the plan out, in their order, as each one's meta/gpulab.yml says it.

What is due goes by it, and so do playbooks/tasks/roles.yml and playbooks/remove.yml, which `make docs` writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import LOADER

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Role:
    """What the playbooks know of a role; CONTRIBUTING.md says the same to whoever writes one.

    after: the role that it follows. ends_before: the role before which its tasks/end.yml run; what it began goes on
    beside the roles between. tags: more than its own name. variables: what the list gives it. when: what decides
    whether it runs instead of a receipt, which it then does not have. due_with: roles with which it is due, too.
    plan: the parts of the plan that it carries out. compared: of these, the names that a proof compares the node with;
    its receipt keeps these and no more, for a plan may hold addresses with a password in them. settings: those of other
    roles that it reads. at_removal: what remove.yml sets, so that the role takes away what it brought or nothing is
    planned for it. stays: why remove.yml leaves alone what the role brought.
    """

    name: str
    task: str
    after: str = ""
    ends_before: str = ""
    tags: list[str] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)
    when: str = ""
    due_with: list[str] = field(default_factory=list)
    plan: list[str] = field(default_factory=list)
    compared: dict[str, list[str]] = field(default_factory=dict)
    settings: list[str] = field(default_factory=list)
    at_removal: dict[str, Any] = field(default_factory=dict)
    stays: str = ""

    @property
    def has_receipt(self) -> bool:
        """Tell whether a receipt says what the role left, so that it is left out where that holds."""
        return not self.when

    @property
    def is_removed(self) -> bool:
        """Tell whether remove.yml has the role take away what it brought."""
        return bool(self.at_removal) and not self.stays


@lru_cache(maxsize=1)
def load() -> dict[str, Role]:
    """Return the roles by name, in the order in which they run."""
    paths = sorted(ROOT.glob("roles/*/meta/gpulab.yml"))
    return in_order(Role(path.parents[1].name, **_read(path)) for path in paths)


def with_receipt() -> dict[str, Role]:
    """Return the roles that have a receipt, in the order in which they run."""
    return {name: role for name, role in load().items() if role.has_receipt}


def removed() -> list[str]:
    """Return the names of the roles that remove.yml runs, in its order: the last one first."""
    return [name for name, role in reversed(load().items()) if role.is_removed]


def in_order(roles: Iterable[Role]) -> dict[str, Role]:
    """Return roles by name, each behind the one that it follows; those that follow the same one, by name.

    Raises KeyError where one follows a role that there is not, graphlib.CycleError where they go in a circle.
    """
    known = {role.name: role for role in roles}
    order = TopologicalSorter({role.name: [role.after] if role.after else [] for role in known.values()})
    order.prepare()
    names: list[str] = []
    while order.is_active():
        ready = order.get_ready()
        names += sorted(ready)
        order.done(*ready)
    return {name: known[name] for name in names}


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), LOADER)  # noqa: S506  LOADER is safe
    return content
