# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a recording has of a node: each field with its form, or LEFT_OUT. A field that is not here is refused.

An object is a dict, a list has the form of its items, Each is an object whose names are data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.gpulab.node.plugins.module_utils.facts.system import HYPERVISORS
from ansible_collections.gpulab.node.plugins.module_utils.nvml import gpu as nvml
from ansible_collections.gpulab.node.plugins.module_utils.nvml import query
from ansible_collections.gpulab.node.plugins.plugin_utils.recording import forms
from ansible_collections.gpulab.node.plugins.plugin_utils.recording.forms import (
    ADDRESS,
    CAPABILITY,
    GPU_NAME,
    NVML_NAME,
    PCI_CLASS,
    PCI_ID,
    VERSION,
    flag,
    number,
    said,
    truth,
    word,
)

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.recording.forms import Form


class Each(NamedTuple):
    """An object whose names are data: the form of a name, and that of what it names."""

    name: Form
    value: Any


def _numbers(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, number)


def _flags(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, flag)


def _left_out(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, LEFT_OUT)


LEFT_OUT = object()
KERNEL_DRIVER = word(
    *("nvidia", "nouveau", "nova_core", "NovaCore", "nvidia-nvswitch", "nvidia-vgpu-vfio", "nvgrace-gpu-vfio-pci"),
    *(
        "vfio-pci",
        "pci-stub",
        "pciback",
        "xen-pciback",
        "amdgpu",
        "radeon",
        "i915",
        "xe",
        "ast",
        "mgag200",
        "virtio-pci",
    ),
)
LINK = _numbers("width", "max_width", "speed_gts", "max_speed_gts")
DISPLAY = {"boot_vga": flag, "monitors": LEFT_OUT}
PCI = {
    "gpus": [
        {
            "address": ADDRESS,
            "device": PCI_ID,
            "subsystem": PCI_ID,
            "class": PCI_CLASS,
            "driver": KERNEL_DRIVER,
            "vgpu": flag,
            **DISPLAY,
            "numa_node": number,
            "link": LINK,
            "bridge_link": LINK,
            "redirecting_bridges": [ADDRESS],
            "iommu": word("identity", "DMA", "DMA-FQ", "DMA-FQ-LAZY", "auto", "blocked", "unmanaged"),
            "errors": _numbers("correctable", "nonfatal", "fatal"),
        }
    ],
    "lent": [{"address": ADDRESS, "device": PCI_ID, "driver": KERNEL_DRIVER}],
    "other_gpus": [
        {"address": ADDRESS, "device": PCI_ID, "driver": KERNEL_DRIVER, "maker": word("AMD", "Intel"), **DISPLAY}
    ],
    "nvswitches": [{"address": ADDRESS, "device": PCI_ID, "driver": KERNEL_DRIVER}],
}
SYSTEM = {
    "id": word("debian", "ubuntu", "rhel", "rocky", "almalinux", "centos", "fedora", "ol", "amzn", "sles", "dgx-os"),
    "version": VERSION,
    "family": word("debian", "redhat"),
    "architecture": word("x86_64", "aarch64"),
    "hostname": forms.token("node{}"),
    "kernel": VERSION,
    "virtualization": word(
        *("none", "vm-other", *dict(HYPERVISORS).values()),
        *("docker", "podman", "oci", "lxc", "lxc-libvirt", "systemd-nspawn", "container-other", "wsl", "kubernetes"),
    ),
    **_flags("container"),
    "secure_boot": word("enabled", "disabled", "unsupported", "unknown"),
    **_numbers("cpu_cores", "numa_nodes", "memory_mib"),
    **_left_out("codename", "name", "python", "mok_enrolled", "mok_pending", "boot_id", "package_state"),
    **_left_out(
        "packages_unfinished", "clock_synchronized", "clock_ahead_seconds", "clock_services", "initramfs_programs"
    ),
}
HARDWARE = {
    "cpu": {**_numbers("l3_mib", "base_mhz", "boost_mhz"), "boosts": flag},
    "memory": {
        "modules": [
            {
                "slot": LEFT_OUT,
                "type": word("DDR3", "DDR4", "DDR5", "LPDDR4", "LPDDR5", "HBM", "HBM2"),
                **_numbers("mib", "mts", "rated_mts"),
            }
        ],
        "ecc": flag,
        "errors": [{"module": LEFT_OUT, **_numbers("corrected", "uncorrected")}],
    },
    "pcie4_lanes": number,
    **_left_out("disks", "kernel_mib"),
}
KERNEL = {
    "version": VERSION,
    **_flags("running", "installed", "next_boot"),
    "nvidia_module": VERSION,
    "nvidia_module_flavour": word("open", "proprietary"),
    **_left_out(
        "headers",
        "markers",
        "compiler",
        "dkms",
        "nvidia_module_file",
        "nvidia_module_signer",
        "nvidia_module_accepted",
        "initramfs",
    ),
}
MODULE = {"loaded": flag, "version": VERSION}
DRIVER = {
    **dict.fromkeys(("library", "module_on_disk"), VERSION),
    **_left_out(
        "packages",
        "holds",
        "holds_foreign",
        "runfile",
        "runfile_own",
        "in_container",
        "library_path",
        "display",
        "former",
    ),
}
ECC_ERRORS = _numbers("corrected", "uncorrected", "dram_uncorrected", "sram_uncorrected")
MIG_INSTANCE = {
    **dict.fromkeys(("name", "profile"), forms.MIG_PROFILE),
    "id": number,
    "placement": [number],
    "compute_slices": [number],
    "devices": [{"index": number, "uuid": forms.uuid}],
}
GPU = {
    "index": number,
    "name": GPU_NAME,
    "uuid": forms.uuid,
    "serial": forms.token("{:013d}"),
    "bus_id": ADDRESS,
    **dict.fromkeys(("device", "subsystem"), PCI_ID),
    "vbios": forms.VBIOS,
    "board_part_number": forms.PART_NUMBER,
    "minor": number,
    "architecture": word(*nvml.ARCHITECTURES.values(), pattern=r"architecture \d{1,4}"),
    "compute_capability": CAPABILITY,
    "numa_node": number,
    "pcie": _numbers("generation", "max_generation", "gpu_max_generation", "width", "max_width", "replays"),
    "memory_mib": _numbers("total", "used", "bar1"),
    "temperature": {
        **_numbers("gpu", "memory", "margin", "shutdown", "slowdown", "memory_max", "gpu_max"),
        **_numbers("shutdown_tlimit", "slowdown_tlimit", "memory_max_tlimit", "gpu_max_tlimit"),
    },
    "power_mw": {
        **_numbers("usage", "limit", "enforced_limit", "default_limit"),
        "constraints": _numbers("min", "max"),
    },
    "ecc": {
        "mode": _flags("enabled", "pending"),
        "default": flag,
        "volatile": ECC_ERRORS,
        "aggregate": ECC_ERRORS,
        "sram_threshold_exceeded": flag,
    },
    **_flags("persistence", "accounting", "c2c"),
    **_numbers("compute_mode", "recovery_action", "energy_mj"),
    "mig": _flags("enabled", "pending"),
    "mig_profiles": [
        {"name": forms.MIG_PROFILE, **_numbers("id", "slices", "count", "memory_mib"), "placements": [[number]]}
    ],
    "mig_instances": [MIG_INSTANCE],
    "clocks": _numbers("sm", "memory", "max_sm", "max_memory", "performance_state", "event_reasons"),
    "remapped_rows": {
        **_numbers("corrected", "uncorrected"),
        **_flags("pending", "failure"),
        "banks": _numbers("max", "high", "partial", "low", "none"),
    },
    "retired_pages": {**_numbers("single_bit", "double_bit"), "pending": flag},
    "nvlink": {
        "count": number,
        "links": [
            {
                **_numbers("link", "version", "speed_mbps"),
                "active": flag,
                "errors": _numbers(*nvml.NVLINK_COUNTERS),
            }
        ],
    },
    "fabric": {
        "state": word(*nvml.FABRIC_STATES.values(), pattern=r"state \d{1,4}"),
        "status": NVML_NAME,
        "cluster": forms.token("{:032d}"),
        **_numbers("clique", "health_mask", "health_summary"),
    },
    "licence": {"product": said, "licensed": flag},
    "inforom": {"version": forms.INFOROM, "valid": flag},
    "gsp": {"mode": _flags("enabled", "default"), "version": VERSION},
    "utilization": _numbers("gpu", "memory"),
    "processes": [{"pid": forms.process, "memory_mib": number}],
    # of one that is lost
    **dict.fromkeys(("error", "unsupported"), NVML_NAME),
    "code": number,
}
NVML = {
    "state": word("ok", "absent", "not_loaded", "mismatch", "error", "no_devices", "unresponsive"),
    "error": {"code": number, "text": said},
    "simulated": truth,
    **dict.fromkeys(("driver_version", "nvml_version", "cuda_version"), VERSION),
    "gpus": [GPU],
    "peers": [
        {
            "gpus": [number],
            "ancestor": word(*query.TOPOLOGY.values()),
            **dict.fromkeys(("read", "write", "nvlink"), word(*query.P2P_STATUS.values())),
        }
    ],
}
FACTS = {
    "schema": number,
    "simulated": truth,
    "system": SYSTEM,
    "pci": PCI,
    "hardware": HARDWARE,
    "kernels": [KERNEL],
    "modules": {
        **dict.fromkeys(("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem"), MODULE),
        **dict.fromkeys(("nouveau", "nova_core"), MODULE),
    },
    "driver": DRIVER,
    "nvml": NVML,
    "infiniband": [
        {
            "device": forms.token("adapter{}"),
            **_numbers("port", "rate_gbps", "mtu", "downed", "hours"),
            "card": PCI_ID,
            "opens": flag,
            "lossless": [number],
            **_left_out("interface", "gids"),
            "link_layer": word("infiniband", "ethernet", "unspecified"),
            "state": word("down", "init", "armed", "active", "active_defer"),
            "physical_state": forms.text(
                "linkup|disabled|polling|sleep|linkerrorrecovery|phy test|configuration training"
            ),
        }
    ],
    "kernel_log": {"readable": flag, "events": [forms.event], **_left_out("disks", "killed")},
    **_left_out(
        "nouveau", "forbidden", "module_options", "cuda", "libraries", "users_of_gpus", "filesystems", "engines"
    ),
    **_left_out(
        "containers", "network", "ofed", "imex", "nccl", "nccl_files", "nccl_own", "group", "monitoring", "limits"
    ),
    **_left_out("services", "long_steps", "fence", "slurm", "accounts", "directory", "model_store", "work_images"),
    **_left_out("storage", "own_files", "gpu_settings", "tuning", "data_loading", "reboot", "receipts"),
}
ENDED = {
    "state": word("done", "failed", "late", "died", "skipped"),
    "reason": said,
    "seconds": number,
    "error": {"call": said, "code": number, "name": said},
    **_flags("applies", "lacks_pytorch"),
    "output": LEFT_OUT,
}
TRIED = {
    **ENDED,
    "simulation": LEFT_OUT,
    **_numbers("elements", "bytes", "wrong", "to_device_gbs", "on_device_gbs", "to_host_gbs", "memory_gbs"),
    **_numbers("runs", "minutes", "samples", "hottest_celsius", "least_margin", "slowest_sm_mhz", "highest_watts"),
    **_numbers("event_reasons", "size", *(f"{name}_tflops" for name in ("bf16", "fp16", "tf32", "fp32", "fp8"))),
    "intact": flag,
    "load": forms.text(r"[a-z]{2,4}\d{0,2} matmul|triad"),
    **dict.fromkeys(("torch", "cuda"), VERSION),
}
ERRORS = {
    **_numbers("uncorrected", "remapped_rows"),
    "kernel_log": Each(forms.LOGGED, number),
}
MEASUREMENTS = {
    "schema": number,
    "level": word("quick", "standard", "burn-in"),
    "simulated": truth,
    "rates_declared": flag,
    "gpus": [
        {
            "index": number,
            "name": GPU_NAME,
            "uuid": forms.uuid,
            "bus_id": ADDRESS,
            "device": PCI_ID,
            "tests": dict.fromkeys(("smoke", "copies", "memory", "matmul", "burn_in"), TRIED),
            "errors": {"before": ERRORS, "after": ERRORS},
            "simulation": LEFT_OUT,
        }
    ],
    "peer_copies": {
        **ENDED,
        "pairs": [{**ENDED, **_numbers("from", "to", "gbs", "mib", "wrong_mib"), "straight": flag}],
        "taken": LEFT_OUT,
    },
    "all_reduce": {**ENDED, **_numbers("gpus", "all_reduce_gbs", "wrong"), "by": LEFT_OUT},
    **_left_out("python", "container", "mounts", "data_loading", "nodes_all_reduce", "nodes_rdma"),
}
FRAMEWORK = {
    **dict.fromkeys(("python", "version", "cuda"), VERSION),
    "architectures": [forms.TARGET],
    **dict.fromkeys(("failure", "gpu_failure"), said),
    "cpu_matmul": flag,
    "seconds": number,
    "gpus": [{"name": GPU_NAME, "compute_capability": CAPABILITY, "matmul": flag}],
    **_left_out("unset", "broken"),
}
PROGRAMS = {
    "frameworks": dict.fromkeys(("pytorch", "tensorflow", "jax"), FRAMEWORK),
    "training": {"seen": flag, "amp_loss": [number], **_numbers("compiled_differs", "samples_per_second")},
    "compiled": Each(VERSION, said),
    "metrics": number,
}
PARTS: dict[str, Any] = {"facts": FACTS, "measurements": MEASUREMENTS, "programs": PROGRAMS}
