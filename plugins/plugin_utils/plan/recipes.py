# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recipes of outdated guides, met in the wishes: refused with the recipe that works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog


def check(wishes: Mapping[str, Any], catalog: Catalog) -> None:
    """Raise Refusal for the first wrong recipe in a wish that it may stand in."""
    for name in catalog.recipe_options:
        for place, text in _texts(name, wishes.get(name)):
            for recipe in catalog.recipes:
                if place in recipe["in"] and recipe["pattern"].search(text):
                    raise refuse("P021", variable=name, text=text, wrong=recipe["wrong"], right=recipe["right"])


def _texts(place: str, value: Any) -> Iterator[tuple[str, str]]:
    """Walk through every text of a wish, each with the wish or field that it stands in."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(f"{place}.{key}", inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(place, inner)
