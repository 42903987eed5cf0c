# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a file of the inventory is YAML, and has the form of an inventory. Its values are judged later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

SUFFIXES = (".yml", ".yaml")
PARTS = ("hosts", "children", "vars")
TAB = "Indent with spaces: YAML knows no tabs."
FORM = "Compare indentation, colons and quotes of this line and the one above with examples/four_servers/hosts.yml."
MAPPING = "Write a colon after each name, and no dash before it, as in: {part}: {{node01:, node02:}}."


def fault(path: Path) -> Refusal | None:
    """Return why a file cannot be read as an inventory; None for a good one, and for what is none in YAML."""
    try:
        if path.suffix not in SUFFIXES or not path.is_file():
            return None
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(
            text, Loader=yaml.SafeLoader
        )  # parses without building: tags such as !vault mean nothing yet
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        return refuse("I050", place=place, problem=error.problem, advice=TAB if "\\t" in str(error.problem) else FORM)
    except (OSError, ValueError, yaml.YAMLError):
        return None  # Ansible says it in a line
    return next((_refusal(path, *wrong) for wrong in _misformed(node)), None)


def _refusal(path: Path, node: yaml.SequenceNode, part: str) -> Refusal:
    problem = f"{part} is a list, where names with a colon belong"
    return refuse("I050", place=f"{path}:{node.start_mark.line + 1}", problem=problem, advice=MAPPING.format(part=part))


def _misformed(node: yaml.Node | None) -> Iterator[tuple[yaml.SequenceNode, str]]:
    """Yield each hosts, children and vars that is a list, with its name. A plugin's settings are none of these."""
    if not isinstance(node, yaml.MappingNode) or any(key.value == "plugin" for key, _value in node.value):
        return
    for _group, content in node.value:
        for key, value in content.value if isinstance(content, yaml.MappingNode) else ():
            if key.value not in PARTS:
                continue
            if isinstance(value, yaml.SequenceNode):
                yield value, key.value
            elif key.value == "children":
                yield from _misformed(value)
