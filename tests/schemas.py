"""JSON Schemas of data that the code describes as TypedDicts or dataclasses."""

from __future__ import annotations

import types
import typing
from dataclasses import is_dataclass
from typing import Any

PLAIN = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", dict: "object"}


def schema(of: type, title: str, description: str) -> dict[str, Any]:
    """Return the schema of a TypedDict or dataclass; every other one that it is made of has its place below $defs."""
    defs: dict[str, Any] = {}
    whole = _fields(of, defs)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **whole,
        "description": description,
        "$defs": {name: defs[name] for name in sorted(defs)},
    }


def _fields(of: type, defs: dict[str, Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(of)
    return {
        "description": of.__doc__,
        "type": "object",
        "required": sorted(getattr(of, "__required_keys__", hints)),
        "additionalProperties": False,
        "properties": {name: _of(hint, defs) for name, hint in hints.items()},
    }


def _of(hint: Any, defs: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if typing.is_typeddict(hint) or is_dataclass(hint):
        if hint.__name__ not in defs:
            defs[hint.__name__] = None  # it is at work: one that names itself ends
            defs[hint.__name__] = _fields(hint, defs)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if origin is list:
        return {"type": "array", "items": _of(arguments[0], defs)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(arguments[1], defs)}
    if origin in (types.UnionType, typing.Union):
        parts = [_of(one, defs) for one in arguments]
        plain = [part["type"] for part in parts if part.keys() == {"type"}]
        return {"type": plain} if len(plain) == len(parts) else {"anyOf": parts}
    return {} if hint is Any else {"type": PLAIN[hint]}
