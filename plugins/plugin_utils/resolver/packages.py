# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a package of a given version is named to the package manager of a platform."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.resolver.case import Case


def package_format(case: Case) -> str:
    """Return deb or rpm."""
    return "deb" if case.platform["family"] == "debian" else "rpm"


def pinned(case: Case, name: str, version: str) -> str:
    """Return name=version for apt, name-version for dnf."""
    return f"{name}={version}" if package_format(case) == "deb" else f"{name}-{version}"
