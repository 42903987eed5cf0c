# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is used of the library packaging, which ansible-core brings along.

ansible-test imports each file without what ansible-core needs; there the names stand for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.dependency_groups import resolve_dependency_groups
    from packaging.markers import Marker
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename
else:
    try:
        from packaging.markers import Marker
        from packaging.requirements import InvalidRequirement, Requirement
        from packaging.specifiers import InvalidSpecifier, SpecifierSet
        from packaging.utils import InvalidWheelFilename, parse_wheel_filename
    except ImportError:
        Marker = Requirement = SpecifierSet = parse_wheel_filename = None
        InvalidRequirement = InvalidSpecifier = InvalidWheelFilename = ValueError
    try:
        from packaging.dependency_groups import resolve_dependency_groups
    except ImportError:  # packaging before 26
        resolve_dependency_groups = None

__all__ = [
    "InvalidRequirement",
    "InvalidSpecifier",
    "InvalidWheelFilename",
    "Marker",
    "Requirement",
    "SpecifierSet",
    "parse_wheel_filename",
    "resolve_dependency_groups",
]
