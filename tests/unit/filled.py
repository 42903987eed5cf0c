"""Documents that a test gives in part, with nothing in all other places of their type."""

from __future__ import annotations

from typing import Any, TypeVar

from ansible_collections.gpulab.node.plugins.module_utils.core import records

Type = TypeVar("Type")


def typed(value: Any, kind: type[Type]) -> Type:
    """Return a document as its type; what is not given is empty, or None where it may be."""
    return records.typed(filled(value, kind), kind)


def filled(value: Any, kind: Any) -> Any:
    """Return a document of which some names are given."""
    return _filled(value, records._shape(kind))  # noqa: SLF001


def _filled(value: Any, shape: Any) -> Any:
    if isinstance(shape, tuple):
        kinds = [one for one in shape if isinstance(value, dict if isinstance(one, dict) else list)]
        shape = kinds[0] if kinds and isinstance(kinds[0], (list, dict)) else None
    if isinstance(shape, list):
        return [_filled(one, shape[0]) for one in value]
    if isinstance(shape, records._Object):  # noqa: SLF001
        parts = {name: _filled(value[name], part) if name in value else _nothing(part) for name, part in shape.items()}
        return {**value, **parts}
    if isinstance(shape, dict) and str in shape:
        return {name: _filled(one, shape[str]) for name, one in value.items()}
    return value


def _nothing(shape: Any) -> Any:
    if isinstance(shape, tuple):
        return None if None in shape else _nothing(shape[0])
    if isinstance(shape, records._Object):  # noqa: SLF001
        return _filled({}, shape)
    return type(shape)() if isinstance(shape, (list, dict)) else shape()
