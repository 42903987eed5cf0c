# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All options, and which other variables look as if they were meant to be one."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import LOADER
from ansible_collections.gpulab.node.plugins.plugin_utils.options.option import Option, of_spec

ROOT = Path(__file__).parents[3]
NEAR = 0.8  # of difflib, for a name with one of our prefixes
NEARER = 0.9  # for any other name: cudnn_verison is meant for us, cudnn_home is not
# Names of roles and playbooks that others' variables begin with, too: storage_class is not meant for us.
GENERAL = (
    "base",
    "capture",
    "conda",
    "environments",
    "monitoring",
    "network",
    "plan",
    "provision",
    "remove",
    "storage",
    "tuning",
)


class Options:
    """The known variables by name, and which other names are meant for them."""

    def __init__(self, options: dict[str, Option], prefixes: tuple[str, ...]) -> None:
        """Take the variables, and the prefixes of roles and playbooks."""
        self.options = options
        self.prefixes = prefixes

    @cached_property
    def claimed(self) -> tuple[str, ...]:
        """The prefixes that no other variable may carry."""
        return tuple(prefix for prefix in self.prefixes if prefix[:-1] not in GENERAL)

    @cached_property
    def _private(self) -> tuple[str, ...]:
        return tuple(f"__{prefix}" for prefix in self.claimed)

    @lru_cache(maxsize=8192)  # noqa: B019  the one instance lives as long as the process
    def concerns(self, name: str) -> bool:
        """Tell whether a variable is known, or looks as if it were meant to be."""
        ours = name in self.options or name.startswith(self.claimed) or self.is_private(name)
        return ours or bool(get_close_matches(name, self.options, 1, NEARER))

    def is_private(self, name: str) -> bool:
        """Tell whether a variable is an internal one of a role or playbook."""
        return name.startswith(self._private)

    def nearest(self, name: str) -> str | None:
        """Return the known variable that a misspelt one is likely to mean."""
        return next(iter(get_close_matches(name, self.options, 1, NEAR)), None)

    def role_of(self, name: str) -> str | None:
        """Return the role whose prefix a variable carries."""
        roles = [prefix[:-1] for prefix in self.prefixes if name.startswith(prefix)]
        return next((role for role in roles if (ROOT / "roles" / role).is_dir()), None)


@lru_cache(maxsize=1)
def load() -> Options:
    """Read the variables of this collection."""
    options: dict[str, Option] = {}
    paths = sorted(ROOT.glob("roles/*/meta/argument_specs.yml"))
    for path in paths:
        for entry in _read(path)["argument_specs"].values():
            options.update({option.name: option for option in of_spec(entry.get("options") or {})})
    names = {"gpulab", *(path.parents[1].name for path in paths), *(path.stem for path in ROOT.glob("playbooks/*.yml"))}
    return Options(options, tuple(sorted(f"{name}_" for name in names)))


def _read(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), LOADER)  # noqa: S506 - LOADER is safe
