# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bundle that a node is to use, as the node sees it: judged before anything of it is taken."""

from __future__ import annotations

import hashlib
import json
import re
import time
from calendar import timegm
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ansible_collections.gpulab.node.plugins.module_utils.bundle.folder import (
    RECORD,
    SUMS,
    Folder,
    Served,
    faults,
    verified,
)
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.bundle import refuse

SCHEMA = 1
APT_KEY = "keys/apt.asc"
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_IN_USE = re.compile(r"^# Bundle ([0-9a-f]{64}) of (\S+)$", re.MULTILINE)


def place_of(bundle: str, certificates: str = "") -> Folder | Served:
    """Return where a bundle is: a folder of this machine by its path, or a server's by its address. Raises OSError."""
    if "://" in bundle:
        return Served(bundle, certificates)
    if not Path(bundle).is_dir():  # the controller may have it
        message = "there is no such folder on the node"
        raise OSError(message)
    return Folder(Path(bundle))


def address_of(bundle: str) -> str:
    """Return the address of a bundle: a folder has one, too."""
    return bundle.rstrip("/") if "://" in bundle else f"file://{quote(bundle.rstrip('/'))}"


def read(bundle: str, signers: str, certificates: str, in_use: str) -> tuple[dict[str, Any], list[Refusal]]:
    """Return {address, digest, made_at, key, hosts} of a bundle, and what speaks against it; of both one is empty.

    signers says who may have signed it, in the form of allowed_signers. in_use is the text of the sources that the node
    has of a bundle: of the very same one, only the indexes are looked at again.
    """
    try:
        place = place_of(bundle, certificates)
        listed = place.read(SUMS) or b""
        digest = hashlib.sha256(listed).hexdigest()
        known = _IN_USE.search(in_use)
        found = faults(place, listed, signers, whole=known is None or known[1] != digest)
        if found:
            return {}, found
        return _judged(place, bundle, listed, known[2] if known else "")
    except Refusal as refusal:
        return {}, [refusal]
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        detail = getattr(reason, "strerror", None) or reason
        return {}, [refuse("B023", path=bundle, detail=detail)]


def _judged(place: Folder | Served, bundle: str, listed: bytes, used: str) -> tuple[dict[str, Any], list[Refusal]]:
    """Return a bundle that is whole, or why it is not for this node now; used is when the one in use was made."""
    record = json.loads(verified(place, RECORD, listed))
    if record["schema"] != SCHEMA:
        return {}, [refuse("B008", path=place, version=record["gpulab"])]
    made = record["made_at"]
    if timegm(time.strptime(made, _TIME)) > time.time():
        return {}, [refuse("B015", path=place, made=made, now=time.strftime(_TIME, time.gmtime()))]
    if made < used:
        return {}, [refuse("B009", path=place, made=made, used=used)]
    key = verified(place, APT_KEY, listed).decode("ascii", "replace")
    return {
        "address": address_of(bundle),
        "digest": hashlib.sha256(listed).hexdigest(),
        "made_at": made,
        "key": key,
        "hosts": record["hosts"],
    }, []
