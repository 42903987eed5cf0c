# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rates of a GPU against those of GPUs of the same board: on its node, and on all nodes of a run. No I/O here.

A standard deviation cannot show one slow GPU among eight, as it grows with it; the median deviation does. Where three
of eight are slow it does not, either, so the GPUs of all nodes are asked, too. Of two nobody can say which is slow.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.plugin_utils.history.model import Rates, ReportedGpu
    from ansible_collections.gpulab.node.plugins.plugin_utils.history.series import Series

# How many scales below the median a rate stands out, what the scale is at least, and how far below it is told.
SCALES = 3.5
LEAST_SCALE = 0.005
LEAST_EFFECT = 0.05
MAD = 1.4826
MOST = 1e9
# So many of a node's GPUs are a measure without those of other nodes; of fewer than this in all, no median is.
ENOUGH_ON_NODE = 5
ENOUGH = 3
PAIR = 2

Group = dict[tuple["str | None", str], list[float]]


def measured(rates: Rates | None) -> Rates:
    """Return rates without what is none: a node may say anything, and one value is not to spoil all others."""
    return {
        name: value for name, value in (rates or {}).items() if isinstance(value, (int, float)) and 0 < value < MOST
    }


def group(gpus: Iterable[ReportedGpu]) -> Group:
    """Return the values of each rate of each board."""
    found: Group = {}
    for gpu in gpus:
        for name, value in measured(gpu["rates"]).items():
            found.setdefault((gpu["device"], name), []).append(value)
    return found


class Siblings:
    """The values of one proof: of the GPUs of a node, and of those of all nodes where these were proven with it."""

    def __init__(self, node: Group, fleet: Group | None = None) -> None:
        """Keep both; without others the node is all there is."""
        self._node = node
        self._fleet = fleet or node
        self._limits: dict[tuple[str | None, str], tuple[float, float, int] | None] = {}

    def compare(self, series: Series, gpu: ReportedGpu, rate: str, value: float) -> None:
        """Count in the series whether a value stands out."""
        key = gpu["device"], rate
        if key not in self._limits:
            self._limits[key] = self._limit(key)
        found = self._limits[key]
        below, usual, others = found or (0.0, 0.0, 0)
        if found is None and len(self._fleet.get(key, ())) == PAIR and series["usual"]:
            usual, others = max(self._fleet[key]), 1
            below = min(usual * (1 - LEAST_EFFECT), usual - SCALES * 2**0.5 * series["scale"])
        if value < below:
            series["apart"] += 1
            series["share"], series["others"] = round(1 - value / usual, 3), others
        else:
            series["apart"] = 0

    def _limit(self, key: tuple[str | None, str]) -> tuple[float, float, int] | None:
        """Return below which value one stands out, the median and the number of the others; None without a measure."""
        node, fleet = self._node.get(key, ()), self._fleet.get(key, ())
        groups = [values for values, enough in ((node, ENOUGH_ON_NODE), (fleet, ENOUGH)) if len(values) >= enough]
        limits = []
        for values in groups:
            usual = median(values)
            scale = max(LEAST_SCALE * usual, MAD * median(abs(value - usual) for value in values))
            limits.append((min(usual * (1 - LEAST_EFFECT), usual - SCALES * scale), usual, len(values) - 1))
        return max(limits, default=None)
