# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether one variable holds what it takes: its type, choices, form and range, and so for all that is in it.

Ansible's own validator converts what it can: the number 580.10 becomes the text 580.1, and the text "12.9" a list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.options import BOOLEANS, forms, of_option
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
    from ansible_collections.gpulab.node.plugins.plugin_utils.options import Option

EXPECTED = {
    "str": "text",
    "path": "a path",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "list": "a list",
    "dict": "a mapping",
}
SHOWN = 60
HIGHEST_PORT = 65535
FROM_ONE = ("_timeout", "_interval", "_port", "_per_user", "slurm_interactive.gpus")  # ends of names


def shown(value: Any) -> str:
    """Return a value as it is shown to the operator: text in quotes, and nothing of undue length."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def did_you_mean(value: str, known: list[str], otherwise: str) -> str:
    """Return the question that names the nearest of what is known, or another remedy."""
    near = get_close_matches(value, known, 1)
    return f"Did you mean {near[0]}?" if near else otherwise


def faults(option: Option, value: Any, name: str | None = None) -> Iterator[Refusal]:
    """Yield what is wrong with the value of a variable; null leaves it unset and is never wrong.

    name is what the messages call it, when it is a part of a variable: cuda_toolkits[0].
    """
    name = name or option.name
    if value is None:
        return
    if option.type == "list":
        yield from _list_faults(option, value, name)
    elif option.type == "dict":
        yield from _dict_faults(option, value, name)
    elif option.type in ("int", "float"):
        yield from _number_faults(option, value, name)
    elif option.type == "bool":
        yield from _boolean_faults(option, value, name)
    elif option.type in ("str", "path") or (option.type == "raw" and isinstance(value, str)):
        yield from _text_faults(option, value, name)


def _wrong_type(option: Option, value: Any, name: str, advice: str | None = None) -> Refusal:
    expected = EXPECTED[option.type]
    if option.type in ("list", "dict") and isinstance(value, str) and value.startswith(("[", "{")):
        advice = f"""It is text. Behind -e, write all of it as JSON: -e '{{"{name}": {value}}}'."""
    return refuse(
        "I005",
        variable=name,
        value=shown(value),
        expected=expected,
        advice=advice or f"Write {expected}: {option.description}",
    )


def _text_faults(option: Option, value: Any, name: str) -> Iterator[Refusal]:
    form, value = option.form or forms.LINE, of_option(option, value)
    if form.secret and not isinstance(value, str):
        yield refuse("I005", variable=name, value="not text", expected="text", advice="Quote it.")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        zero = ": YAML drops the last zero of a number such as 580.10" if isinstance(value, float) else ""
        shortened = zero and str(value)[-2:] in (".1", ".2", ".3")  # 3.10 is a version that people have; 12.90 is none
        ways = f'"{value}", or "{value}0" if that is what you wrote' if shortened else f'"{value}"'
        yield refuse("I003", variable=name, value=value, zero=zero, ways=ways)
    elif not isinstance(value, str):
        yield _wrong_type(option, value, name)
    elif option.choices and value not in option.choices:
        advice = did_you_mean(value, list(option.choices), "Use one of them.")
        yield refuse("I006", variable=name, value=shown(value), choices=", ".join(option.choices), advice=advice)
    elif not option.choices:
        yield from _form_faults(form, value, name, form.words or option.description)


def _form_faults(form: forms.Form, text: str, name: str, words: str) -> Iterator[Refusal]:
    """Yield what is wrong with the form of a text; a text that may be secret is not shown."""
    problem = form.problem(text)
    if problem is None and not form.fits(text):
        problem = "a wrong form"
        if not form.secret:
            yield refuse("I007", variable=name, value=shown(text), description=words)
            return
    if problem:
        yield refuse("I030", variable=name, problem=problem, form=words)
    elif form.shows_password(text):
        yield refuse("I031", variable=name, way=form.elsewhere)


def _entry_faults(form: forms.Form, entries: Mapping[Any, Any], name: str) -> Iterator[Refusal]:
    """Yield what is wrong with a mapping's names, and with the texts in its values."""
    for key, value in entries.items():
        found = form.of_entry(str(key))
        if found is None:
            problem = f"the unknown name {shown(str(key))}"
            yield refuse("I030", variable=name, problem=problem, form=form.words)
            continue
        wrong = [
            fault
            for place, text in _texts(value, f"{name}.{key}")
            for fault in _form_faults(found, text, place, found.words or "one line of text")
        ]
        yield from wrong
        if not (wrong or found.takes(value)):
            shows = "not text" if found.secret else shown(value)
            advice = "Quote it, or write a number." if value is not None else "Remove it, or give it a value."
            expected = "one line of text or a number"
            yield refuse("I005", variable=f"{name}.{key}", value=shows, expected=expected, advice=advice)


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Walk through all texts in a value, each with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield place, str(key)
            yield from _texts(item, f"{place}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _texts(item, f"{place}[{index}]")


def _boolean_faults(option: Option, value: Any, name: str) -> Iterator[Refusal]:
    """Judge a boolean; a variable, but not a field of one, may also be a word: the command line gives words."""
    if isinstance(value, str) and value.lower() in BOOLEANS:
        if name != option.name:
            yield refuse("I004", variable=name, value=shown(value))
    elif not isinstance(value, bool):
        yield _wrong_type(option, value, name)


def _number_faults(option: Option, value: Any, name: str) -> Iterator[Refusal]:
    """Judge a number; text of digits is one, for the command line gives nothing else."""
    form = r"-?\d+" if option.type == "int" else r"-?\d+(\.\d+)?"
    good_type = isinstance(value, int) or (option.type == "float" and isinstance(value, float))
    if isinstance(value, bool) or not (good_type or (isinstance(value, str) and re.fullmatch(form, value))):
        yield _wrong_type(option, value, name)
        return
    lowest = 1 if name.endswith(FROM_ONE) else 0
    highest = HIGHEST_PORT if option.name.endswith(("_port", "_ports")) else None
    lowest = 1 if highest else lowest
    if float(value) < lowest:
        bound = f"less than {lowest}"
        yield refuse("I008", variable=name, value=value, bound=bound, description=option.description)
    elif highest and float(value) > highest:
        bound = f"more than {highest}"
        yield refuse("I008", variable=name, value=value, bound=bound, description=option.description)


def _list_faults(option: Option, value: Any, name: str) -> Iterator[Refusal]:
    if not isinstance(value, (list, tuple)):
        yield _wrong_type(option, value, name, f"Write a list: {name}: [{shown(value)}].")
        return
    element = replace(option, type=option.elements or "raw", elements=None)
    for index, item in enumerate(value):
        place = f"{name}[{index}]"
        if item is None:
            yield _wrong_type(element, item, place)
        yield from faults(element, item, place)
    # Of one model, the store may hold two revisions.
    names = [(item["name"], item.get("revision")) for item in value if isinstance(item, Mapping) and "name" in item]
    for twice in sorted({str(one[0]) for one in names if names.count(one) > 1}):
        yield refuse("I011", variable=name, value=twice)


def _dict_faults(option: Option, value: Any, name: str) -> Iterator[Refusal]:
    if not isinstance(value, Mapping):
        yield _wrong_type(option, value, name)
        return
    fields = {field.name: field for field in option.fields}
    if not fields:
        yield from _entry_faults(option.form or forms.Form(entries=((".+", forms.LINE),)), value, name)
        return
    for key, item in value.items():
        if key in fields:
            yield from faults(fields[key], item, f"{name}.{key}")
        else:
            advice = did_you_mean(str(key), list(fields), f"Its fields are: {', '.join(fields)}.")
            yield refuse("I010", variable=name, field=key, advice=advice)
    for field in option.fields:
        if field.required and value.get(field.name) is None:
            yield refuse("I009", variable=name, field=field.name, description=field.description)
