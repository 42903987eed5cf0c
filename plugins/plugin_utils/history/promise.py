# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much must be seen before a rate is said to fall, so that a healthy fleet is blamed as seldom as promised.

Half of the false alarms go to the comparison of a series with its own baseline, half to that with its siblings. The
noise of proof and proof is taken to be normal and independent; its size need not be known. No I/O happens here.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

# Proofs in the year that the promise is of; fewer, such as weekly ones, are blamed still less often.
PROOFS = 365
# What a proof must lie below the baseline before it counts, in scales of the baseline. The textbook's 0.5 is for a
# baseline that is known: one that was learnt from 20 proofs is wrong by more than 0.5 in one of 80 series, which then
# are blamed at any height. A decay that is told must be three scales anyway, of which this is the usual half.
SLACK = 1.5
# What the discrete steps add to the height (Siegmund, Sequential Analysis, 1985).
OVERSHOOT = 1.166
# How often the value of a healthy sibling lies 3.5 scales below the median of so many, by simulation (rounded up).
ODD = {2: 0.03, 3: 0.05, 4: 0.03, 6: 0.02, 12: 0.007, 24: 0.003}


class Promise(NamedTuple):
    """What a fall needs: proofs in the baseline, a share of it, a height of the sum in scales, repeats by siblings.

    chances is how many comparisons with siblings there are for each false alarm.
    """

    baseline: int
    effect: float
    height: float
    chances: float

    def repeats(self, siblings: int) -> int:
        """Return in how many proofs in a row a GPU must stand out from so many siblings, itself included."""
        odd = next(share for most, share in reversed(ODD.items()) if siblings >= most)
        return max(2, math.ceil(math.log(self.chances) / -math.log(odd)))


def promise(series: int, baseline_proofs: int, effect_percent: float, false_alarms: float) -> Promise:
    """Return what a fall needs in a fleet of so many series, a series being one rate of one GPU."""
    each = false_alarms / 2 / (max(series, 1) * PROOFS)
    return Promise(baseline_proofs, effect_percent / 100, height(each, baseline_proofs), max(1 / each, 1))


@lru_cache
def height(most: float, baseline: int) -> float:
    """Return the height of the sum, in scales, that a healthy series exceeds in a proof with at most this probability.

    Mean and deviation of the baseline are estimates: the probability is the average over what they may be.
    """
    low, high = 1.0, 64.0
    for _halving in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if _exceeded(middle, baseline) > most else (low, middle)
    return high


def _exceeded(height: float, baseline: int) -> float:
    """Return how probable it is that a healthy series exceeds a height in a proof: one by the average run length."""
    weighed = total = 0.0
    for step in range(5, 100):
        scale = step / 50  # what the baseline says, by what is so: a chi distribution
        of_scale = math.exp((baseline - 2) * math.log(scale) - (baseline - 1) * (scale * scale - 1) / 2)
        for aside in range(-24, 25):
            error = aside / 5  # of the mean, in its own deviations
            weight = of_scale * math.exp(-error * error / 2)
            drift = SLACK * scale - error / math.sqrt(baseline)
            weighed += weight / _run_length(drift, height * scale + OVERSHOOT)
            total += weight
    return weighed / total


def _run_length(drift: float, barrier: float) -> float:
    """Return after how many proofs, on average, a sum that falls by drift a proof exceeds a barrier (Siegmund)."""
    way = 2 * drift * barrier
    if abs(way) < 1e-6:  # noqa: PLR2004  where the formula is 0 / 0
        return barrier * barrier
    return max((math.exp(min(way, 700)) - way - 1) / (2 * drift * drift), 1.0)
