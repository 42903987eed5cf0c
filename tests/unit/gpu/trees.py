"""A tree of facts in which every field that its type has is filled, and every place in a tree."""

from __future__ import annotations

from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict


def filled(hint: Any, text: Any) -> Any:
    """Return a value of a type: every name of an object, one item of a list, a text wherever there may be one."""
    if is_typeddict(hint):
        return {name: filled(part, text) for name, part in get_type_hints(hint).items()}
    origin, kinds = get_origin(hint), [one for one in get_args(hint) if one is not type(None)]
    if origin in (Union, UnionType):
        return filled(str if str in kinds else kinds[0], text)
    if origin is list:
        return [filled(kinds[0], text)]
    if origin is dict:
        return {text: filled(kinds[1], text)}
    return {bool: True, int: 7, float: 7.5}.get(hint, text)


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values of a tree that have no parts, of lists the first item alone."""
    if isinstance(tree, dict) and tree:
        return [place for name, part in tree.items() for place in places(part, (*path, name))]
    if isinstance(tree, list) and tree:
        return places(tree[0], (*path, 0))
    return [path]


def planted(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return the tree with another value at a path."""
    if not path:
        return value
    first, *rest = path
    if isinstance(tree, dict):
        return {**tree, first: planted(tree[first], tuple(rest), value)}
    return [planted(part, tuple(rest), value) if number == first else part for number, part in enumerate(tree)]
