# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recording of a board: what a node says of its GPUs, for anybody to replay, and nothing of whose node it is.

Made by playbooks/record.yml and by make test-gpu, replayed by the unit tests. Only what fields.py names is taken, each
value in its form. Whatever else there is refuses the recording: it might tell a name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.nvml.library import ERRORS
from ansible_collections.gpulab.node.plugins.plugin_utils.recording.fields import LEFT_OUT, PARTS, Each
from ansible_collections.gpulab.node.plugins.plugin_utils.recording.forms import MisfitError, Tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCHEMA = 3
LICENCE = "GPL-3.0-or-later"
HEAD = ("schema", "made", "licence", "notes")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")


class UnfitError(Exception):
    """A field that a recording does not have, or a value that has not its form; only the field is named."""


def build(parts: Mapping[str, Any], made: str) -> dict[str, Any]:
    """Return the recording of some PARTS (facts; of make test-gpu measurements and programs, too), made at a date.

    ``notes.allow`` is for a person to fill in: {id of a check: why its finding is right on this machine}. Raises
    UnfitError.
    """
    head = {"schema": SCHEMA, "made": made, "licence": LICENCE, "notes": {"allow": {}}}
    return {**head, **anonymous(parts)}


def anonymous(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is recorded of the parts; of what this once returned, the same. Raises UnfitError."""
    tokens = Tokens()
    kept: dict[str, Any] = _kept(dict(parts), PARTS, "", tokens)
    return kept


def faults(recorded: Any) -> Iterator[str]:
    """Yield what keeps a file from being a recording that tells nobody's name."""
    if not isinstance(recorded, dict) or [name for name in HEAD if name not in recorded]:
        yield f"it has not {', '.join(HEAD)}"
        return
    if (recorded["schema"], recorded["licence"]) != (SCHEMA, LICENCE):
        yield f"it has not schema {SCHEMA} and licence {LICENCE}"
    parts = {name: part for name, part in recorded.items() if name not in HEAD}
    try:
        if anonymous(parts) != parts:
            yield "it holds what a recording leaves out"
    except UnfitError as error:
        yield str(error)


def file_name(recorded: Mapping[str, Any], ending: str) -> str:
    """Return <board>-<driver> with an ending, as nvidia-h100-80gb-hbm3-580.95.05.yml."""
    nvml = recorded["facts"]["nvml"]
    board = nvml["gpus"][0].get("name", "no-answer") if nvml["gpus"] else "no-gpu"
    driver = nvml["driver_version"] or "no-driver"
    return re.sub(r"[^a-z0-9.]+", "-", f"{board}-{driver}".lower()).strip("-") + ending


def _kept(value: Any, form: Any, path: str, tokens: Tokens) -> Any:
    """Return what is recorded of a value. The order is that of the form, so that tokens are counted alike each time."""
    if value is None or _is_unread(value):
        return value
    if callable(form):
        return _formed(value, form, path, tokens)
    if isinstance(form, list):
        items = value if isinstance(value, (list, tuple)) else _unfit(path)
        return [_kept(item, form[0], path, tokens) for item in items]
    fields = value if isinstance(value, dict) else _unfit(path)
    if isinstance(form, Each):
        return {
            _formed(name, form.name, path, tokens): _kept(item, form.value, path, tokens)
            for name, item in fields.items()
        }
    for name in fields:
        if name not in form:
            _unfit(f"{path}.{name}" if isinstance(name, str) and _NAME.fullmatch(name) else f"a field in {path}")
    return {
        name: _kept(fields[name], of, f"{path}.{name}", tokens)
        for name, of in form.items()
        if name in fields and of is not LEFT_OUT
    }


def _formed(value: Any, form: Any, path: str, tokens: Tokens) -> Any:
    try:
        return form(value, tokens)
    except MisfitError:
        _unfit(path)


def _is_unread(value: Any) -> bool:
    """Tell whether NVML answered this in place of a value (nvml/readings.py)."""
    if not isinstance(value, dict) or set(value) not in ({"unsupported"}, {"error", "code"}):
        return False
    name, code = value.get("unsupported", value.get("error")), value.get("code", 0)
    known = name in ERRORS.values() if isinstance(name, str) else False
    return (known or name == f"CODE_{code}") and type(code) is int and 0 <= code < 10**4


def _unfit(path: str) -> Any:
    raise UnfitError(path.lstrip("."))
