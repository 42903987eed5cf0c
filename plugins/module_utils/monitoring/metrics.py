# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a node's GPUs as metrics of Prometheus, in its text format. No I/O happens here.

Units are base units and stand in the names. What a board, its driver or its library does not have gives no sample.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.driver.errors import judged

MARKER = "# Written by gpulab (role monitoring); changes made by hand are lost."
MIB = 1 << 20
STATES = ("ok", "no_devices", "absent", "not_loaded", "mismatch", "error", "unresponsive")
# nvml.h, NVML_CLOCKS_EVENT_REASON_*
EVENT_REASONS = {
    "idle": 0x1,
    "applications_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal": 0x20,
    "hw_thermal": 0x40,
    "hw_power_brake": 0x80,
    "display": 0x100,
}
COUNTERS = {"volatile": "driver_load", "aggregate": "board_life"}

Labels = dict[str, Any]


@dataclass
class Family:
    """A metric: its name, type and help, and its samples as (labels, value)."""

    name: str
    type: str
    help: str
    samples: list[tuple[Labels, float]] = field(default_factory=list)

    def text(self) -> str:
        """Return its lines; none where it has no sample."""
        if not self.samples:
            return ""
        lines = [f"# HELP {self.name} {self.help}", f"# TYPE {self.name} {self.type}"]
        lines += [f"{self.name}{_labels(labels)} {value:.15g}" for labels, value in self.samples]
        return "".join(f"{line}\n" for line in lines)


def _labels(labels: Labels) -> str:
    told = {name: str(value) for name, value in labels.items() if value not in (None, "")}
    escaped = {
        name: value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for name, value in told.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}" if escaped else ""


class Metrics:
    """Gathers families in the order in which they are first named."""

    def __init__(self) -> None:
        """Begin with none."""
        self._families: dict[str, Family] = {}

    def gauge(self, name: str, text: str, value: Any, **labels: Any) -> None:
        """Add a sample of what goes up and down."""
        self._add(name, "gauge", text, value, labels)

    def counter(self, name: str, text: str, value: Any, **labels: Any) -> None:
        """Add a sample of what only rises, until the driver is reloaded."""
        self._add(name, "counter", text, value, labels)

    def _add(self, name: str, kind: str, text: str, value: Any, labels: Labels) -> None:
        family = self._families.setdefault(name, Family(name, kind, text))
        if isinstance(value, (int, float)):  # a dict says why there is no value
            family.samples.append((labels, value))

    def text(self) -> str:
        """Return the whole text."""
        return f"{MARKER}\n" + "".join(family.text() for family in self._families.values())

    def names(self) -> list[str]:
        """Return the names of all families, those without a sample too."""
        return list(self._families)


def exposition(facts: dict[str, Any]) -> str:
    """Return the text for {"time", "seconds", "nvml", "pci", "simulated", "driver", "kernel_log", "mounts"}.

    driver is {"loaded", "library"}, versions or None; mounts maps each mount point of /etc/fstab to whether something
    is mounted there; time is in seconds since 1970, seconds what the reading took.
    """
    return measure(facts).text()


def measure(facts: dict[str, Any]) -> Metrics:
    """Return the metrics for the facts that exposition takes."""
    metrics = Metrics()
    _reading(metrics, facts)
    _driver(metrics, facts)
    for gpu in facts["nvml"]["gpus"]:
        if isinstance(gpu.get("uuid"), str):
            slot = _slot_width(facts["pci"]["gpus"], gpu.get("bus_id"))
            _gpu(metrics, gpu, slot)
            _users(metrics, gpu, facts["owners"])
    _kernel_log(metrics, facts["kernel_log"], {gpu["device"] for gpu in facts["pci"]["gpus"]})
    for place, mounted in facts["mounts"].items():
        metrics.gauge(
            "gpulab_mount_mounted", "Whether a file system of /etc/fstab is mounted.", mounted, mountpoint=place
        )
    return metrics


def _reading(metrics: Metrics, facts: dict[str, Any]) -> None:
    metrics.gauge("gpulab_collector_timestamp_seconds", "When these metrics were read.", facts["time"])
    metrics.gauge("gpulab_collector_duration_seconds", "How long the reading took.", facts["seconds"])
    metrics.gauge("gpulab_node_fenced", "Whether the node is out of service for a change.", facts["fenced"])
    simulated = bool(facts["simulated"] or facts["nvml"]["simulated"])
    metrics.gauge("gpulab_gpus_simulated", "Whether the GPUs are simulated: nothing was measured on a GPU.", simulated)
    for state in STATES:
        metrics.gauge("gpulab_nvml_state", "How NVML answered.", facts["nvml"]["state"] == state, state=state)
    answered = {gpu.get("bus_id"): gpu for gpu in facts["nvml"]["gpus"] if isinstance(gpu.get("bus_id"), str)}
    for device in facts["pci"]["gpus"]:
        gpu = answered.get(device["address"], {})
        labels = {"bus_id": device["address"], **(_identity(gpu) if gpu else {})}
        up = isinstance(gpu.get("uuid"), str)
        metrics.gauge("gpulab_gpu_up", "Whether a GPU on the PCI bus answered in time.", up, **labels)


def _identity(gpu: dict[str, Any]) -> Labels:
    return {
        "uuid": gpu["uuid"] if isinstance(gpu["uuid"], str) else None,
        "index": gpu["index"],
        "model": gpu["name"] if isinstance(gpu["name"], str) else None,
    }


def _driver(metrics: Metrics, facts: dict[str, Any]) -> None:
    loaded, library = facts["driver"]["loaded"], facts["driver"]["library"]
    metrics.gauge(
        "gpulab_driver_info",
        "Versions of the driver: loaded, and of its library on disk.",
        value=1,
        loaded=loaded,
        library=library,
    )
    differ = bool(loaded and library and loaded != library)
    metrics.gauge(
        "gpulab_driver_mismatch",
        "Whether the loaded driver differs from the one on disk: a reboot is needed.",
        differ or facts["nvml"]["state"] == "mismatch",
    )


def _slot_width(devices: list[dict[str, Any]], bus_id: Any) -> Any:
    """Return how many lanes the port above a GPU has; None where nobody knows."""
    bridges = (device["bridge_link"] or {} for device in devices if device["address"] == bus_id)
    return next(bridges, {}).get("max_width")


def _gpu(metrics: Metrics, gpu: dict[str, Any], slot_width: int | None) -> None:
    labels = _identity(gpu)
    _heat_and_power(metrics, gpu, labels)
    _work(metrics, gpu, labels)
    _health(metrics, gpu, labels)
    _links(metrics, gpu, labels, slot_width)


def _users(metrics: Metrics, gpu: dict[str, Any], owners: dict[int, str]) -> None:
    processes = gpu["processes"]
    counted = Counter(owners.get(one["pid"]) for one in processes) if isinstance(processes, list) else {}
    for user, count in counted.items():
        if user is not None:
            metrics.gauge(
                "gpulab_gpu_user_processes", "Processes of a user with a context.", count, user=user, **_identity(gpu)
            )


def _heat_and_power(metrics: Metrics, gpu: dict[str, Any], labels: Labels) -> None:
    heat, power = gpu["temperature"], gpu["power_mw"]
    for sensor in ("gpu", "memory"):
        metrics.gauge("gpulab_gpu_temperature_celsius", "Temperature.", heat[sensor], sensor=sensor, **labels)
    metrics.gauge(
        "gpulab_gpu_temperature_margin_celsius", "Degrees left until the GPU slows down.", heat["margin"], **labels
    )
    for limit in ("slowdown", "shutdown", "gpu_max", "memory_max"):
        metrics.gauge(
            "gpulab_gpu_temperature_limit_celsius",
            "A limit that the board publishes.",
            heat[limit],
            limit=limit,
            **labels,
        )
    metrics.gauge("gpulab_gpu_power_watts", "Power drawn.", _scaled(power["usage"], 1e-3), **labels)
    metrics.counter(
        "gpulab_gpu_energy_joules_total",
        "Energy drawn since the driver was loaded.",
        _scaled(gpu.get("energy_mj"), 1e-3),
        **labels,
    )
    for name, limit in (("enforced", "enforced_limit"), ("set", "limit"), ("default", "default_limit")):
        metrics.gauge("gpulab_gpu_power_limit_watts", "Power limit.", _scaled(power[limit], 1e-3), limit=name, **labels)


def _scaled(value: Any, factor: float) -> Any:
    return value if isinstance(value, dict) or value is None else value * factor


def _work(metrics: Metrics, gpu: dict[str, Any], labels: Labels) -> None:
    for unit in ("gpu", "memory"):
        share = _scaled(gpu["utilization"].get(unit), 0.01)
        metrics.gauge("gpulab_gpu_utilization_ratio", "Share of time in use.", share, unit=unit, **labels)
    memory, clocks = gpu["memory_mib"], gpu["clocks"]
    metrics.gauge("gpulab_gpu_memory_used_bytes", "Memory in use.", _scaled(memory["used"], MIB), **labels)
    metrics.gauge("gpulab_gpu_memory_size_bytes", "Memory of the board.", _scaled(memory["total"], MIB), **labels)
    for clock in ("sm", "memory"):
        metrics.gauge("gpulab_gpu_clock_hertz", "Clock.", _scaled(clocks[clock], 1e6), clock=clock, **labels)
        metrics.gauge(
            "gpulab_gpu_clock_max_hertz", "Highest clock.", _scaled(clocks[f"max_{clock}"], 1e6), clock=clock, **labels
        )
    reasons = clocks["event_reasons"]
    for reason, bit in EVENT_REASONS.items():
        held = reasons if isinstance(reasons, dict) else bool(reasons & bit)
        metrics.gauge("gpulab_gpu_clock_event", "Reasons that limit the clocks now.", held, reason=reason, **labels)
    metrics.gauge("gpulab_gpu_performance_state", "P-state; 0 is the fastest.", clocks["performance_state"], **labels)
    processes = gpu["processes"]
    metrics.gauge(
        "gpulab_gpu_processes",
        "Processes with a context.",
        len(processes) if isinstance(processes, list) else None,
        **labels,
    )


def _health(metrics: Metrics, gpu: dict[str, Any], labels: Labels) -> None:
    for counter, since in COUNTERS.items():
        for kind in ("corrected", "uncorrected"):
            metrics.counter(
                "gpulab_gpu_ecc_errors_total",
                "Memory errors found by ECC.",
                gpu["ecc"][counter][kind],
                type=kind,
                since=since,
                **labels,
            )
    rows, pages = gpu["remapped_rows"], gpu["retired_pages"]
    for kind in ("corrected", "uncorrected"):
        metrics.gauge(
            "gpulab_gpu_remapped_rows", "Rows of memory replaced by spare ones.", rows.get(kind), type=kind, **labels
        )
    metrics.gauge(
        "gpulab_gpu_row_remap_pending", "Whether a row waits for a reset to be replaced.", rows.get("pending"), **labels
    )
    metrics.gauge("gpulab_gpu_row_remap_failure", "Whether a row could not be replaced.", rows.get("failure"), **labels)
    for cause in ("single_bit", "double_bit"):
        metrics.gauge("gpulab_gpu_retired_pages", "Pages of memory retired.", pages[cause], cause=cause, **labels)
    metrics.gauge(
        "gpulab_gpu_recovery_action",
        "Recovery that the driver requests: 0 none, 1 reset, 2 reboot, 3 and 4 drain.",
        gpu["recovery_action"],
        **labels,
    )


def _links(metrics: Metrics, gpu: dict[str, Any], labels: Labels, slot_width: int | None) -> None:
    pcie, links = gpu["pcie"], gpu["nvlink"]["links"]
    width = pcie["max_width"]
    if isinstance(width, int) and slot_width:
        width = min(width, slot_width)
    metrics.gauge("gpulab_gpu_pcie_generation", "Generation of the PCIe link.", pcie["generation"], **labels)
    metrics.gauge(
        "gpulab_gpu_pcie_generation_max", "Generation that GPU and slot share.", pcie["max_generation"], **labels
    )
    metrics.gauge("gpulab_gpu_pcie_width", "Lanes of the PCIe link.", pcie["width"], **labels)
    metrics.gauge("gpulab_gpu_pcie_width_max", "Lanes that GPU and slot share.", width, **labels)
    metrics.counter("gpulab_gpu_pcie_replays_total", "Replayed packets on the PCIe link.", pcie["replays"], **labels)
    for link in links:
        metrics.gauge(
            "gpulab_gpu_nvlink_active", "Whether the NVLink is up.", link["active"], link=link["link"], **labels
        )
    for kind in ("replay", "recovery", "crc_flit", "crc_data"):
        errors = [link["errors"][kind] for link in links if isinstance(link["errors"][kind], int)]
        metrics.counter(
            "gpulab_gpu_nvlink_errors_total",
            "Errors of all NVLinks.",
            sum(errors) if errors else None,
            type=kind,
            **labels,
        )


def _kernel_log(metrics: Metrics, log: dict[str, Any], boards: set[str]) -> None:
    metrics.gauge("gpulab_kernel_log_readable", "Whether the kernel log could be read.", log["readable"])
    counts: dict[tuple[Any, ...], int] = {}
    times: dict[tuple[Any, ...], Any] = {}
    for event in log["events"]:  # those that differ in their text only are one series
        series = (event["kind"], event["xid"], event["bus_id"], judged(event, boards).severity)
        counts[series] = counts.get(series, 0) + event["count"]
        times[series] = max(seconds_of(event["time"]) or 0, times.get(series) or 0) or None
    for series, count in counts.items():
        labels = dict(zip(("kind", "xid", "bus_id", "severity"), series))
        metrics.gauge(
            "gpulab_kernel_log_errors", "Errors of the driver in the kernel log of this boot.", count, **labels
        )
        metrics.gauge(
            "gpulab_kernel_log_error_timestamp_seconds", "When that error was logged last.", times[series], **labels
        )


def seconds_of(time: str | None) -> float | None:
    """Return a time of the journal, as 2026-11-21T08:15:00+0100, in seconds since 1970; None for anything else."""
    try:
        return datetime.strptime(time or "", "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except ValueError:
        return None
