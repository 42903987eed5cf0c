# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is remembered of each host's rates between proofs: HOST.json beside its lines, with the promise that holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.gpulab.node.plugins.plugin_utils.history import files
from ansible_collections.gpulab.node.plugins.plugin_utils.history.promise import Promise, promise
from ansible_collections.gpulab.node.plugins.plugin_utils.history.series import SCHEMA, State, follow, new
from ansible_collections.gpulab.node.plugins.plugin_utils.history.siblings import Siblings, group

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import Line


class Settings(NamedTuple):
    """How a rate is said to fall: verify_trend_... of the role verify."""

    baseline_proofs: int = 20
    effect_percent: float = 3.0
    false_alarms: float = 1.0

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Settings:
        """Return those among the options of a module; what nothing could be judged by counts as LEAST."""
        given = cls(**{name: options[f"trend_{name}"] for name in cls._fields if f"trend_{name}" in options})
        return cls(
            max(given.baseline_proofs, LEAST.baseline_proofs),
            max(given.effect_percent, LEAST.effect_percent),
            max(given.false_alarms, LEAST.false_alarms),
        )


LEAST = Settings(5, 0.5, 0.01)


class Memory:
    """What is remembered of hosts in a directory of the history; without one nothing is."""

    def __init__(self, directory: Path | None, settings: Settings) -> None:
        """Read nothing yet."""
        self._directory = directory
        self._settings = settings
        self._texts: dict[str, str] = {}
        self._hosts = files.number(directory) if directory else 0

    def before(self, host: str, earlier: Sequence[Line], *, whole: bool = False) -> State:
        """Return what is remembered of a host after its earlier lines, the latest last. Raises Refusal V003.

        Where nothing is, all of its lines are read once, unless earlier is the whole of them.
        """
        state = _state(files.remembered(self._directory, host) if self._directory else None)
        if state is None:
            state = new()
            if self._directory and not whole:
                earlier = files.read(self._directory, host, files.MOST_BYTES * 2)
        times = [line["created"] for line in earlier]
        known = len(times) - times[::-1].index(state["last"]) if state["last"] in times else 0
        if not known and state["last"]:  # none of these is the latest that is remembered: they may all be older
            earlier = [line for line in earlier if line["created"] > state["last"]]
        for line in earlier[known:]:
            state["fleet"] = state["fleet"] or _series([line]) * max(self._hosts, 1)
            follow(state, line, self.promised(state), Siblings(group(line["gpus"])))
        return state

    def proven(self, lines: Collection[Line]) -> Proven:
        """Return how the lines of the hosts of one run are added to what is remembered of them."""
        return Proven(self, lines, _series(lines) * max(self._hosts, len(lines)) // max(len(lines), 1))

    def promised(self, state: State) -> Promise:
        """Return what a fall needs in the fleet of a host."""
        return promise(state["fleet"], *self._settings)

    def keep(self, host: str, state: State) -> None:
        """Keep what is remembered of a host until it is written."""
        self._texts[host] = json.dumps(state, separators=(",", ":"), sort_keys=True)

    def write(self) -> None:
        """Write what is remembered of the hosts. Raises Refusal V003."""
        if self._directory:
            files.remember(self._directory, self._texts)


class Proven:
    """The proof of a run: its hosts are siblings."""

    def __init__(self, memory: Memory, lines: Collection[Line], fleet: int) -> None:
        """Keep the rates of all hosts; fleet is how many series all hosts with a history have."""
        self._memory = memory
        self._fleet = fleet
        self._values = group(gpu for line in lines for gpu in line["gpus"])

    def follow(self, host: str, line: Line, earlier: Sequence[Line]) -> State:
        """Return what is remembered of a host after this proof. Raises Refusal V003."""
        state = self._memory.before(host, earlier)
        state["fleet"] = self._fleet or state["fleet"]  # a quick proof measures nothing
        follow(state, line, self._memory.promised(state), Siblings(group(line["gpus"]), self._values))
        self._memory.keep(host, state)
        return state


def _series(lines: Collection[Line]) -> int:
    return sum(len(line["rates"] or {}) + sum(len(gpu["rates"] or {}) for gpu in line["gpus"]) for line in lines)


def _state(text: str | None) -> State | None:
    """Return what a text holds; None for none, and for one that is no memory of ours."""
    try:
        state: State = json.loads(text or "")
    except ValueError:
        return None
    return state if isinstance(state, dict) and state.get("schema") == SCHEMA else None


ARGUMENTS = {
    "trend_baseline_proofs": {"type": "int", "default": Settings().baseline_proofs},
    "trend_effect_percent": {"type": "float", "default": Settings().effect_percent},
    "trend_false_alarms": {"type": "float", "default": Settings().false_alarms},
}
