# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to do about the environments of a node, of pip's packages as of conda's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.environments.builds import (
    change,
    group_named,
    removal,
    transfer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ansible_collections.gpulab.node.plugins.module_utils.environments.builds import Builds


@dataclass(frozen=True)
class Due:
    """What is to do: todo has why each environment is made, given are those for other users, gone those that go."""

    todo: dict[str, list[str]]
    given: list[str]
    gone: list[str]

    def __bool__(self) -> bool:
        """Tell whether there is anything to do."""
        return bool(self.todo or self.given or self.gone)


def look(builds: Builds, environments: Sequence[Any], reasons: Callable[..., list[str]], gone: list[str]) -> Due:
    """Return what is to do; reasons says of a build and what is wanted of it why it must be made again."""
    todo = {one.name: reasons(builds.build(one.name), one) for one in environments}
    todo = {name: because for name, because in todo.items() if because}
    given = [one.name for one in environments if one.name not in todo and not builds.is_given(one.name)]
    return Due(todo, given, gone)


def unlisted(builds: Builds, environments: Sequence[Any], gone: list[str]) -> list[str]:
    """Return the environments that are there, and of which nobody said whether they shall be."""
    listed = {*gone, *(one.name for one in environments)}
    return [name for name in builds.names() if name not in listed]


def foreseen(
    builds: Builds,
    due: Due,
    environments: Sequence[Any],
    params: dict[str, Any],
    predict: Callable[[Any], dict[str, str]],
) -> list[dict[str, Any]]:
    """Return the changes that would be; predict returns the packages that an environment would hold."""
    made = [one for one in environments if one.name in due.todo]
    return [
        *(change(one.name, due.todo[one.name], builds.packages(one.name), predict(one)) for one in made),
        *(transfer(name, builds.users(name), group_named(params, name)) for name in due.given),
        *(removal(name, builds.packages(name)) for name in due.gone),
    ]
