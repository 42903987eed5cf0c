# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why apt-get failed, read from what it printed. No I/O happens here."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.packages import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people
from ansible_collections.gpulab.node.plugins.module_utils.core.tool_words import cut, find

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
    from ansible_collections.gpulab.node.plugins.module_utils.core.tool_words import Meaning


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
SCRIPT_FAILED, BROKEN = "H052", "H215"
_UNMET = re.compile(r"^ \S+ : (?:Depends|Conflicts|Breaks|PreDepends): .*$", re.MULTILINE)
_OWNER = r"^ (?P<owner>\S+) : (?:(?!^ \S+ : )[\s\S])*?"
_ERROR = re.compile(r"^(?:E|dpkg): .*(?:(?<=:)\n .+)?", re.MULTILINE)
# dpkg, before and after a script of a package speaks
_PROGRESS = ("Setting up ", "Preparing to unpack ", "Unpacking ", "Removing ")
_FAILED = re.compile(r"^dpkg: error processing (?:package|archive) \S+ \(--\w+\):$", re.MULTILINE)
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
    report = cut(report)
    found = find(report, "apt")
    if not found:
        errors = _ERROR.findall(report) or report.strip().splitlines()[-1:] or ["it printed nothing"]
        return refuse("H059", line=" ".join(errors[0].split()), log=log)
    line = _essential(found, report)
    refusal = refuse(found.message.code, line=line, log=log, way=signature_way(line), **found.groups)
    return _explained(refusal, _script_words(report)) if found.message.code == SCRIPT_FAILED else refusal


def signature_way(line: str) -> str:
    """Return the remedy for a bad signature, by what GPG or sqv says of it."""
    return next(way for pattern, way in SIGNATURES if re.search(pattern, line))


def dkms_failure(report: str) -> DkmsFailure | None:
    """Return the DKMS build that failed, if that is what stopped the transaction; the driver's comes first."""
    matches = sorted(_DKMS.finditer(report), key=lambda match: not match["module"].startswith("nvidia"))
    for match in matches:
        return DkmsFailure(match["module"], match["version"], match["kernel"], match["log"])
    return None


def _essential(found: Meaning, report: str) -> str:
    """Return the line that says most: the unmet dependency, else an error that apt sums up with, else the first."""
    unmet = _UNMET.findall(report) if found.message.code == BROKEN else []
    errors = [line for line in found.lines if line.startswith("E: ")]
    chosen = " ".join((unmet or errors or list(found.lines))[0].split())
    words = r"\s+".join(map(re.escape, chosen.split()))
    source = re.search(rf"^Err:\d+ (.+)\n\s*{words}$", report, re.MULTILINE)
    owner = re.search(_OWNER + words, report, re.MULTILINE) if re.match("(?:Pre)?Depends: ", chosen) else None
    last_words = _script_words(report).splitlines()[-1:] if found.message.code == SCRIPT_FAILED else []
    told = [f"{source[1]}:" if source else "", f"{owner['owner']} :" if owner else "", chosen]
    return " ".join(" ".join([*told, *(f"({word})" for word in last_words)]).split())


def _script_words(report: str) -> str:
    """Return what a package's script printed before it failed."""
    failed = _FAILED.search(report)
    said: list[str] = []
    for line in reversed(report[: failed.start()].splitlines() if failed else []):
        if line.startswith(_PROGRESS):
            break
        said.append(line)
    return "\n".join(reversed(said))


def _explained(refusal: Refusal, said: str) -> Refusal:
    """Return the refusal of a script that failed with what DKMS or a build said in it, and what is behind that."""
    known = find(said, "dkms", "build")
    if not known:
        return refusal
    cause = f"{refusal.cause} It said: {known.lines[0].rstrip('.')}. Known cause: {known.cause}."
    return replace(refusal, cause=for_people(cause), remedy=f"{for_people(known.remedy)}. {refusal.remedy}")
