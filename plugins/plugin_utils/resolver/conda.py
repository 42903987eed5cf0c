# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What conda environments take of the plan: micromamba, and the CUDA that packages are chosen for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.resolver.case import Case


def plan(case: Case, driver: dict[str, Any]) -> dict[str, Any]:
    """Return {version, url, sha256, architecture, cuda}: cuda is the newest that the planned driver runs in full."""
    record = case.catalog.micromamba
    version, platform = record["version"], record["platform"][case.architecture]
    return {
        "version": version,
        "url": record["url"].format(version=version, platform=platform),
        "sha256": record["sha256"][case.architecture],
        "architecture": case.architecture,
        "cuda": case.catalog.branches[driver["branch"]]["cuda"],
    }
