"""Nodes that pass the preflight, to be spoilt by one fact at a time."""

from __future__ import annotations

from ansible_collections.gpulab.node.plugins.action.preflight import ARGUMENTS
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.preflight import examine

from unit import machines

GIB = 1024
LIMITS = {name: spec.get("default") for name, spec in ARGUMENTS.items()}
DRIVER = {"source": "nvidia", "packages": [], "conflicting_packages": [], "remove_packages": [], "display": False}
PLAN = {"driver": DRIVER, "disk": {"/": 2500, "/boot": 150}, "gpu_settings": {"settings": {}}}
ROOT_DISK = machines.FILESYSTEM
NODE = machines.machine(
    {
        "system": {"memory_mib": 512 * GIB},
        "pci": {
            "gpus": [{**machines.PCI_GPU, "address": f"0000:{bus}:00.0", "device": "10de:2684"} for bus in ("01", "02")]
        },
        "filesystems": [
            ROOT_DISK,
            {**ROOT_DISK, "mount": "/boot"},
            {**ROOT_DISK, "mount": "/data", "source": "/dev/sda1", "nvme": False, "size_mib": 4_000_000},
        ],
    }
)


def metal(hardware):
    """Return facts of a node with these changed of the machine's parts."""
    return machines.changed(NODE, {"hardware": hardware})


def node(*, root=None, data=None, gpu=None, driver=None, of=NODE, **system):
    """Return facts with these changed: of the system, the root and data file systems, each GPU, the driver library."""
    facts = machines.unshared(of)
    facts["system"].update(system)
    facts["filesystems"][0].update(root or {})
    facts["filesystems"][2].update(data or {})
    for device in facts["pci"]["gpus"]:
        device.update(gpu or {})
    facts["driver"]["library"] = driver
    return facts


def answering(facts, *, total=None, watts=None):
    """Return the facts with NVML answering for each GPU: MiB of memory, and the power limit enforced."""
    unread = {"unsupported": "NOT_SUPPORTED"}
    gpus = [
        {
            "bus_id": device["address"],
            "memory_mib": {"total": unread if total is None else total},
            "power_mw": {"enforced_limit": unread if watts is None else watts * 1000},
        }
        for device in facts["pci"]["gpus"]
    ]
    return {**facts, "nvml": {"state": "ok", "gpus": gpus}}


def found(facts, *, plan=PLAN, **limits):
    """Return (severity, code) of everything found."""
    findings = examine(facts, plan, {**LIMITS, **limits}, catalog.load())
    return [(finding.severity, finding.refusal.code) for finding in findings]


def told(facts, *, plan=PLAN, **limits):
    """Return the texts of everything found."""
    return [str(finding.refusal) for finding in examine(facts, plan, {**LIMITS, **limits}, catalog.load())]
