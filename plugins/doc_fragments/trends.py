# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of what says that rates fall."""

from __future__ import annotations


class ModuleDocFragment:
    """From how many proofs, how far, how seldom; plugin_utils/history/memory.py has them as an argument spec."""

    DOCUMENTATION = r"""
options:
  trend_baseline_proofs:
    description: From how many proofs with rates the usual rate of a GPU is learnt, which then stays. Fewer than 5 count
      as 5.
    type: int
    default: 20
    version_added: 1.1.0
  trend_effect_percent:
    description: How many per cent a rate must lie below its usual one before that is said. Less than 0.5 counts as 0.5.
    type: float
    default: 3
    version_added: 1.1.0
  trend_false_alarms:
    description: How often in a year rates of a healthy fleet may be said to fall, if it is proven once a day. Less
      than 0.01 counts as 0.01.
    type: float
    default: 1
    version_added: 1.1.0
"""
