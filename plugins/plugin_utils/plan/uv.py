# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""uv, which makes the virtual environments of the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case


def plan(case: Case) -> dict[str, Any]:
    """Return {version, sha256, packages}: of its wheel, and the system's packages that fetch it."""
    record = case.catalog.uv
    return {
        "version": record["version"],
        "sha256": record["sha256"][case.architecture],
        "packages": record["packages"],
    }
