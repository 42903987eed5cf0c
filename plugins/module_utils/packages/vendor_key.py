# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one key that signs a vendor's repository: fetched once, and used only when its fingerprint is the pinned one."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core import download
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.packages import refuse
from ansible_collections.gpulab.node.plugins.module_utils.packages import openpgp

TIMEOUT = 30  # seconds
_WEB_PAGE = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype\s+html|html)\b", re.IGNORECASE)
LIMIT = 2**20  # octets of a key
# The options of a vendor's repository, as doc_fragments/vendor_repository.py describes them, and which are needed.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "name": {"type": "str", "required": True},
    "url": {"type": "str"},
    "key_url": {"type": "str", "no_log": False},
    "key": {"type": "str", "no_log": False},
    "fingerprint": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}
REQUIRED_IF = [("state", "present", ("url", "fingerprint")), ("state", "present", ("key_url", "key"), True)]


def check(key: str, origin: str, fingerprint: str) -> None:
    """Raise Refusal H060 unless the text is the pinned key, armored, and no other; origin says whence it comes."""
    try:
        found = openpgp.fingerprints(openpgp.dearmor(key))
    except ValueError as error:
        raise refuse("H060", origin=origin, found=f"cannot be used: {error}", pinned=fingerprint) from error
    if found != [fingerprint]:
        raise refuse("H060", origin=origin, found=f"is {', '.join(found)}", pinned=fingerprint)


def choose(module: Any, name: str, fingerprint: str, path: str, present: str) -> str | None:
    """Return a repository's key, given or there already at path; None where it has to be fetched. Raises Refusal."""
    given = module.params["key"]
    if given:
        check(given, f"the repository {name}, from your file,", fingerprint)
        return str(given).rstrip() + "\n"
    try:
        check(present, path, fingerprint)
    except Refusal:
        return f"(the key {fingerprint} from {module.params['key_url']})\n" if module.check_mode else None
    return present


def fetch(module: Any, name: str, fingerprint: str) -> str:
    """Download the key of a repository through the proxies of the environment. Raises Refusal H060, H061 and H214."""
    url = module.params["key_url"]
    try:
        key = download.fetch(url, lambda answer: answer.read(LIMIT), TIMEOUT).decode("utf-8", "replace")
    except OSError as error:
        raise refuse("H061", name=name, url=url, detail=error) from error
    if _WEB_PAGE.match(key):
        raise refuse("H214", line=f"{url} answers with a web page instead of the key of the repository {name}")
    check(key, f"the repository {name}, from {url},", fingerprint)
    return key.rstrip() + "\n"
