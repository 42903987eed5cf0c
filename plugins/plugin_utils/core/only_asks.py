# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A play that only keeps what tasks are asked, of which a bundle is made: the node is not asked what would come of it.

A node that is cut off, or has a bundle already, would find nothing there that is new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "__bundle_only_asks"  # of the play


def only_asks(variables: Mapping[str, Any]) -> bool:
    """Tell whether a play is one of those."""
    return bool(variables.get(VARIABLE))
