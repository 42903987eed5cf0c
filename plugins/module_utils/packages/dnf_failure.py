# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why dnf failed, read from what it printed. No I/O happens here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.packages import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.tool_words import cut, find
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_failure import signature_way

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

# The solver names what other architectures would need, too
_FOREIGN = re.compile(r"package (\S+) .*does not have a compatible architecture")
# After a heading, what was wrong is in the next line
_ERROR = re.compile(r"^(?:Error|error): .*(?:(?<=:)\n.+)?", re.MULTILINE)


def classify(report: str, log: str) -> Refusal:
    """Return the refusal that says why dnf failed; report is what it printed, log where that can be read."""
    report = cut(report)
    found = find(report, "dnf")
    if found:
        foreign = _FOREIGN.findall(report)
        line = next((line for line in found.lines if not any(name in line for name in foreign)), found.lines[0])
        return refuse(found.message.code, line=line, log=log, way=signature_way(line), **found.groups)
    errors = _ERROR.findall(report) or report.strip().splitlines()[-1:] or ["it printed nothing"]
    return refuse("H059", line=" ".join(errors[0].split()), log=log)
