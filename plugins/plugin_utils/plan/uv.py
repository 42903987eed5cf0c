# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""uv, which makes the virtual environments of the plan, and the system's packages for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
    from ansible_collections.gpulab.node.plugins.plugin_utils.plan.model import Environment, Uv


def plan(case: Case, environments: list[Environment]) -> Uv:
    """Return {version, sha256, packages}: of its wheel, and the system's packages.

    Those fetch uv, and PyTorch of the environments compiles with them.
    """
    record = case.catalog.uv
    compiles = any(environment["framework"] == "pytorch" for environment in environments)
    return {
        "version": record["version"],
        "sha256": record["sha256"][case.architecture],
        "packages": record["packages"] + (record["pytorch_packages"][case.platform["family"]] if compiles else []),
    }
