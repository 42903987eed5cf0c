# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether what a run is given can be read: files of the inventory and of variables, and what -e names.

Only the form is judged: parsing builds nothing, so tags such as !vault mean nothing yet. Values are judged later.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

SUFFIXES = (".yml", ".yaml")
PARTS = ("hosts", "children", "vars")
VAULT = "$ANSIBLE_VAULT"
TAB = "Indent with spaces: YAML knows no tabs."
FORM = "Compare indentation, colons and quotes of this line and the one above with examples/four_servers/hosts.yml."
NAMES = "Write a colon after each name, and no dash before it, as in: {part}: {{node01:, node02:}}."
VARIABLES = "Write NAME: VALUE, with a space behind the colon, and no dash before the name."
QUOTE = "Write the second quote; two of them stand for one within single quotes."
TEMPLATE = 'Write quotes around a template: "{{ name }}".'
TWICE = "Put all of it in one place: only the last one counts."
PASSWORD = "Run it again with --ask-vault-pass, or with --vault-password-file FILE."  # noqa: S105 - no password
SHELL = """Write it as in: -e '{"name": "value"}'"""
THERE = "Correct the path: it counts from the current directory."


def fault(source: Path, *, is_one_of_several: bool = False, has_vault_password: bool = False) -> Refusal | None:
    """Return the first fault of a source of the inventory, and of group_vars and host_vars beside it; None without.

    One of several sources may be made later, as molecule's is: Ansible warns of it.
    """
    if not (is_one_of_several or source.exists() or "," in source.name):
        return refuse("I050", place=source, problem="there is no such file or directory", advice=THERE)
    found = list(_of_file(source, _misformed)) if source.suffix in SUFFIXES else []
    names = source.read_text(encoding="utf-8", errors="replace") if source.is_file() else source.name
    for directory in (source.parent / "group_vars", source.parent / "host_vars"):
        for path in sorted(directory.rglob("*")):
            if path.is_file() and path.suffix in (*SUFFIXES, "") and _is_read(path.relative_to(directory), names):
                found += _of_file(path, _no_variables, has_vault_password=has_vault_password)
    return found[0] if found else None


def _is_read(path: Path, names: str) -> bool:
    """Tell whether Ansible reads a file of variables: it is of a group or host of the inventory, and not hidden."""
    name = path.parts[0] if len(path.parts) > 1 else path.stem
    hidden = any(part.startswith(".") or part.endswith("~") for part in path.parts)
    named = name == "all" or re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", names)
    return bool(named) and not hidden


def fault_of_arguments(given: Iterable[str], directory: Path) -> Refusal | None:
    """Return the first fault of what -e gives: a file that is not there, or text that is no mapping."""
    for text in given:
        if text.startswith("@") and not (directory / Path(text[1:]).expanduser()).exists():
            return refuse("I050", place=f"-e {text}", problem="there is no such file", advice=THERE)
        if text.startswith(("{", "[")):
            try:
                yaml.compose(text, Loader=yaml.SafeLoader)
            except yaml.MarkedYAMLError as error:
                return refuse("I050", place=f"-e {text}", problem=error.problem, advice=SHELL)
    return None


Wrong = tuple[yaml.Node, str, str]  # where, what is wrong, what helps


def _of_file(
    path: Path, wrong: Callable[[yaml.Node], Iterator[Wrong]], *, has_vault_password: bool = True
) -> Iterator[Refusal]:
    try:
        text = path.read_text(encoding="utf-8")
        node = None if text.startswith(VAULT) else yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark, problem, advice = error.problem_mark, error.problem, FORM
        if "\\t" in str(problem):
            advice = TAB
        elif "quoted scalar" in str(error.context):
            mark, problem, advice = error.context_mark, "a quote that begins there does not end", QUOTE
        yield refuse("I050", place=f"{path}:{mark.line + 1}" if mark else path, problem=problem, advice=advice)
        return
    except (OSError, ValueError, yaml.YAMLError):
        return  # Ansible says it in a line
    if text.startswith(VAULT) and not has_vault_password:
        yield refuse("I050", place=path, problem="it is encrypted, and no password was given", advice=PASSWORD)
    for at, problem, advice in (*wrong(node), *_repeated(node)) if node else ():
        yield refuse("I050", place=f"{path}:{at.start_mark.line + 1}", problem=problem, advice=advice)


def _misformed(node: yaml.Node) -> Iterator[Wrong]:
    """Yield each hosts, children and vars that does not hold names. A plugin's settings are none of these."""
    if not isinstance(node, yaml.MappingNode) or any(key.value == "plugin" for key, _value in node.value):
        return
    for _group, content in node.value:
        for key, value in content.value if isinstance(content, yaml.MappingNode) else ():
            several = isinstance(value, yaml.ScalarNode) and {",", " "} & set(value.value)
            if key.value in PARTS and (several or isinstance(value, yaml.SequenceNode)):
                is_a = f'the text "{value.value}"' if several else "a list"
                yield value, f"{key.value} is {is_a}, where names with a colon belong", NAMES.format(part=key.value)
            elif key.value == "children":
                yield from _misformed(value)


def _no_variables(node: yaml.Node) -> Iterator[Wrong]:
    if not isinstance(node, yaml.MappingNode):
        is_a = "a list" if isinstance(node, yaml.SequenceNode) else f'the text "{node.value}"'
        yield node, f"it is {is_a}, where variables belong", VARIABLES


def _repeated(node: yaml.Node) -> Iterator[Wrong]:
    """Yield each key that a mapping has twice, and each that is a mapping itself: a template without quotes."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _repeated(item)
    seen = {"<<"}
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if not isinstance(key, yaml.ScalarNode):
            yield key, "a template has no quotes", TEMPLATE
            continue
        if key.value in seen and key.value != "<<":
            yield key, f"{key.value} stands there twice", TWICE
        seen.add(key.value)
        yield from _repeated(value)
