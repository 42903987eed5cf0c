# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why apt-get failed, read from what it printed. No I/O happens here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal, refuse

# In the order of trust: the first pattern found names the cause. Group 0 is what the user is shown, in one line.
# What a server, a proxy or the network said comes before "is not signed" and "no Release file", with which apt ends.
CAUSES = [
    ("H040", r"Could not get lock (?P<lock>\S+?)\. It is held by process (?P<pid>\d+) \((?P<command>[^)]*)\)"),
    ("H047", r"dpkg was interrupted"),
    ("H046", r"No space left on device|You don't have enough free space in \S+"),
    ("H216", r"Read-only file system"),
    (
        "H213",
        (
            r"Conflicting values set for option|is not known on line \d+ in source list|Malformed \w+ \d+ in \w+"
            r"|No priority \(or zero\) specified for pin|Invalid record in the preferences file"
            r"|^E: Syntax error \S+:\d+|method driver \S+ could not be found|Unsupported proxy configured"
            r"|The list of sources could not be read"
        ),
    ),
    (
        "H217",
        (
            r"package lists or status file could not be parsed or opened|files list file for package .* is missing"
            r"|parsing file '/var/lib/dpkg/\S+'|Problem with MergeList|Encountered a section with no Package: header"
        ),
    ),
    ("H211", r"Unable to locate package (?P<package>(?:linux|proxmox|pve)-headers-(?P<kernel>\d\S*))"),
    ("H049", r"Unable to locate package|has no installation candidate|Version '[^']*' for '[^']*' was not found"),
    ("H045", r"Release file for .* (?:is not valid yet|is expired)"),
    ("H228", r"Clearsigned file isn't valid, got '\w+'"),
    (
        "H214",
        (
            r"^(?:E: Failed to fetch \S+)?  (?:4(?!04)\d\d|5\d\d)  \w|HTTP code \d+ from proxy"
            r"|Invalid response from proxy|Redirection loop"
            r"|Redirection from \S+ to \S+ is forbidden|Bad header (?:line|data)|sent an invalid reply header"
        ),
    ),
    (
        "H041",
        (
            r"Temporary failure resolving|Could not resolve|Could not connect to|Connection (?:refused|reset|failed)"
            r"|[Cc]onnection timed out|Unable to connect to|Network is unreachable|No route to host"
            r"|Cannot initiate the connection|[Cc]ertificate verif(?:ication|y) failed|SSL connection failed"
            r"|Could not handshake|No system certificates available"
        ),
    ),
    (
        "H212",
        (
            r"Splitting up \S+ into data and signature failed|Couldn't create temporary file|gnupg\d? do not seem to be"
            r"|At least one invalid signature|Could not execute '(?:apt-key|\S*gpgv?)'|Sub-process gpgv received"
        ),
    ),
    ("H229", r"BADSIG|Bad GPG signature"),
    ("H044", r"NO_PUBKEY|SIG [0-9A-F]{8,}|Missing key|not considered secure|GPG error|could(?:n't| not) be verified"),
    ("H044", r"is not signed|OpenPGP signature verification failed"),
    ("H230", r"File has unexpected size|Mirror sync in progress"),
    ("H043", r"Hash Sum mismatch|Hashes of received file"),
    (
        "H043",
        r"not a Debian format archive|compressed data is corrupt|corrupted filesystem tarfile|short read on buffer",
    ),
    ("H042", r"404 +[A-Z]|does not (?:no longer )?have a Release file|Unable to find expected entry"),
    ("H057", r"Held packages were changed"),
    ("H215", r"(?:Try|might want to run) 'apt(?:-get)? (?:--fix-broken|-f) install'"),
    ("H048", r"error processing archive \S+.*\n trying to overwrite"),
    ("H048", r"unmet dependencies|held broken packages|Unmet dependencies|Unable to correct problems"),
    (
        "H052",
        (
            r"installed (?P<package>\S+) package (?P<script>\S+) script subprocess"
            r" (?:returned error|failed with) exit status \d+"
        ),
    ),
]
_PATTERNS = [(code, re.compile(f"^.*(?:{pattern}).*$", re.MULTILINE)) for code, pattern in CAUSES]
# What to do about a signature, by what APT, GPG or sqv says of it
SIGNATURES = [
    (r"is not valid yet", "The node's clock is behind: correct it (timedatectl)"),
    (
        r"is expired \(",
        (
            "The mirror has not been updated for too long: use another one. Only if the node's clock is ahead, correct"
            " that (timedatectl)"
        ),
    ),
    (r"EXPKEYSIG|EXPSIG|[Ee]xpired on", "That key has expired: install the vendor's new key, or remove the source"),
    (r"REVKEYSIG", "That key is revoked: install the vendor's new key, or remove the source"),
    (
        r"not considered secure",
        "That key's signature type is no longer trusted: install the vendor's newer key",
    ),
    (r"", "Install the key that it names (Signed-By, gpgkey), or remove the source"),
]
_UNMET = re.compile(r"^ \S+ : (?:Depends|Conflicts|Breaks|PreDepends): .*$", re.MULTILINE)
_ERROR = re.compile(r"^(?:E|dpkg): .*$", re.MULTILINE)
_LAST_WORDS = re.compile(r"^(.+)\ndpkg: error processing package \S+ \(--\w+\):$", re.MULTILINE)
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
        matches = list(pattern.finditer(report))
        if matches:
            line = _essential(code, [match[0] for match in matches], report)
            return refuse(code, line=line, log=log, way=signature_way(line), **matches[0].groupdict())
    errors = _ERROR.findall(report) or report.strip().splitlines()[-1:] or ["it printed nothing"]
    return refuse("H059", line=errors[0], log=log)


def signature_way(line: str) -> str:
    """Return the remedy for a bad signature, by what GPG or sqv says of it."""
    return next(way for pattern, way in SIGNATURES if re.search(pattern, line))


def dkms_failure(report: str) -> DkmsFailure | None:
    """Return the DKMS build that failed, if that is what stopped the transaction; the driver's comes first."""
    matches = sorted(_DKMS.finditer(report), key=lambda match: not match["module"].startswith("nvidia"))
    for match in matches:
        return DkmsFailure(match["module"], match["version"], match["kernel"], match["log"])
    return None


def _essential(code: str, lines: list[str], report: str) -> str:
    """Return the line that says most: the unmet dependency, else an error that apt sums up with, else the first."""
    unmet = _UNMET.findall(report) if code in {"H048", "H215"} and "overwrite" not in lines[0] else []
    errors = [line for line in lines if line.startswith("E: ")]
    last_words = _LAST_WORDS.findall(report) if code == "H052" else []
    chosen = (unmet or errors or lines)[0]
    source = re.search(rf"^Err:\d+ (.+)\n{re.escape(chosen)}$", report, re.MULTILINE)
    told = [f"{source[1]}:" if source else "", chosen, *(f"({words})" for words in last_words[:1])]
    return " ".join(" ".join(told).split())
