"""What a run on a GPU leaves behind: facts and measurements without anybody's names, and the figures to show."""

from __future__ import annotations

import re
from typing import Any

SCHEMA = 2
# Keys whose values tell whose machine it is, and what takes their place; {} is a number, the same for the same value.
IDENTIFYING = {
    "uuid": "GPU-00000000-0000-0000-0000-{:012d}",
    "serial": "{:013d}",
    "hostname": "node{}",
    "ipv4": "192.0.2.{}",
    "boot_id": "boot{}",
    "cluster": "{:032d}",
    "user": "user{}",
}
PRECISIONS = ("bf16", "fp16", "tf32", "fp32", "fp8")
# A shorter name would be found inside other words.
SHORTEST = 4
PUBLIC = {"root", "localhost"}
SYSTEM_MOUNTS = {"/", "/boot", "/boot/efi", "/dev/shm", "/home", "/tmp", "/usr", "/var", "/var/tmp"}  # noqa: S108
PROCESS = re.compile(r"name=[^,]*")  # in the text of an XID


def build(facts: dict[str, Any], measurements: dict[str, Any], worked: dict[str, Any], made: str) -> dict[str, Any]:
    """Return the recording of a run, made at an ISO 8601 date; worked is what programs.work found.

    ``notes.allow`` is for a person to fill in: {id of a check: why its finding is right on this machine}.
    """
    kept = {**facts, "filesystems": [each for each in facts["filesystems"] if each["mount"] in SYSTEM_MOUNTS]}
    data = {"facts": kept, "measurements": {**measurements, "mounts": [], "python": None}, "programs": worked}
    return {"schema": SCHEMA, "made": made, "notes": {"allow": {}}, **anonymous(data)}


def anonymous(data: dict[str, Any]) -> dict[str, Any]:
    """Replace what tells whose machine it is, wherever it stands."""
    found: dict[str, str] = {}
    for key, value in _texts(data):
        if key in IDENTIFYING and len(value) >= SHORTEST and value not in PUBLIC:
            found.setdefault(value, IDENTIFYING[key].format(len(found)))
    names = sorted(found, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, names)) or r"(?!)")
    cleaned: dict[str, Any] = _mapped(
        data, lambda text: PROCESS.sub("name=process", pattern.sub(lambda match: found[match.group()], text))
    )
    return cleaned


def _texts(data: Any, key: str = "") -> Any:
    """Yield each text with the key it stands under."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield from _texts(value, name)
    elif isinstance(data, list):
        for value in data:
            yield from _texts(value, key)
    elif isinstance(data, str):
        yield key, data


def _mapped(data: Any, change: Any) -> Any:
    """Return the data with every text changed."""
    if isinstance(data, dict):
        return {key: _mapped(value, change) for key, value in data.items()}
    if isinstance(data, list):
        return [_mapped(value, change) for value in data]
    return change(data) if isinstance(data, str) else data


def file_name(facts: dict[str, Any]) -> str:
    """Return <board>-<driver>.json, as nvidia-h100-80gb-hbm3-580.95.05.json."""
    gpus = facts["nvml"]["gpus"]
    board = gpus[0].get("name", "no-answer") if gpus else "no-gpu"
    driver = facts["nvml"]["driver_version"] or "no-driver"
    return re.sub(r"[^a-z0-9.]+", "-", f"{board}-{driver}".lower()).strip("-") + ".json"


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
            *(
                ("matmul", f"{name}_tflops", f"{name} matmul", "TFLOPS")
                for name in ("bf16", "fp16", "tf32", "fp32", "fp8")
            ),
        ):
            value = gpu["tests"][test].get(key)
            if value is not None:
                limit = limits(gpu, key)
                rows.append((f"GPU {gpu['index']}", what, value, unit, value / limit if limit else None))
    return rows
