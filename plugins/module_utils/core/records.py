# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON files in which gpulab records on a node what it did there. Each has a type, and is replaced as a whole.

A type is str, int, float, bool, Any, list[type], dict[str, type], or a TypedDict or dataclass of these and of None. A
float may be an int, a bool is no int. Names that a type does not have are left alone. All names of a dataclass have to
be there, but for fields with LATER as metadata, which an earlier gpulab did not write.

What is no file, but comes as plain data from another process or node, gets its type by typed().
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import json
import os
import sys
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.node import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Type = TypeVar("Type")
Default = TypeVar("Default")
DAMAGED = "H220"
LATER = {"later": True}
_TYPES = {str: "text", int: "a number", float: "a number", bool: "true or false", None: "null"}


def read(path: Path, kind: type[Type], default: Default, lost: str = "") -> Type | Default:
    """Return what a record holds; the default where there is none, or where the reader may not read it.

    lost says what gpulab does not know without it. Raises Refusal H220 where the record is damaged.
    """
    try:
        value = json.loads(path.read_bytes().decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return default
    except OSError as error:
        raise refuse(DAMAGED, path=path, detail=error.strerror, lost=lost) from error
    except (ValueError, RecursionError) as error:
        detail = str(error) if path.stat().st_size else "it is empty"
        raise refuse(DAMAGED, path=path, detail=detail, lost=lost) from error
    try:
        return typed(value, kind)
    except ValueError as error:
        raise refuse(DAMAGED, path=path, detail=error, lost=lost) from error


def typed(value: Any, kind: type[Type]) -> Type:
    """Return plain data as a type has it: an object is made the dataclass that stands for it there.

    Raises ValueError, which says how they differ, where the data is not of this type.
    """
    for fault in faults(value, kind):
        raise ValueError(fault)
    whole: Any = kind
    made: Type = _made(value, _shape(whole))
    return made


def write(path: Path, value: Any, mode: int = 0o644) -> None:
    """Replace a record as a whole, so that no power cut leaves half of it. Raises Refusal H221 where that fails.

    A missing directory is made, for root only if the record is. A record that already has this value is left.
    """
    new, text = path.with_name(f".{path.name}.new"), json.dumps(value, indent=1, sort_keys=True) + "\n"
    try:
        if path.is_file() and path.read_bytes() == text.encode():
            return
        path.parent.mkdir(mode=0o755 if mode & 0o004 else 0o700, parents=True, exist_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(path)
        _sync(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink()
        raise refuse("H221", path=path, detail=error.strerror) from error


def keep(path: Path, value: Any, mode: int = 0o644) -> None:
    """Write a record that is to hold something; remove one that holds nothing."""
    if value:
        write(path, value, mode)
    else:
        remove(path)


def remove(path: Path) -> None:
    """Remove a record, for good."""
    if path.exists():
        path.unlink()
        _sync(path.parent)


def set_aside(path: Path) -> None:
    """Rename a damaged record, so that people can look at it."""
    if path.exists():
        path.replace(path.with_name(f"{path.name}.damaged"))
        _sync(path.parent)


def faults(value: Any, kind: Any, place: str = "it") -> Iterator[str]:
    """Yield how a value differs from a type."""
    yield from _faults(value, _shape(kind), place)


class _Object(dict[str, Any]):
    """The shape of a dataclass, which its values become."""

    kind: Any


_BEGUN: dict[Any, _Object] = {}


@cache
def _shape(kind: Any) -> Any:
    """Return a type as what its values are compared with.

    That is [shape] for a list, {str: shape} for an object with any names, {"name": shape, "more?": shape} for one with
    these, of which some may be missing, (shape, shape) for one of several, object for anything.
    """
    if get_origin(kind) is list:
        return [_shape(get_args(kind)[0])]
    if get_origin(kind) is dict:
        return {str: _shape(get_args(kind)[1])}
    if is_dataclass(kind):
        return _object(kind)
    if hasattr(kind, "__required_keys__"):
        required = kind.__required_keys__
        found = {}
        for name, hint in kind.__annotations__.items():
            key = name if name in required else f"{name}?"
            text = getattr(hint, "__forward_arg__", hint)
            # A TypedDict has the annotations of the one that it extends, which may be of another module.
            module = getattr(hint, "__forward_module__", None) or kind.__module__
            found[key] = _written(text, vars(sys.modules[module])) if isinstance(text, str) else _shape(hint)
        return found
    return object if kind is Any else kind


def _object(kind: Any) -> _Object:
    """Return the shape of a dataclass, whose fields may be those of one of another module."""
    if kind in _BEGUN:  # it has parts of its own type
        return _BEGUN[kind]
    modules = {name: base.__module__ for base in kind.__mro__[::-1] for name in vars(base).get("__annotations__", ())}
    found = _BEGUN[kind] = _Object()
    found.kind = kind
    try:
        for one in fields(kind):
            name = f"{one.name}?" if one.metadata == LATER else one.name
            found[name] = _written(str(one.type), vars(sys.modules[modules[one.name]]))
    finally:
        del _BEGUN[kind]
    return found


def _written(hint: str, names: dict[str, Any]) -> Any:
    """Return the shape of an annotation; Python 3.9 itself does not know ``str | None``."""

    def of(node: ast.expr) -> Any:
        if isinstance(node, ast.BinOp):
            return tuple(
                one
                for side in map(of, (node.left, node.right))
                for one in (side if isinstance(side, tuple) else [side])
            )
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return object if node.id == "Any" else _shape(names.get(node.id) or getattr(builtins, node.id))
        if isinstance(node, ast.Subscript):
            inner = node.slice
            return [of(inner)] if not isinstance(inner, ast.Tuple) else {str: of(inner.elts[1])}
        raise TypeError(hint)

    return of(ast.parse(hint, mode="eval").body)


def _made(value: Any, shape: Any) -> Any:
    """Return a value of this shape with its dataclasses."""
    if value is None:
        return None
    if isinstance(shape, tuple):
        return _made(value, next(one for one in shape if not any(_faults(value, one, ""))))
    if isinstance(shape, list):
        return [_made(one, shape[0]) for one in value]
    if isinstance(shape, _Object):
        named = {name.rstrip("?"): inner for name, inner in shape.items()}
        return shape.kind(**{name: _made(value[name], inner) for name, inner in named.items() if name in value})
    if isinstance(shape, dict) and str in shape:
        return {name: _made(one, shape[str]) for name, one in value.items()}
    return value


def _faults(value: Any, shape: Any, place: str) -> Iterator[str]:
    if isinstance(shape, tuple):
        if all(any(_faults(value, one, place)) for one in shape):
            yield f"{place} is not {' or '.join(map(_name, shape))}"
    elif isinstance(shape, list) and isinstance(value, list):
        for number, one in enumerate(value):
            yield from _faults(one, shape[0], f"{place}[{number}]")
    elif isinstance(shape, dict) and isinstance(value, dict):
        yield from _faults_of_object(value, shape, place)
    elif not _is(value, shape):
        yield f"{place} is not {_name(shape)}"


def _faults_of_object(value: dict[str, Any], shape: dict[Any, Any], place: str) -> Iterator[str]:
    if str in shape:
        for name, one in value.items():
            yield from _faults(one, shape[str], f"{place}.{name}")
        return
    for name, inner in shape.items():
        key = name.rstrip("?")
        if key in value:
            yield from _faults(value[key], inner, f"{place}.{key}")
        elif key == name:
            yield f"{place} has no {key}"


def _is(value: Any, shape: Any) -> bool:
    if shape is None or value is None:
        return shape is value or shape is object
    if isinstance(shape, (list, dict)):
        return False
    if isinstance(value, bool):
        return shape in (bool, object)
    return isinstance(value, (int, float) if shape is float else shape)


def _name(shape: Any) -> str:
    return "a list" if isinstance(shape, list) else "an object" if isinstance(shape, dict) else _TYPES[shape]


def _sync(directory: Path) -> None:
    """Sync the names in a directory to the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
