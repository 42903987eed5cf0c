#!/usr/bin/env python3
"""What users' inventories, playbooks and programs build on: written down at each major release, and held from then on.

tests/interface.py writes it to tests/unit/interface.txt; docs/stability.md says what is promised of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import conftest  # noqa: F401  it makes this checkout importable as a collection
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import checks
from ansible_collections.gpulab.node.plugins.plugin_utils import options
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check import unread
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import CODES
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import due

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.plugin_utils.options import Option

WRITTEN = ROOT / "tests/unit/interface.txt"
DOCUMENTS = ("report", "history", "preview", "diagnosis", "usage")  # JSON that programs of others read


def interface() -> set[str]:
    """Return what others build on, a line each: its kind and its name. A setting's type and choices are part of it."""
    settings = options.load().options.items()
    return {
        *(f"setting {line}" for name, option in settings if name != due.BY_PLAYBOOK for line in _lines(option)),
        *(f"role {path.name}" for path in ROOT.glob("roles/*")),
        *(f"module {path.stem}" for path in ROOT.glob("plugins/modules/*.py")),
        *(f"playbook {path.stem}" for path in ROOT.glob("playbooks/*.yml")),
        *(f"tag {name}" for name in unread.TAGS),
        *(f"code {name}" for name in CODES),
        *(f"check {check.id}" for check in checks()),
        *(f"field {line}" for document in DOCUMENTS for line in _fields(document)),
    }


def _lines(option: Option, place: str = "") -> Iterator[str]:
    name = f"{place}{option.name}"
    yield f"{name} {option.type}"
    yield from (f"{name} {option.type} {choice}" for choice in option.choices)
    for field in option.fields:
        yield from _lines(field, f"{name}.")


def _fields(document: str) -> Iterator[str]:
    properties = json.loads((ROOT / f"docs/{document}.schema.json").read_text(encoding="utf-8"))["properties"]
    yield from (f"{document} {name} {form.get('const', '')}".rstrip() for name, form in properties.items())


if __name__ == "__main__":
    WRITTEN.write_text("".join(f"{line}\n" for line in sorted(interface())), encoding="utf-8")
