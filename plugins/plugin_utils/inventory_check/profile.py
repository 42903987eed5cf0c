# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether verify_profile has names and values that the proof reads; what is misspelt would be passed over there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check.values import did_you_mean, shown
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

VARIABLE = "verify_profile"
NUMBERS = ("pcie_width", "nvlink_links", "power_limit_watts")
RATES = ("memory_gbs", "to_device_gbs", "to_host_gbs", "bf16_tflops", "all_reduce_gbs", "peer_gbs")
NAMES = (*NUMBERS, "floors", "limits", "form", "fabric", "capabilities", "name")


def faults(given: Mapping[Any, Any]) -> Iterator[Refusal]:
    """Yield what is wrong with a profile of the operator's."""
    for name, value in given.items():
        place = f"{VARIABLE}.{name}"
        if name not in NAMES:
            yield _unknown(VARIABLE, name, NAMES)
        elif name in NUMBERS:
            yield from _number(place, value)
        elif name in ("floors", "limits") and not isinstance(value, Mapping):
            yield _wrong(place, value, "a mapping")
        elif name in ("floors", "limits"):
            for rate, least in value.items():
                if rate in RATES or re.fullmatch(r"[a-z]+\d+_tflops", str(rate)):
                    yield from _number(f"{place}.{rate}", least)
                else:
                    yield _unknown(place, rate, RATES)


def _unknown(place: str, name: Any, known: Collection[str]) -> Refusal:
    advice = did_you_mean(str(name), list(known), f"Its fields are: {', '.join(known)}.")
    return refuse("I010", variable=place, field=name, advice=advice)


def _number(place: str, value: Any) -> Iterator[Refusal]:
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
    if value is not None and not number:
        yield _wrong(place, value, "a number")


def _wrong(place: str, value: Any, expected: str) -> Refusal:
    return refuse("I005", variable=place, value=shown(value), expected=expected, advice=f"Write {expected}.")
