# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The certificate as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people_all
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import render

if TYPE_CHECKING:
    from collections.abc import Mapping

SEVERITY = {"passed": "ok", "failed": "fail", "not tested": "unknown"}


def page(certificate: Mapping[str, Any], digest: str, signed: str) -> str:
    """Return the page; what a node says of itself may hold anything. signed says by which key, or why not."""
    shown = for_people_all(certificate)
    return render("acceptance/certificate.html.j2", of=shown, digest=digest, signed=signed, severity=SEVERITY)
