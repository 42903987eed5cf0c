# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout says before it begins, and at its end. No I/O happens here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.rollout import state

if TYPE_CHECKING:
    from collections.abc import Mapping

SAID = {
    state.WAITING: "as before",
    state.CURRENT: "nothing to change",
    state.DONE: "changed and proven",
    state.BUSY: "still in use, as before",
    state.CONSOLE: "waits for its console, back in service",
    state.REFUSED: "refused, as before",
    state.FAILED: "failed, stays fenced",
}


def before(rollout: state.Rollout, sizes: list[int], users: Mapping[str, str], last: Mapping[str, int]) -> list[str]:
    """Return the order as lines: what would change on each node, who is on it, how long it took the last time."""
    lines, names = [f"rollout {rollout.run}"], list(rollout.order)
    number = 0
    while names:
        size = sizes[min(number, len(sizes) - 1)]
        number += 1
        for name in names[:size]:
            entry = rollout.hosts[name]
            role = "canary" if name in rollout.canaries else f"batch {number}"
            words = ["fenced by an earlier run, first to be proven"] if entry.again else []
            words += [", ".join(entry.due)] if entry.due else []
            words += [f"in use: {users[name]}" if users.get(name) else "idle"]
            words += [f"last time {_minutes(last[name])}"] if name in last else []
            lines.append(f"  {role:<9} {name}: {'; '.join(words)}")
        names = names[size:]
    for name, entry in rollout.hosts.items():
        if entry.place is None and entry.state in (state.CURRENT, state.REFUSED, state.DONE):
            why = f": {entry.refusal.cause}" if entry.refusal else ""
            lines.append(f"  {'left out':<9} {name}: {SAID[entry.state]}{why}")
    return lines


def after(rollout: state.Rollout) -> list[str]:
    """Return what became of each node as lines: before and after, and for how long it was out of service."""
    lines = [f"rollout {rollout.run}"]
    for name, entry in rollout.hosts.items():
        words = [SAID.get(entry.state, f"lost while {entry.state}")]
        words += [
            f"{what} {old} -> {entry.after[what]}"
            for what, old in entry.before.items()
            if what in entry.after and entry.after[what] != old
        ]
        seconds = state.out_seconds(entry)
        words += [f"out of service for {_minutes(seconds)}"] if seconds is not None else []
        words += [entry.refusal.cause] if entry.refusal and entry.state != state.DONE else []
        lines.append(f"  {name}: {'; '.join(words)}")
    if rollout.stopped:
        lines.append(f"  stopped: {rollout.stopped.cause}")
    return lines


def _minutes(seconds: int) -> str:
    return f"{seconds} s" if seconds < 60 else f"{round(seconds / 60)} min"  # noqa: PLR2004 - a minute
