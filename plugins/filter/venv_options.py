# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environments of a plan, as the module venv_environments takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from ansible_collections.gpulab.node.plugins.filter.file_text import file_text
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.environments import mirrored

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Environment

OPTIONS = (
    *("name", "python", "requirements", "index_packages", "variables", "framework", "version", "cuda", "group"),
    *("constraints", "overrides", "compile", "prereleases"),
)


def venv_options(planned: list[Environment], mirror: str | None = None) -> list[dict[str, Any]]:
    """Return the module's option ``environments``.

    mirror stands in for the part of PyTorch's index addresses before the build, as in MIRROR/cu126. Locks are read.
    What is null is left out: Ansible takes no null for a choice.
    """
    return [
        {
            **{name: value for name, value in dict(environment).items() if name in OPTIONS and value is not None},
            "index_url": mirrored(environment["index_url"], mirror),
            "lock": file_text(environment["lock"]) if environment["lock"] else environment["lock_text"],
        }
        for environment in planned
    ]


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"venv_options": venv_options}
