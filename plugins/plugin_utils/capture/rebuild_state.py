# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the reinstall and rebuild of a host came: <captures>/<host>/rebuild.json on the controller.

The state says where a run stopped. Each step can run again by itself, so nothing is skipped only because of it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypedDict

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.plugin_utils.capture import own_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SCHEMA = 1
FILE = "rebuild.json"
STATES = (
    "confirmed",  # a person named this host
    "installing",  # the node was sent into the installer
    "reachable",  # the installed system answers
    "identity",
    "storage",
    "network",
    "software",
    "provisioned",
    "containers",
    "environments",
    "jobs",
    "proven",
)
_LOST = "Without it, gpulab does not know how far the rebuild came; playbooks/rebuild.yml begins at its first step."


class Missing(TypedDict):
    """What did not come back."""

    section: str
    name: str
    why: str


class Document(TypedDict):
    """The record of a rebuild: see State."""

    schema: int
    host: str
    capture: str
    plan: str | None
    state: str
    since: str
    missing: list[Missing]


@dataclass(frozen=True)
class State:
    """Where a host is.

    capture is the name of the one that it comes back from, plan the id of the installer's plan, None where a person
    installed. since is ISO 8601, UTC. missing has {section, name, why} of all that did not come back so far.
    """

    host: str
    capture: str
    plan: str | None
    state: str
    since: str = ""
    missing: tuple[Missing, ...] = ()

    def reached(self, state: str) -> bool:
        """Tell whether the host came this far or farther."""
        return STATES.index(self.state) >= STATES.index(state)


def read(of_host: Path) -> State | None:
    """Return the state of the host whose captures are here; None before the first. Raises Refusal H220."""
    found = records.read(of_host / FILE, Document, None, _LOST)
    if found is None or found["schema"] != SCHEMA or found["state"] not in STATES:
        return None
    return State(
        found["host"],
        found["capture"],
        found["plan"],
        found["state"],
        found["since"],
        tuple(found["missing"]),
    )


def _missing(one: Missing) -> Missing:
    return {"section": one["section"], "name": one["name"], "why": one["why"]}


def advance(
    of_host: Path,
    state: State,
    missing: Iterable[Missing] = (),
    sections: Iterable[str] = (),
) -> State:
    """Write that the host came to this state, and return it. Raises Refusal H221.

    What an earlier step missed stays, but for the sections that this step looked at again, whose missing is the
    new one. Another capture or another plan begins with nothing missing.
    """
    before, news = read(of_host), [_missing(one) for one in missing]
    renewed = {*sections, *(one["section"] for one in news)}
    same = before is not None and (before.capture, before.plan) == (state.capture, state.plan)
    kept = [one for one in before.missing if one["section"] not in renewed] if before and same else []
    now = f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    since = before.since if before and same and before.state == state.state else now
    reached = State(state.host, state.capture, state.plan, state.state, since, (*kept, *news))
    document: dict[str, Any] = {"schema": SCHEMA, **asdict(reached)}
    own_files.make_directory(of_host)
    records.write(of_host / FILE, {**document, "missing": list(reached.missing)}, 0o600)
    return reached
