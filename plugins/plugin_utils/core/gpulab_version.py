# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version of gpulab, for the record, and the Ansible that it needs on the controller."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import yaml
from ansible.release import __version__ as ansible_version

ROOT = Path(__file__).parents[3]
NEEDED_CORE = (2, 19)  # as meta/runtime.yml says it to Ansible, which only warns


def version() -> str:
    """Return the version of this collection, as it was built, or of this checkout."""
    built = ROOT / "MANIFEST.json"
    if built.is_file():
        return str(json.loads(built.read_text(encoding="utf-8"))["collection_info"]["version"])
    return str(yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"])


def need_ansible() -> None:
    """End the run with one sentence where this Ansible is too old: later it would fail by parts, without a cause."""
    if tuple(int(number) for number in re.findall(r"\d+", ansible_version)[:2]) < NEEDED_CORE:
        sys.exit(
            f"gpulab needs ansible-core 2.19 or later; this is {ansible_version} of {sys.executable}. Remedy: in the "
            "checkout, python3 -m venv .venv && .venv/bin/pip install -r requirements/run.txt && . .venv/bin/activate"
        )
