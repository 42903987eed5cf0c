# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each role leaves on a node, and what becomes of it, as roles/*/meta/leaves.yml declare it.

Captures go by it, removals are held to it, and so are receipts: a file that one names is declared by its role.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import LOADER
from ansible_collections.gpulab.node.plugins.plugin_utils.roles.known import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

_SETTING = re.compile(r"\{(\w+_\w+)\}")
_OF_RECEIPT = re.compile(r"\{file:(.+)\}")
_PATTERN = re.compile(r"[*?[{]")


@lru_cache(maxsize=1)
def load() -> list[dict[str, Any]]:
    """Return what the roles declare: {role, fate, why, paths}, and stays where a removal leaves it, with the reason."""
    return [
        {"role": path.parents[1].name, **one}
        for path in sorted(ROOT.glob("roles/*/meta/leaves.yml"))
        for one in yaml.load(path.read_text(encoding="utf-8"), LOADER)["leaves"]  # noqa: S506 - LOADER is safe
    ]


def exact() -> list[str]:
    """Return the paths that the roles declare for every node: without a pattern, a setting or somebody's home."""
    declared = [_OF_RECEIPT.sub(r"\1", path) for one in load() for path in one["paths"]]
    return sorted({path.rstrip("/") for path in declared if path.startswith("/") and not _PATTERN.search(path)})


def on_host(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a node needs of it: {role, fate, paths}, with the host's values for the names of settings.

    A path is left out where its setting is empty.
    """
    return [
        {"role": one["role"], "fate": one["fate"], "paths": [path for path in given if path is not None]}
        for one in load()
        for given in [[_set(path, values) for path in one["paths"]]]
    ]


def _set(path: str, values: Mapping[str, Any]) -> str | None:
    named = _SETTING.findall(path)
    if not all(values[name] for name in named):
        return None
    return _SETTING.sub(lambda found: str(values[found[1]]).rstrip("/"), path)
