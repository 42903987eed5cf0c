"""Facts of a bare machine, complete, as gpu_facts returns them. Every made-up node of the tests is made of these."""

from __future__ import annotations

import json
from typing import Any

LINK = {"width": 16, "max_width": 16, "speed_gts": 16.0, "max_speed_gts": 16.0}
PCI_GPU: dict[str, Any] = {
    "address": "0000:01:00.0",
    "device": "10de:2330",
    "subsystem": "10de:16c1",
    "class": "0302",
    "driver": None,
    "vgpu": False,
    "boot_vga": None,
    "monitors": [],
    "numa_node": None,
    "link": LINK,
    "bridge_link": LINK,
    "redirecting_bridges": [],
    "iommu": None,
    "errors": {"correctable": 0, "nonfatal": 0, "fatal": 0},
}
KERNEL: dict[str, Any] = {
    "version": "6.1.0-50-amd64",
    "running": False,
    "installed": True,
    "next_boot": True,
    "headers": "/usr/src/linux-headers-6.1.0-50-amd64",
    "markers": [],
    "compiler": None,
    "dkms": [],
    "nvidia_module": None,
    "nvidia_module_file": None,
    "nvidia_module_flavour": None,
    "nvidia_module_signer": None,
    "nvidia_module_accepted": None,
    "initramfs": None,
}
FILESYSTEM: dict[str, Any] = {
    "mount": "/",
    "type": "ext4",
    "source": "/dev/nvme0n1p2",
    "read_only": False,
    "responsive": True,
    "readable": True,
    "errors": 0,
    "size_mib": 500_000,
    "free_mib": 100_000,
    "free_inodes": 1_000_000,
    "rotational": False,
    "nvme": True,
}
INTERFACE: dict[str, Any] = {
    "name": "enp1s0f0np0",
    "kind": "ethernet",
    "link_layer": "ethernet",
    "driver": "mlx5_core",
    "speed_gbps": 100.0,
    "mtu": 9000,
    "up": True,
    "default_route": True,
    "ipv4": "10.1.2.3",
}
DISK: dict[str, Any] = {
    "name": "nvme0n1",
    "model": "SAMSUNG MZQL21T9HCJR-00A07",
    "gb": 1920,
    "class": "nvme",
    "link": {"width": 4, "max_width": 4, "speed_gts": 16.0, "max_speed_gts": 16.0},
    "port_link": {"width": 4, "max_width": 4, "speed_gts": 16.0, "max_speed_gts": 32.0},
}
MEMORY_MODULE = {"slot": "DIMM_A1", "mib": 32768, "type": "DDR5", "mts": 4800, "rated_mts": 4800}
NOT_LOADED = {"loaded": False, "version": None}
NO_EXPORTER = {"installed": False, "listen": None, "answers": None, "serves_gpus": None}
BARE: dict[str, Any] = {
    "schema": 1,
    "simulated": False,
    "system": {
        "id": "debian",
        "version": "12",
        "codename": "bookworm",
        "name": "Debian GNU/Linux 12 (bookworm)",
        "family": "debian",
        "architecture": "x86_64",
        "hostname": "node1",
        "kernel": KERNEL["version"],
        "virtualization": "none",
        "container": False,
        "python": "3.11.2",
        "secure_boot": "disabled",
        "mok_enrolled": None,
        "mok_pending": None,
        "cpu_cores": 64,
        "numa_nodes": 1,
        "memory_mib": 65536,
        "boot_id": "5f1c",
        "package_state": "ok",
        "packages_unfinished": [],
        "clock_synchronized": True,
        "clock_ahead_seconds": 0,
        "clock_services": ["chrony.service"],
        "initramfs_programs": ["update-initramfs"],
    },
    "pci": {"gpus": [PCI_GPU], "lent": [], "other_gpus": [], "nvswitches": []},
    "hardware": {
        "cpu": {"l3_mib": 128, "base_mhz": 2500, "boost_mhz": 3700, "boosts": True},
        "memory": {
            "modules": [MEMORY_MODULE, {**MEMORY_MODULE, "slot": "DIMM_B1"}],
            "ecc": True,
            "errors": [{"module": name, "corrected": 0, "uncorrected": 0} for name in ("DIMM_A1", "DIMM_B1", "mc0")],
        },
        "pcie4_lanes": 64,
        "disks": [DISK],
        "kernel_mib": 60,
    },
    "kernels": [{**KERNEL, "running": True}],
    "modules": {"nvidia": NOT_LOADED, "nouveau": NOT_LOADED, "nova_core": NOT_LOADED, "nvidia_peermem": NOT_LOADED},
    "nouveau": {"blacklisted": False, "nova_blacklisted": False, "files": [], "bound": [], "unused": False},
    "forbidden": {"now": [], "next_boot": []},
    "module_options": {"wanted": {}, "running": {}, "new": False},
    "driver": {
        "packages": [],
        "holds": [],
        "holds_foreign": [],
        "runfile": None,
        "runfile_own": False,
        "in_container": False,
        "library": None,
        "library_path": None,
        "module_on_disk": None,
        "display": {},
        "former": {},
    },
    "cuda": {"toolkits": [], "default": None, "compat": []},
    "libraries": {"cudnn": [], "nccl": [], "tensorrt": []},
    "nvml": {
        "state": "absent",
        "error": None,
        "simulated": None,
        "driver_version": None,
        "nvml_version": None,
        "cuda_version": None,
        "gpus": [],
        "peers": [],
    },
    "users_of_gpus": {"state": "idle", "who": [], "sessions": []},
    "filesystems": [FILESYSTEM],
    "engines": {
        "docker": None,
        "podman": None,
        "containerd": None,
        "nvidia_container_toolkit": None,
        "docker_rivals": [],
    },
    "containers": {
        "docker": None,
        "containerd": None,
        "cdi": [],
        "toolkit_ldconfig": None,
        "toolkit_no_cgroups": False,
        "toolkit_root": None,
        "toolkit_root_there": True,
        "selinux": None,
    },
    "network": [],
    "infiniband": [],
    "ofed": False,
    "imex": {"nodes": [], "own": False, "state": None, "channel": False},
    "nccl": [],
    "nccl_files": {},
    "nccl_own": {},
    "group": {
        "hosts": [],
        "ephemeral_ports": [32768, 60999],
        "ssh_ports": [22],
        "firewalls": [],
        "firewall": None,
        "own_firewall": {"wanted": False, "loaded": None},
    },
    "monitoring": {
        "addresses": ["10.1.2.3", "127.0.0.1"],
        "routed_address": "10.1.2.3",
        "exporter": {**NO_EXPORTER, "arguments": []},
        "dcgm_exporter": NO_EXPORTER,
        "collector": None,
    },
    "limits": {"services": {}, "sessions": {}, "shared_memory_mib": 32768},
    "services": {},
    "long_steps": [],
    "fence": None,
    "slurm": None,
    "accounts": None,
    "directory": None,
    "model_store": None,
    "work_images": None,
    "kernel_log": {"readable": True, "events": [], "disks": [], "killed": []},
    "storage": [],
    "own_files": [],
    "gpu_settings": {},
    "tuning": {
        "values": {},
        "asked": {},
        "later": {},
        "limits": {"pam": {}, "systemd": {}},
        "kernel_arguments": {"wanted": [], "in_menu": True, "running": []},
        "grub": True,
        "boot_entries": {},
        "tuned_profile": None,
        "swaps": {},
    },
    "data_loading": None,
    "reboot": {"reasons": [], "loadable": False},
}


def machine(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the facts of a bare machine with changes: a dict changes the fields that it names, all else replaces."""
    return changed(BARE, changes or {})


def changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return facts with changes, as machine()."""
    facts: dict[str, Any] = unshared(_merged(base, changes))
    return facts


def _merged(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{name: _merged(old.get(name), value) for name, value in new.items()}}
    return new


def unshared(data: Any) -> Any:
    """Return a copy in which no two parts are one object."""
    return json.loads(json.dumps(data))
