"""Simulated years of rates, judged as the history judges them."""

import random
from itertools import count

from ansible_collections.gpulab.node.plugins.plugin_utils.history import series
from ansible_collections.gpulab.node.plugins.plugin_utils.history.promise import PROOFS, promise

BASELINE = 20


def alarms(rates, years, sigma, seed, false_alarms=1.0):
    """Return how often a rate is said to fall in so many years of a healthy fleet of so many rates."""
    promised, draw = promise(rates, BASELINE, 3, false_alarms), random.Random(seed).gauss  # noqa: S311  a simulation
    found = 0
    for _series in range(rates * years):
        one = series.fresh("")
        usual, one["scale"] = series.baseline([draw(1, sigma) for _ in range(BASELINE)], promised)
        for _night in range(PROOFS):
            before = one["found"]
            series.judge(one, usual, draw(1, sigma), "now", promised)
            found += before is None and one["found"] is not None
    return found


def told_after(values, rates, baseline=BASELINE):
    """Return in which proof after the baseline a fall is told first, None where it never is."""
    promised, one = promise(rates, baseline, 3, 1), series.fresh("")
    usual, one["scale"] = series.baseline(values[:baseline], promised)
    for night, value in zip(count(1), values[baseline:]):
        series.judge(one, usual, value, "now", promised)
        if one["found"]:
            return night
    return None
