# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a model takes of a GPU's memory, from its parameters. Activations come on top: they grow with the batch.

The formulas are those of ZeRO (arXiv:1910.02054, section 3.1), of QLoRA (arXiv:2305.14314) and of EleutherAI's
Transformer Math 101. tests/unit/diagnosis/test_estimate.py holds them against published figures.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

GIB = 1 << 30
BYTES = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}
# Bytes of each state that an optimiser keeps for a parameter, with 32-bit states
STATES = {"adamw": 8.0, "adam": 8.0, "adamw8bit": 2.0, "lion": 4.0, "momentum": 4.0, "sgd": 0.0, "adafactor": 0.0}
OVERHEAD = 1.2  # of inference: buffers and a short context
NF4 = 4.127 / 8  # bytes of a weight in NF4 with double quantisation
ADAPTERS = 0.01  # parameters of LoRA's adapters, as a share of the model's
MASTER = 4.0  # bytes of a weight's copy in fp32
_SIZES = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12, "": 1.0}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?(?:[eE]\d+)?)\s*([KMBT]?)\s*\Z", re.IGNORECASE)


@dataclass(frozen=True)
class Use:
    """One use of a model: bytes it takes, and the formula in words."""

    name: str
    memory: float
    formula: str

    @property
    def gib(self) -> float:
        """The memory in GiB."""
        return self.memory / GIB


def parameters(text: str) -> float:
    """Parse a number of parameters such as 7B, 350M or 6.7e9. Raises ValueError for anything else."""
    match = _SIZE.match(text)
    if not match or not float(match[1]):
        msg = f"{text} is not a number of parameters, such as 7B"
        raise ValueError(msg)
    return float(match[1]) * _SIZES[match[2].upper()]


def estimate(count: float, dtype: str = "bf16", optimizer: str = "adamw") -> list[Use]:
    """Return the memory of each use of a model with this many parameters. Raises KeyError for an unknown name."""
    width, states = BYTES[dtype], STATES[optimizer]
    trained = max(width, BYTES["bf16"])  # nothing trains in less
    master = MASTER if trained < MASTER else 0.0
    adapters = ADAPTERS * (BYTES["bf16"] + BYTES["bf16"] + MASTER + states)
    return [
        Use("weights", count * width, f"N x {width:g} bytes ({dtype})"),
        Use("inference", count * width * OVERHEAD, f"N x {width:g} bytes x {OVERHEAD:g}"),
        Use(
            "LoRA",
            count * (trained + adapters),
            f"N x {trained:g} bytes, and {ADAPTERS:.0%} of N trained with {optimizer} in mixed precision",
        ),
        Use("QLoRA", count * (NF4 + adapters), f"N x {NF4:.3f} bytes (NF4), and adapters as for LoRA"),
        Use(
            "fine-tuning",
            count * (2 * trained + states * trained / MASTER),
            f"N x ({trained:g} weights + {trained:g} gradients + {states * trained / MASTER:g} {optimizer})",
        ),
        Use(
            "training",
            count * (2 * trained + master + states),
            f"N x ({trained:g} weights + {trained:g} gradients + {master:g} fp32 copy + {states:g} {optimizer})",
        ),
    ]
