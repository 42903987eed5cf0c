# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What conda environments take of the plan: micromamba, and the CUDA that packages are chosen for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.core.versions import version_key

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Conda, Driver


def plan(case: Case, driver: Driver) -> Conda:
    """Return {version, url, sha256, architecture, cuda}: the newest CUDA that driver and GPUs have in full."""
    record = case.catalog.micromamba
    version, platform = record["version"], record["platform"][case.architecture]
    return {
        "version": version,
        "url": record["url"].format(version=version, platform=platform),
        "sha256": record["sha256"][case.architecture],
        "architecture": case.architecture,
        "cuda": newest_cuda(case, driver),
    }


def newest_cuda(case: Case, driver: Driver) -> str:
    """Return the newest CUDA that driver and GPUs have in full."""
    levels = [case.catalog.branches[driver["branch"]]["cuda"], *(gpu.last_cuda for gpu in case.gpus if gpu.last_cuda)]
    return min(levels, key=version_key)
