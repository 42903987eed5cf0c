"""The figures that a run on a GPU shows."""

from __future__ import annotations

from typing import Any

PRECISIONS = ("bf16", "fp16", "tf32", "fp32", "fp8")


def figures(measurements: dict[str, Any], limits: Any) -> list[tuple[str, str, float, str, float | None]]:
    """Return rows of (GPU, what, measured, unit, share of the card's limit; None where no limit is known).

    limits(device, key) returns the limit of a board for a rate, None where none is known.
    """
    rows = []
    for gpu in measurements["gpus"]:
        for test, key, what, unit in (
            ("copies", "to_device_gbs", "copy to the GPU", "GB/s"),
            ("copies", "to_host_gbs", "copy to the host", "GB/s"),
            ("copies", "on_device_gbs", "copy on the GPU", "GB/s"),
            ("memory", "memory_gbs", "memory, triad", "GB/s"),
            *(("matmul", f"{name}_tflops", f"{name} matmul", "TFLOPS") for name in PRECISIONS),
        ):
            value = gpu["tests"][test].get(key)
            if value is not None:
                limit = limits(gpu, key)
                rows.append((f"GPU {gpu['index']}", what, value, unit, value / limit if limit else None))
    return rows
