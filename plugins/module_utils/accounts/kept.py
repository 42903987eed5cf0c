# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory wanted of a node's people at the last run, kept there: by it the facts tell what differs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core import files, records

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.accounts.quotas import Quota
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

FILE = "/var/lib/gpulab/people.json"


class KeptGroup(TypedDict):
    """A group of users_groups."""

    name: str
    gid: int


class KeptPerson(TypedDict):
    """A person of users_people, without what no account has."""

    name: str
    uid: int
    groups: list[str]
    keys: list[str]
    until: str | None
    state: str


class KeptQuota(TypedDict):
    """A quota, as accounts/quotas.py has it."""

    name: str
    number: int
    place: str
    kind: str
    space: int
    files: int


class KeptPeople(TypedDict):
    """Both lists, where homes are made, the limits of users_limits that are set, and the quotas."""

    groups: list[KeptGroup]
    people: list[KeptPerson]
    homes: str
    limits: dict[str, Any]
    quotas: list[KeptQuota]


def read(node: Node) -> KeptPeople | None:
    """Return it; None where the inventory names nobody, or only root may know. Raises Refusal H220."""
    return records.read(node.path(FILE), KeptPeople, None, "who the people of this node are")


def write(  # noqa: PLR0913, PLR0917
    groups: Iterable[KeptGroup],
    people: Iterable[Mapping[str, Any]],
    homes: str,
    limits: Mapping[str, Any],
    quotas: Iterable[Quota],
    file: Path = Path(FILE),
) -> None:
    """Keep it, for root alone; nothing where there are neither people nor quotas. Raises Refusal H221."""
    kept = [{name: person.get(name) for name in KeptPerson.__annotations__} for person in people]
    set_limits = {name: value for name, value in limits.items() if value}
    whole = {"groups": list(groups), "people": kept, "homes": homes, "limits": set_limits}
    whole["quotas"] = [quota._asdict() for quota in quotas]
    if kept or whole["quotas"]:
        files.make_directory(file.parent)  # which is for everybody to enter
    records.keep(file, whole if kept or whole["quotas"] else {}, files.SECRET)
