"""Whether data has the form that a schema in docs/ describes."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema

DOCS = Path(__file__).parents[2] / "docs"


@lru_cache
def _validator(name: str) -> Any:
    schema = json.loads((DOCS / f"{name}.schema.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


def misfits(name: str, data: Any) -> list[str]:
    """Return where data differs from the schema of this name; data is brought to what JSON makes of it."""
    errors = _validator(name).iter_errors(json.loads(json.dumps(data)))
    return [f"{list(error.absolute_path)}: {error.message}" for error in errors]
