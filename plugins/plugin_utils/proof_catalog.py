# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the catalogue's records that checks compare a node with."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

CATALOG = Path(__file__).resolve().parents[2] / "catalog"


def catalog(changes: dict[str, Any] | None = None) -> dict[str, dict[Any, Any]]:
    """Return the records as a check's Node wants them; changes replace values in every board's profile."""
    profiles = {
        device: {**record, **(changes or {})}
        for record in _read("profiles.yml")["profiles"]
        for device in record["devices"]
    }
    return {
        "profiles": profiles,
        "xids": {record["xid"]: record for record in _read("xids.yml")["xids"]},
        "container_toolkit": _read("container_toolkit.yml"),
        "branches": {record["branch"]: record for record in _read("driver_branches.yml")["branches"]},
    }


@cache
def _read(name: str) -> Any:
    return yaml.safe_load((CATALOG / name).read_text(encoding="utf-8"))
