# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why apt-get failed, read from what it printed. No I/O happens here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gpulab.node.plugins.module_utils.refusal import Refusal, refuse

# In the order of trust: the first pattern found names the cause. Group 0 is the line the user is shown, whole.
CAUSES = [
    ("H040", r"Could not get lock (?P<lock>\S+?)\. It is held by process (?P<pid>\d+) \((?P<command>[^)]*)\)"),
    ("H047", r"dpkg was interrupted"),
    ("H046", r"No space left on device|You don't have enough free space in \S+"),
    ("H049", r"Unable to locate package|has no installation candidate|Version '[^']*' for '[^']*' was not found"),
    ("H045", r"Release file for .* (?:is not valid yet|is expired)"),
    ("H044", r"NO_PUBKEY|is not signed|GPG error|could(?:n't| not) be verified|At least one invalid signature"),
    ("H043", r"Hash Sum mismatch|File has unexpected size|Hashes of received file"),
    ("H042", r"404 +[A-Z]|does not (?:no longer )?have a Release file"),
    (
        "H041",
        (
            r"Temporary failure resolving|Could not resolve|Could not connect to|Connection (?:refused|reset|failed)"
            r"|[Cc]onnection timed out|Unable to connect to|Network is unreachable|No route to host"
            r"|Cannot initiate the connection|Certificate verification failed|50\d +\w+.*\[IP"
        ),
    ),
    ("H057", r"Held packages were changed"),
    ("H048", r"unmet dependencies|held broken packages|Unmet dependencies|Unable to correct problems"),
    ("H052", r"installed (?P<package>\S+) package (?P<script>\S+) script subprocess returned error exit status \d+"),
]
_PATTERNS = [(code, re.compile(f"^.*(?:{pattern}).*$", re.MULTILINE)) for code, pattern in CAUSES]
_UNMET = re.compile(r"^ \S+ : (?:Depends|Conflicts|Breaks|PreDepends): .*$", re.MULTILINE)
_ERROR = re.compile(r"^(?:E|dpkg): .*$", re.MULTILINE)
_DKMS = re.compile(
    r"Bad return status for module build on kernel: (?P<kernel>\S+) \([^)]*\)\s+"
    r"Consult (?P<log>/var/lib/dkms/(?P<module>[^/]+)/(?P<version>[^/]+)/build/make\.log)"
)


@dataclass(frozen=True)
class DkmsFailure:
    """A module that DKMS could not build; log is the path of its make.log."""

    module: str
    version: str
    kernel: str
    log: str


def classify(report: str, log: str) -> Refusal:
    """Return the refusal that says why apt-get failed; report is what it printed, log where that can be read."""
    for code, pattern in _PATTERNS:
        lines = [match[0] for match in pattern.finditer(report)]
        if lines:
            return refuse(code, line=_essential(code, lines, report), log=log)
    errors = _ERROR.findall(report) or report.strip().splitlines()[-1:] or ["it printed nothing"]
    return refuse("H059", line=errors[0], log=log)


def dkms_failure(report: str) -> DkmsFailure | None:
    """Return the DKMS build that failed, if that is what stopped the transaction."""
    match = _DKMS.search(report)
    return DkmsFailure(match["module"], match["version"], match["kernel"], match["log"]) if match else None


def _essential(code: str, lines: list[str], report: str) -> str:
    """Return the line that says most: the unmet dependency, else an error that apt sums up with, else the first."""
    unmet = _UNMET.findall(report) if code == "H048" else []
    errors = [line for line in lines if line.startswith("E: ")]
    return " ".join((unmet or errors or lines)[0].split())
