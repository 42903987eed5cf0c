"""JSON Schemas for editors: of the settings (files of group_vars and host_vars), and of an inventory (hosts.yml).

Ansible's templates may stand in place of any value, and null takes back what another file sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.options import Option, Options

DRAFT = "https://json-schema.org/draft/2020-12/schema"
SETTINGS = "settings.schema.json"
TEMPLATE = {"type": "string", "pattern": r"\{\{|\{%"}
TYPES = {
    "bool": {"type": "boolean"},
    "dict": {"type": "object"},
    "float": {"type": "number"},
    "int": {"type": "integer"},
    "list": {"type": "array"},
    "path": {"type": "string"},
    "raw": {},
    "str": {"type": ["string", "number", "boolean"]},
}


def settings(options: Options) -> dict[str, Any]:
    """Return the schema of a file with settings. A name with the prefix of a role that no option has is an error."""
    known = {name: value(option) for name, option in sorted(options.options.items())}
    others = f"^(?!(?:{'|'.join(known)})$)(?:{'|'.join(sorted(options.claimed))})"
    return {
        "$schema": DRAFT,
        "title": "gpulab settings",
        "type": ["object", "null"],
        "properties": known,
        "patternProperties": {others: {"not": {}, "description": "gpulab has no setting of this name."}},
    }


def value(option: Option) -> dict[str, Any]:
    """Return the schema of an option's value."""
    described = {"description": option.description}
    if option.default is not None:
        described["default"] = option.default
    if option.type == "raw":
        return described
    return {**described, "anyOf": [_plain(option), TEMPLATE, {"type": "null"}]}


def _plain(option: Option) -> dict[str, Any]:
    if option.type == "list":
        return {"type": "array", "items": _element(option)}
    if option.type == "dict":
        return _fields(option)
    return {"enum": _choices(option)} if option.choices else TYPES[option.type]


def _element(option: Option) -> dict[str, Any]:
    if option.elements == "dict":
        return {"anyOf": [_fields(option), TEMPLATE]}
    return {"anyOf": [{"enum": _choices(option)}, TEMPLATE]} if option.choices else TYPES[option.elements or "raw"]


def _choices(option: Option) -> list[Any]:
    """Return the choices, and the booleans that YAML makes of some of them."""
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    return [*option.choices, *dict.fromkeys(words[word] for word in option.choices if word in words)]


def _fields(option: Option) -> dict[str, Any]:
    if not option.fields:
        return {"type": "object"}
    return {
        "type": "object",
        "properties": {field.name: value(field) for field in option.fields},
        "required": [field.name for field in option.fields if field.required],
        "additionalProperties": False,
    }


def inventory() -> dict[str, Any]:
    """Return the schema of an inventory in YAML: groups with their hosts, variables and groups below them."""
    variables = {"anyOf": [{"$ref": SETTINGS}, {"type": "null"}]}
    group = {
        "type": ["object", "null"],
        "properties": {
            "hosts": {"type": ["object", "null"], "additionalProperties": variables},
            "vars": variables,
            "children": {"type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/group"}},
        },
        "additionalProperties": False,
    }
    return {
        "$schema": DRAFT,
        "title": "gpulab inventory",
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/group"},
        "$defs": {"group": group},
    }
