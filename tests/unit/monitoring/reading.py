"""Facts of a reading as the collector puts them together, and its text read back."""

import re
from typing import Any

from unit.checks import nodes

SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def facts(model: str = "a100-pcie-x2", **parts: Any) -> dict[str, Any]:
    """Return the facts of a healthy node, as gpu_metrics takes them."""
    healthy = nodes.healthy(model)
    return {
        "time": 1000.0,
        "seconds": 0.1,
        "nvml": {"simulated": None, **healthy["nvml"]},
        "pci": healthy["pci"],
        "simulated": None,
        "driver": {"loaded": nodes.DRIVER, "library": nodes.DRIVER},
        "kernel_log": {"readable": True, "events": []},
        "fenced": False,
        "owners": {},
        "mounts": {},
        **parts,
    }


def samples(text: str, name: str, **labels: str) -> list[float]:
    """Return the values of a metric's samples that have these labels."""
    found = []
    for line in text.splitlines():
        match = SAMPLE.match(line)
        if match and match[1] == name and labels.items() <= dict(LABEL.findall(match[2] or "")).items():
            found.append(float(match[3]))
    return found
