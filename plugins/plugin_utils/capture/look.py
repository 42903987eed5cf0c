# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node says of itself, and the controller knows of it: a manifest, before the contents of files are read."""

from __future__ import annotations

import contextlib
import json
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.capture import manifest as manifests
from ansible_collections.gpulab.node.plugins.plugin_utils.capture.settings import as_written
from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.core.gpulab_version import version

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.core.asking import Asking

MODULE = "gpulab.node.capture"
MIB = 1 << 20


def document(action: Asking, host: str, args: dict[str, Any], left: list[dict[str, Any]]) -> dict[str, Any]:
    """Let the node look at itself; args are the options of gpulab.node.capture, left what roles leave on the host.

    Raises FailedError.
    """
    started, made = time.monotonic(), f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    asked = json.loads(json.dumps(_wishes(args, left), default=str))
    found: dict[str, Any] = action.ask(MODULE, {"directory": args["directory"], "work": "look"}, asked)
    sections = found["sections"]
    sections["gpulab"]["facts"] = action.variables["ansible_facts"].get("gpulab")
    sections["gpulab"]["settings"] = as_written(action.variables)
    sections["baseline"] = _baseline(args["report"], host)
    whole = {
        **found,
        "schema": manifests.SCHEMA,
        "gpulab": version(),
        "host": host,
        "made": made,
        "seconds": round(time.monotonic() - started, 1),
        "acknowledged": args["acknowledged"],
    }
    # What Ansible hands out is tagged; JSON makes plain data of it.
    plain: dict[str, Any] = json.loads(json.dumps(whole, default=str))
    return plain


def _wishes(args: dict[str, Any], left: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what decides about the bins of paths; see module_utils/capture/asked.py."""
    catalog = Catalog()
    return {
        "captured": catalog.read("captured")["captured"],
        "ephemeral": catalog.read("ephemeral")["ephemeral"],
        "leaves": left,
        "paths": args["paths"],
        "acknowledged": args["acknowledged"],
        "receipts": args["receipts"],
        "largest": args["largest_mib"] * MIB,
    }


def _baseline(report: str | None, host: str) -> dict[str, Any]:
    """Return the last proof of a host, as report.json has it; empty where there is none."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        written = json.loads(Path(report or "").read_text(encoding="utf-8"))
        (found,) = [one for one in written["hosts"] if one["name"] == host]
        return {"created": written["created"], **found}
    return {}
