"""Faults of the host, its disks and its container engines; see faults.py."""

from __future__ import annotations

from typing import Any

from unit import machines

from . import nodes
from .faults import OLD, Fault, all_of, every_gpu, put

FENCE = {
    "run": "R1",
    "since": "2026-11-26T21:00:00Z",
    "by": "anna on laptop",
    "reason": "driver 550",
    "until": None,
    "engine": "none",
    "held": False,
    "before": {},
    "overdue": False,
}


def models(days: int = 3, **found: Any) -> Any:
    """Return an injection of a store with one model, and how many days ago a blob was read whole at least."""
    whole = {"name": "acme/tiny", "revision": "a" * 40, "is_there": True, "bytes": 9, "missing": [], "damaged": []}
    store = {"directory": "/srv/models", "answers": True, "unread_days": days}
    return put("model_store", {**store, "repositories": [{**whole, **found}]})


def images(**found: Any) -> Any:
    """Return an injection of a store with an image of work."""
    good = {"name": "torch", "digest": f"sha256:{'a' * 64}", "driver": "", "problem": "", "architecture": "amd64"}
    return put("work_images", {"directory": "/srv/images", "answers": True, "images": [{**good, **found}]})


def tier(**found: Any) -> Any:
    """Return an injection of a tier of storage of which this was found."""
    healthy = {"declared": "/dev/nvme1n1", "mounted": "/dev/nvme1n1", "there": True, "options": []}
    return put("storage", [{"mount": "/scratch", "source": "UUID=1", **healthy, **found}])


def export(**found: Any) -> Any:
    """Return an injection of a tier that is exported, of which the server was found so."""
    return tier(exports=[{"client": "10.1.2.0/24", "live": True, "missing": [], **found}])


PLAN = {
    "driver": {"branch": "580", "version": nodes.DRIVER, "kernel_modules": "open", "persistence": True},
    "container_toolkit": {"engines": [], "packages": []},
}


def old_driver(version: str) -> Any:
    """Return an injection of another driver, in the same version everywhere."""
    return all_of(
        put("containers.cdi.0.library", version),
        put("modules.nvidia.version", version),
        put("driver.library", version),
        put("nvml.driver_version", version),
        *(put(f"kernels.{n}.nvidia_module", version) for n in (0, 1)),
        every_gpu("gsp.version", version),
    )


HOST = [
    Fault(
        "driver below the security floor",
        "l40s",
        old_driver("580.95.05"),
        "driver-security",
        "upgrade_driver",
        "warn",
        says="580.178.04",
    ),
    Fault(
        "driver of a dead branch",
        "t4",
        old_driver("535.261.03"),
        "driver-security",
        "upgrade_driver",
        "warn",
        says="no longer gets security fixes",
    ),
    Fault(
        "another driver than the plan's",
        "l40s",
        lambda _: None,
        "driver-plan",
        "install_driver",
        plan={"driver": {**PLAN["driver"], "version": "580.200.01"}},
    ),
    Fault(
        "another kind of module than the plan's",
        "rtx4090x2",
        lambda _: None,
        "driver-plan",
        "install_driver",
        plan={"driver": {**PLAN["driver"], "kernel_modules": "proprietary"}},
        says="open modules",
    ),
    Fault(
        "container toolkit with known holes",
        "h100x8",
        put("engines.nvidia_container_toolkit", "1.17.7"),
        "container-toolkit",
        "upgrade_software",
        "warn",
    ),
    Fault(
        "planned container toolkit missing",
        "h100x8",
        put("engines.nvidia_container_toolkit", None),
        "container-toolkit",
        "install_software",
        plan={**PLAN, "container_toolkit": {"packages": ["nvidia-container-toolkit"]}},
    ),
    Fault(
        "kernel value not as planned",
        "rtx4090x2",
        put("tuning.values", {"vm.swappiness": "60"}),
        "tuning-values",
        "reboot",
        "warn",
        plan={**PLAN, "tuning": {"values": {"vm.swappiness": "10"}, "limits": {}}},
    ),
    Fault(
        "limit not as planned",
        "rtx4090x2",
        put("tuning.limits.pam.nofile", "1024:1048576"),
        "tuning-limits",
        "configure",
        "warn",
        plan={**PLAN, "tuning": {"values": {}, "limits": {"nofile": "1048576:1048576"}}},
    ),
    Fault(
        "declared swap switched off",
        "rtx4090x2",
        put("tuning.swaps", {"/dev/sda3": ["/dev/sda3", "UUID=5d"]}),
        "tuning-swap",
        "configure",
        "warn",
        plan={**PLAN, "tuning": {"values": {}, "limits": {}, "swap": {"place": "/swapfile", "mib": 16384}}},
        says="the swap /swapfile is not in use",
    ),
    Fault(
        "service not running as planned",
        "h100x8",
        put("services.irqbalance", {"load": "loaded", "active": "inactive", "sub": "dead", "enabled": "disabled"}),
        "tuning-services",
        "start_service",
        "warn",
        plan={**PLAN, "tuning": {"values": {}, "limits": {}, "services": {"irqbalance": True}}},
    ),
    Fault(
        "model gone",
        "l40s",
        models(is_there=False),
        "storage-models",
        "refill_models",
        says="acme/tiny@aaaaaaaa is not in the store",
    ),
    Fault(
        "file of a model gone",
        "l40s",
        models(missing=["a.json"]),
        "storage-models",
        "refill_models",
        says="a.json (GPULAB-M008)",
    ),
    Fault(
        "model damaged",
        "l40s",
        models(damaged=["a.json"]),
        "storage-models",
        "refill_models",
        says="a.json (GPULAB-M002)",
    ),
    Fault(
        "image of work does not start",
        "l40s",
        images(problem="/srv/images is gone"),
        "work-images",
        "refill_images",
        says="torch is not there or does not start",
    ),
    Fault("image of work for another processor", "l40s", images(architecture="arm64"), "work-images", "refill_images"),
    Fault("driver too old for an image", "l40s", images(driver="9999.1"), "work-images", "upgrade_driver"),
    Fault("nights do not come", "l40s", models(days=31), "storage-models", "read_models", "warn", says="31 days ago"),
    Fault("tier not mounted", "l40s", tier(mounted=None), "storage-mounts", "check_storage"),
    Fault("tier mounted from another disk", "l40s", tier(mounted="/dev/sda"), "storage-mounts", "check_storage"),
    Fault("disk of a tier gone", "l40s", tier(there=False), "storage-mounts", "check_storage", says="no longer exists"),
    Fault("tier read-only", "l40s", tier(options=["rw"]), "storage-options", "check_storage", says="read-only"),
    Fault("tier without an option", "l40s", tier(options=["noatime"]), "storage-options", "configure", "warn"),
    Fault("export not live", "l40s", export(live=False), "storage-exports", "check_exports"),
    Fault("export without an option", "l40s", export(missing=["sync"]), "storage-exports", "configure", "warn"),
    Fault("file system full", "v100x4", put("filesystems.0.free_mib", 900), "disks", "free_space", "warn"),
    Fault("file system read-only", "v100x4", put("filesystems.0.read_only", value=True), "disks", "save_disk"),
    Fault(
        "file system that cannot be read",
        "v100x4",
        put("filesystems.0.readable", value=False),
        "disk-errors",
        "save_disk",
    ),
    Fault(
        "errors in ext4",
        "v100x4",
        put("filesystems.0.errors", 3),
        "disk-errors",
        "save_disk",
        "warn",
        says="3 errors in /",
    ),
    Fault(
        "disk with I/O errors",
        "l40s",
        put("kernel_log.disks", [{"device": "nvme1n1", "count": 1, "time": "2026-11-28T03:12:00+00:00"}]),
        "disk-errors",
        "save_disk",
        "warn",
        says="nvme1n1 has failed to read or write 1 time since the node booted, last at 2026-11-28T03:12:00+00:00",
    ),
    Fault("file system without inodes", "l40s", put("filesystems.0.free_inodes", 0), "disks", "free_space", "warn"),
    Fault("file system does not answer", "l40s", put("filesystems.0.responsive", value=False), "disks", "reboot"),
    Fault(
        "file server does not answer",
        "l40s",
        put("filesystems.0", {**machines.FILESYSTEM, "type": "nfs4", "source": "nas:/home", "responsive": False}),
        "disks",
        "check_storage",
        says="nfs4 of nas:/home",
    ),
    Fault(
        "clock not synchronised",
        "h200x8",
        put("system.clock_synchronized", value=False),
        "clock",
        "start_service",
        "warn",
    ),
    Fault(
        "clock three hours behind",
        "l40s",
        put("system.clock_ahead_seconds", -3 * 3600 - 720),
        "clock",
        "set_clock",
        "warn",
        says="3 h 12 min behind the controller's",
    ),
    Fault(
        "clock two minutes ahead",
        "l40s",
        put("system.clock_ahead_seconds", 121),
        "clock",
        "set_clock",
        "warn",
        says="0 h 02 min ahead of the controller's",
    ),
    Fault(
        "a program killed for want of memory",
        "l40s",
        put("kernel_log.killed", [{"command": "python3", "count": 2, "time": None}]),
        "out-of-memory",
        "none",
        "info",
        says="has killed python3 for want of memory 2 times",
    ),
    Fault("a fence left behind", "l40s", put("fence", {**FENCE, "held": True}), "fleet-fence", "lift_fence", "warn"),
    Fault("few processor cores", "h100x8", put("system.cpu_cores", 16), "cpu-cores", "none", "info"),
    Fault("less memory than the GPUs", "b200x8", put("system.memory_mib", 500_000), "host-memory", "none", "info"),
    Fault(
        "a memory module with errors that stayed",
        "h100x8",
        put("hardware.memory.errors.1.uncorrected", 1),
        "memory-errors",
        "replace_memory",
        "warn",
        says="DIMM_B1: 1 uncorrectable",
    ),
    Fault(
        "a memory module with errors that were repaired",
        "l40s",
        put("hardware.memory.errors.0.corrected", 4000),
        "memory-errors",
        "none",
        "info",
    ),
    Fault(
        "/boot without room for a kernel",
        "rtx4090x2",
        put("filesystems", [{**machines.FILESYSTEM, "mount": "/boot", "size_mib": 500, "free_mib": 119}]),
        "boot-space",
        "free_space",
        "warn",
        says="119 MiB free; the next kernel takes 120 MiB",
    ),
    Fault("a reboot is pending", "t4", put("reboot.reasons", ["nouveau is bound"]), "reboot-pending", "reboot", "info"),
]
CONTAINERS = [
    Fault(
        "daemon.json is not JSON",
        "h100x8",
        put("containers.docker.invalid", "Expecting value: line 3"),
        "container-runtime",
        "configure",
        says="cannot restart",
    ),
    Fault(
        "Docker does not know the GPUs",
        "l40s",
        put("containers.docker.runtimes", []),
        "container-runtime",
        "configure",
        "warn",
    ),
    Fault(
        "Docker without any settings", "t4", put("containers.docker", None), "container-runtime", "configure", "warn"
    ),
    Fault(
        "CDI specification of an earlier driver",
        "a100-pcie-x2",
        put("containers.cdi.0.library", OLD),
        "cdi-specification",
        "configure",
        "warn",
    ),
    Fault(
        "CDI specification names missing files",
        "b200x8",
        put("containers.cdi.0.missing", ["/dev/nvidia7"]),
        "cdi-specification",
        "configure",
        "warn",
        says="/dev/nvidia7",
    ),
    Fault(
        "container toolkit runs the container's ldconfig",
        "v100x4",
        put("containers.toolkit_ldconfig", "/sbin/ldconfig"),
        "toolkit-ldconfig",
        "configure",
        "warn",
    ),
]
