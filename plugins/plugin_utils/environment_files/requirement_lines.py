# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines for pip that a person wrote: which of them gpulab can install and lock, and remedies for the others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

INCLUDE = re.compile(r"^(?:-r|--requirement)[\s=]*(\S.*)$")
HARMLESS = re.compile(r"^(?:--prefer-binary|--only-binary)\b")  # gpulab installs wheels in any case
PRE = "--pre"
_FURTHER = re.compile(r"^(--extra-index-url|--find-links|-f)[\s=]*(\S+)$")
_ADDRESS = re.compile(r"^(?:[A-Za-z0-9][\w.-]*(?:\[[^\]]*\])?\s*@\s*)?((?:[A-Za-z0-9+.-]+://|file:)\S*)")
_COMMIT = re.compile(r"@[0-9a-f]{40}(?:#\S*)?$")
_ARCHIVE = re.compile(r"\.(?:zip|tar\.gz|tgz|tar\.bz2|tar\.xz)$", re.IGNORECASE)
_OPTION_BEHIND = re.compile(r"\s--?(?!hash=)[A-Za-z]")

WHEEL = "Request a wheel of it, by its address or from your own index"


class Fault(NamedTuple):
    """Why a line cannot be used, what helps, and a line that stands in for it, or null for none, as YAML."""

    why: str
    advice: str
    instead: str = "null"


OPTIONS = (
    (
        re.compile(r"^(?:-e|--editable)[\s=]*\w+\+"),
        Fault(
            "is an editable install, which other users of the node could not use",
            "Write it without -e, with its full commit: git+https://...@COMMIT",
        ),
    ),
    (
        re.compile(r"^(?:-e|--editable)\b"),
        Fault("is an editable install of a directory, which does not exist on the node", f"{WHEEL}, or remove it"),
    ),
    (
        re.compile(r"^(?:-i|--index-url|--pypi-url)\b"),
        Fault("names another index", "Set it in conda_index_url or in the node's pip.conf, and remove the line"),
    ),
    (INCLUDE, Fault("names a file that gpulab cannot read from here", "Write that file's lines in its place")),
)
INDEX_FOR_UV = Fault(
    "names an index, not a package",
    "Set it in environments_index_url or in the node's pip.conf, and remove the line",
)
FILE_FOR_UV = Fault(
    "names a file or a directory, not a package", "Set file: PATH in the environment, and remove the line"
)
_INDEXES = re.compile(r"^(?:-i|--index-url|--pypi-url|--extra-index-url|--find-links|-f|--no-index|--trusted-host)\b")
_FILES = re.compile(r"^(?:-r|--requirement|-c|--constraint|-e|--editable)\b")
_GITHUB = re.compile(r"git\+(?:https|ssh)://(?:git@)?github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?@([0-9a-f]{40})(#\S*)?$")
ANOTHER_OPTION = Fault("is an option of pip, not a package", "Remove it")


def fault(line: str, indexes: Sequence[str] = (), *, sources: bool = True, in_file: bool = False) -> Fault | None:
    """Return why gpulab does not give a line to pip; None where it does.

    indexes are the addresses that lines may name beside the node's own index. sources tells whether git is asked for
    source code: uv has no hash of that, so it takes an archive of the commit instead (see as_archive).
    """
    if line.startswith("-"):
        return _of_option(line, indexes) if sources else _of_option_for_uv(line, in_file=in_file)
    if _OPTION_BEHIND.search(line):
        return Fault("has a pip option after the package", "Write only the package")
    address = _ADDRESS.match(line)
    if address and not address[1].startswith("file:"):
        return _of_address(line, address[1], sources=sources)
    if not address and not line.startswith((".", "~")) and "/" not in line.partition(";")[0]:
        return None
    if not sources and re.search(r"(?:^|file://)/.*\.whl$", line):
        return None
    return Fault("is a path, which does not exist on the node", f"{WHEEL}, or remove it")


def refusal(name: str, file: str | None, found: Sequence[tuple[str, Fault]]) -> Refusal:
    """Return the refusal of lines of an environment, which are in its file or, without one, in the inventory."""
    told = list(dict(found).items())
    edits = ", ".join(f"{line!r}: {one.instead}" for line, one in told)
    way = f" Or keep the file as it is, and set in the environment replace: {{{edits}}}; null removes the line."
    detail = "; ".join(f"{line} {one.why}" for line, one in told)
    advice = ". ".join(dict.fromkeys(one.advice for _line, one in told))
    return refuse(
        "E018", name=name, file=file or "the definition", detail=detail, advice=f"{advice}.{way if file else ''}"
    )


def as_archive(line: str) -> str:
    """Return a line with the archive of a commit of GitHub in the place of its repository: of that there is a hash."""
    place, _sign, marker = line.partition(" ;")
    match = _GITHUB.search(place)
    if not match or (match[4] or "").startswith("#subdirectory"):
        return line
    owner, repository, commit, _fragment = match.groups()
    name = place[: match.start()].strip() or f"{repository} @"
    return f"{name} https://github.com/{owner}/{repository}/archive/{commit}.zip{f' ;{marker}' if marker else ''}"


def _of_option_for_uv(line: str, *, in_file: bool) -> Fault:
    if _INDEXES.match(line):
        return INDEX_FOR_UV
    if _FILES.match(line) and not in_file:
        return FILE_FOR_UV
    return next((found for pattern, found in OPTIONS if pattern.match(line)), ANOTHER_OPTION)


def further(line: str) -> str | None:
    """Return the address that a line names beside the index."""
    match = _FURTHER.match(line)
    return match[2].rstrip("/") if match else None


def _of_option(line: str, indexes: Sequence[str]) -> Fault | None:
    address = further(line)
    if line == PRE or HARMLESS.match(line) or address in [one.rstrip("/") for one in indexes]:
        return None
    if address:
        return Fault(
            "names another index, from which pip may install any package",
            f"If you trust its owner with every package, add {address} to conda_extra_index_urls;"
            " if the node's pip.conf already names it, remove the line",
        )
    return next((found for pattern, found in OPTIONS if pattern.match(line)), ANOTHER_OPTION)


def _of_address(line: str, address: str, *, sources: bool) -> Fault | None:
    path = address.partition("#")[0].partition("?")[0]
    if path.lower().endswith(".whl") and "+" not in address.partition("://")[0]:
        return None
    if re.match(r"git\+(?:https?|ssh)://", address):
        if _COMMIT.search(address):
            known = sources or (_GITHUB.match(address) and "#subdirectory" not in address)
            return None if known else Fault("points to git, of which uv has no hash", "Name an archive of that commit")
        return Fault(
            "does not name a full commit, so its content could change",
            f"Write @ and the commit's 40 digits after the address; git ls-remote {_repository(address)} prints them",
            repr(f"{line.partition(' @ ')[0] + ' @ ' if ' @ ' in line else ''}git+{_repository(address)}@COMMIT"),
        )
    if _ARCHIVE.search(path) and "+" not in address.partition("://")[0]:
        return None
    return Fault("points to something that gpulab cannot lock", WHEEL)


def _repository(address: str) -> str:
    """Return the address of a git repository without commit or branch: an @ before the path belongs to a user."""
    parts = urlsplit(address[len("git+") :])
    return f"{parts.scheme}://{parts.netloc}{parts.path.partition('@')[0]}"
