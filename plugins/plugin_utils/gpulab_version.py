# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version of gpulab, for the record."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def version() -> str:
    """Return the version of this collection, as it was built, or of this checkout."""
    built = ROOT / "MANIFEST.json"
    if built.is_file():
        return str(json.loads(built.read_text(encoding="utf-8"))["collection_info"]["version"])
    return str(yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"])
