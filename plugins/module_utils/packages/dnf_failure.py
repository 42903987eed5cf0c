# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why dnf failed, read from what it printed. No I/O happens here."""

from __future__ import annotations

import re

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal, refuse
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_failure import signature_way

_HEADERS = r"(?P<package>kernel-(?:\w+-)?devel-(?P<kernel>\d\S*))"
# In the order of trust: the first pattern found names the cause. Group 0 is the line the user is shown, whole.
# dnf sums up with "Failed to download metadata" and "all mirrors were tried"; what was answered comes before that.
CAUSES = [
    ("H040", r"can't create transaction lock|Failed to obtain .*lock"),
    ("H046", r"No space left on device|At least \d+[KMGT]?B more space needed|Curl error \(23\)"),
    ("H216", r"Read-only file system"),
    (
        "H213",
        (
            r"Config error|Error parsing '|Parsing file \S+ failed|failed loading '|Unknown repo|no enabled repo"
            r"|Cannot find a valid baseurl|not registered with an entitlement server"
        ),
    ),
    ("H217", r"rpmdb open failed|BDB\d+|cannot open Packages|db5 error"),
    ("H211", rf"Unable to find a match: .*?{_HEADERS}"),
    ("H049", r"Unable to find a match|filtered out by modular filtering"),
    ("H229", r"Bad (?:GPG|PGP|OpenPGP) signature"),
    ("H214", r"Status code: (?:4(?!04)\d\d|5\d\d)|HTTP code \d+ from proxy"),
    (
        "H044",
        (
            r"is not signed|Public key for .* is not installed|GPG signature|GPG check FAILED|GPG keys listed for"
            r"|OpenPGP check for|Signature verification failed|Signing key not found|Curl error \(37\)"
            r"|[Kk]ey import failed"
        ),
    ),
    ("H043", r"checksum doesn't match|has incorrect checksum|payload digest|header digest"),
    (
        "H041",
        (
            r"Curl error \((?:5|6|7|28|35|52|56|58|60|77)\)|Could(?:n't| not) resolve (?:host|proxy)"
            r"|Failed to connect|Connection refused|Timeout was reached"
        ),
    ),
    ("H228", r"repomd\.xml.*[Pp]arse|xmlParse|[Ss]tart ?[Tt]ag(?: expected|: invalid)|Opening and ending tag mismatch"),
    ("H042", r"Status code: 404|Failed to download metadata|ll mirrors were (?:already )?tried|No more mirrors"),
    ("H048", r"conflicts with file from package"),
    ("H048", r"conflicting requests|nothing provides|but none of the providers can be installed|^ *Problem(?: \d+)?:"),
    ("H211", rf"No match for argument: {_HEADERS}"),
    ("H049", r"No match for argument"),
    ("H052", r"Error in (?P<script>\S+) scriptlet in rpm package (?P<package>\S+)|scriptlet failed, exit status"),
]
_PATTERNS = [(code, re.compile(f"^.*(?:{pattern}).*$", re.MULTILINE)) for code, pattern in CAUSES]
_ERROR = re.compile(r"^(?:Error|error): .*$", re.MULTILINE)


def classify(report: str, log: str) -> Refusal:
    """Return the refusal that says why dnf failed; report is what it printed, log where that can be read."""
    for code, pattern in _PATTERNS:
        match = pattern.search(report)
        if match:
            line = " ".join(match[0].split())
            return refuse(code, line=line, log=log, way=signature_way(line), **match.groupdict())
    errors = _ERROR.findall(report) or report.strip().splitlines()[-1:] or ["it printed nothing"]
    return refuse("H059", line=errors[0], log=log)
