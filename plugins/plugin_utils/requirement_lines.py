# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines for pip that a person wrote: which of them gpulab can install and lock, and remedies for the others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """Why a line cannot be used, and what helps."""

    why: str
    advice: str


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
OPTION_FOR_UV = Fault(
    "is an option, not a package",
    "Set an index in environments_index_url or in the node's pip.conf, and name only packages here",
)
ANOTHER_OPTION = Fault("is an option of pip, not a package", "Remove it")


def fault(line: str, indexes: Sequence[str] = (), *, sources: bool = True) -> Fault | None:
    """Return why gpulab does not give a line to pip; None where it does.

    indexes are the addresses that lines may name beside the node's own index. sources tells whether source code, which
    gpulab has to build, is accepted if its address pins it.
    """
    if line.startswith("-"):
        return _of_option(line, indexes) if sources else OPTION_FOR_UV
    if _OPTION_BEHIND.search(line):
        return Fault("has a pip option after the package", "Write only the package")
    address = _ADDRESS.match(line)
    if address and not address[1].startswith("file:"):
        return _of_address(address[1], sources=sources)
    if not address and not line.startswith((".", "~")) and "/" not in line.partition(";")[0]:
        return None
    if not sources and re.search(r"(?:^|file://)/.*\.whl$", line):
        return None
    return Fault("is a path, which does not exist on the node", f"{WHEEL}, or remove it")


def refusal(name: str, file: str | None, line: str, found: Fault) -> Refusal:
    """Return the refusal of a line of an environment, which is in its file or, without one, in the inventory."""
    way = f" Or keep the file as it is, and set in the environment replace: {{{line!r}: ...}}; null removes the line."
    advice = f"{found.advice}.{way if file else ''}"
    return refuse("E018", name=name, file=file or "the definition", detail=f"{line} {found.why}", advice=advice)


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


def _of_address(address: str, *, sources: bool) -> Fault | None:
    path = address.partition("#")[0].partition("?")[0]
    if path.lower().endswith(".whl") and "+" not in address.partition("://")[0]:
        return None
    if not sources:
        return Fault("points to source code, which gpulab does not build for a virtual environment", WHEEL)
    if re.match(r"git\+(?:https?|ssh)://", address):
        if _COMMIT.search(address):
            return None
        return Fault(
            "does not name a full commit, so its content could change",
            f"Write @ and the commit's 40 digits after the address; git ls-remote {_repository(address)} prints them",
        )
    if _ARCHIVE.search(path) and "+" not in address.partition("://")[0]:
        return None
    return Fault("points to something that gpulab cannot lock", WHEEL)


def _repository(address: str) -> str:
    """Return the address of a git repository without commit or branch: an @ before the path belongs to a user."""
    parts = urlsplit(address[len("git+") :])
    return f"{parts.scheme}://{parts.netloc}{parts.path.partition('@')[0]}"
