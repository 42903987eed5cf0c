# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells people who hold a GPU on which nothing computes, by what the collector has read. Nothing is ended.

What counts is a window: no reading of all that time saw the GPU compute. A mean would let one busy hour hide a day.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.monitoring import telling

STATE = Path("/run/gpulab/idle-gpus.json")
LEAST_BYTES = 2e9  # as in the alert GpuHeldIdle: a desktop holds less
GAP = 300  # seconds without a reading after which nobody knows what the GPU did
MINUTE = 60
_SAMPLE = re.compile(r"(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Holder(NamedTuple):
    """Somebody who has a program on a GPU."""

    user: str
    uuid: str


class Reading(NamedTuple):
    """When the collector read the GPUs (seconds since 1970), and whose GPUs compute nothing, with their names."""

    time: float
    idle: dict[Holder, str]


def parse(text: str) -> Reading:
    """Return what the metrics of the collector say."""
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    seconds = 0.0
    for line in text.splitlines():
        found = _SAMPLE.fullmatch(line)
        if found:
            samples.setdefault(found[1], []).append((dict(_LABEL.findall(found[2])), float(found[3])))
        elif line.startswith("gpulab_collector_timestamp_seconds "):
            seconds = float(line.split()[1])
    work = samples.get("gpulab_gpu_utilization_ratio", ())
    still = {labels["uuid"] for labels, share in work if labels["unit"] == "gpu" and share == 0}
    memory = samples.get("gpulab_gpu_memory_used_bytes", ())
    still &= {labels["uuid"] for labels, used in memory if used > LEAST_BYTES}
    idle = {
        Holder(
            labels["user"], labels["uuid"]
        ): f"GPU {labels.get('index', '?')} ({labels.get('model', labels['uuid'])})"
        for labels, count in samples.get("gpulab_gpu_user_processes", ())
        if labels["uuid"] in still and count
    }
    return Reading(seconds, idle)


def judge(reading: Reading, state: dict[str, Any], after: int, again: int) -> tuple[dict[str, Any], list[Holder]]:
    """Return the new state, and who is to be told now; after and again are minutes.

    The state has when the last reading was, and by holder since when the GPU is idle and when that was told.
    """
    last = state.get("time", 0.0)
    known = state.get("holders", {}) if reading.time - last <= GAP else {}
    holders, due = {}, []
    for holder in reading.idle:
        since, told = known.get("/".join(holder), (reading.time, 0.0))
        wait = max(since + after * MINUTE, told + again * MINUTE if told else 0.0)
        if reading.time >= wait:
            due.append(holder)
            told = reading.time
        holders["/".join(holder)] = [since, told]
    return {"time": reading.time, "holders": holders}, due


def message(names: list[str], host: str, after: int) -> str:
    """Return what a holder is told of these GPUs."""
    return (
        f"{host}: you hold {', '.join(names)}, and nothing has computed there for {after} minutes or more.\n"
        "If you need it no more, end your program or job (nvidia-smi, squeue --me), so that others can have it.\n"
        "gpulab ends nothing.\n"
    )


def main(arguments: list[str]) -> None:
    """Take the file of metrics, and the minutes after which holders are told, and told again."""
    metrics, after, again = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    reading = parse(metrics.read_text(encoding="utf-8"))
    if time.time() - reading.time > GAP:
        return
    state, due = judge(reading, records.read(STATE, dict[str, Any], {}), after, again)
    records.write(STATE, state, 0o600)  # first: who cannot be told is not told twice
    for user in dict.fromkeys(holder.user for holder in due):
        names = [reading.idle[holder] for holder in due if holder.user == user]
        with contextlib.suppress(KeyError):
            telling.tell(pwd.getpwnam(user).pw_uid, "an idle GPU", message(names, os.uname().nodename, after))
