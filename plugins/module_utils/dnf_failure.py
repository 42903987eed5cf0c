# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why dnf failed, read from what it printed. No I/O happens here."""

from __future__ import annotations

import re

from ansible_collections.gpulab.node.plugins.module_utils.refusal import Refusal, refuse

# In the order of trust: the first pattern found names the cause. Group 0 is the line the user is shown, whole.
CAUSES = [
    ("H046", r"No space left on device|At least \d+[KMGT]?B more space needed"),
    ("H049", r"Unable to find a match"),
    (
        "H044",
        r"is not signed|Public key for .* is not installed|GPG signature|GPG check FAILED",
    ),
    ("H043", r"checksum doesn't match|has incorrect checksum|Cannot download, all mirrors were already tried"),
    (
        "H041",
        (
            r"Curl error \((?:5|6|7|28|35|52|56|60)\)|Could(?:n't| not) resolve (?:host|proxy)"
            r"|Failed to connect|Connection refused|Timeout was reached"
        ),
    ),
    ("H042", r"Status code: 404|Failed to download metadata"),
    ("H048", r"conflicting requests|nothing provides|but none of the providers can be installed|^Problem"),
    ("H052", r"Error in (?P<script>\S+) scriptlet in rpm package (?P<package>\S+)|scriptlet failed, exit status"),
]
_PATTERNS = [(code, re.compile(f"^.*(?:{pattern}).*$", re.MULTILINE)) for code, pattern in CAUSES]
_ERROR = re.compile(r"^(?:Error|error): .*$", re.MULTILINE)


def classify(report: str, log: str) -> Refusal:
    """Return the refusal that says why dnf failed; report is what it printed, log where that can be read."""
    for code, pattern in _PATTERNS:
        match = pattern.search(report)
        if match:
            return refuse(code, line=" ".join(match[0].split()), log=log)
    errors = _ERROR.findall(report) or report.strip().splitlines()[-1:] or ["it printed nothing"]
    return refuse("H059", line=errors[0], log=log)
