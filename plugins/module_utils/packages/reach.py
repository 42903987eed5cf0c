# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the servers that a run will download from answer: each asked by a child of its own, all at once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, LATE, Child
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people
from ansible_collections.gpulab.node.plugins.module_utils.system.certificates import opener

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.core.child import Emit

SECONDS = 20.0  # for a source, with all its addresses
TIMEOUT = 8.0  # seconds without an octet


def unreached(
    sources: list[dict[str, Any]], proxies: Callable[[str], Mapping[str, str]], certificates: str
) -> list[dict[str, str]]:
    """Return {name, url, detail} of each source of which no address answers.

    sources are {name, urls, exact}; exact asks for the file itself, where else any answer of the server counts. proxies
    returns the variables of the environment for a URL; certificates are further authorities to trust, as PEM.
    """
    asked = [(source, Child(_asking(source, proxies, certificates), SECONDS)) for source in sources]
    found = []
    for source, child in asked:
        ended = child.wait()
        if ended == DONE and not child.messages:
            continue
        silent = f"no answer within {SECONDS:.0f} s" if ended == LATE else child.reason
        found.append({"name": source["name"], "url": source["urls"][0], "detail": (child.messages or [silent])[0]})
    return found


def _asking(
    source: dict[str, Any], proxies: Callable[[str], Mapping[str, str]], certificates: str
) -> Callable[[Emit], None]:
    """Return the work of a child, which says why no address answers; nothing where one does."""

    def ask(emit: Emit) -> None:
        problems = [problem for url in source["urls"] if (problem := _problem(url, source["exact"]))]
        if len(problems) == len(source["urls"]):
            emit(problems[0])

    def _problem(url: str, exact: bool) -> str:  # noqa: FBT001 - as the source says
        os.environ.update(proxies(url))
        try:
            with opener(certificates).open(url, timeout=TIMEOUT) as answer:
                answer.read(1)
        except HTTPError as error:
            return for_people(str(error)) if exact or error.code >= 500 else ""  # noqa: PLR2004 - the server's own fault
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            return for_people(str(getattr(reason, "strerror", None) or reason))
        return ""

    return ask
