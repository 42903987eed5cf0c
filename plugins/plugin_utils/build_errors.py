# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a kernel module does not build, where the catalog knows the error of its compiler."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils import catalog

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

CODES = ("D001", "D033", "D034", "D040")  # the refusals that name the first error of a build


def explained(refusal: Refusal) -> Refusal:
    """Return a refusal with the known cause and remedy of the compiler's error that it names; any other as it is."""
    if refusal.code not in CODES:
        return refusal
    for known in catalog.load().build_errors:
        found = known["pattern"].search(refusal.cause)
        if found:
            tool = next(filter(None, found.groupdict().values()), "")
            cause, remedy = (known[key].replace("{tool}", tool) for key in ("cause", "remedy"))
            return replace(
                refusal, cause=f"{refusal.cause} Known cause: {cause}.", remedy=f"{remedy}. {refusal.remedy}"
            )
    return refusal
