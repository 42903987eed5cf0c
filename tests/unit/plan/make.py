"""Facts of made-up nodes, as gpu_facts returns them."""

from __future__ import annotations

from datetime import date

TODAY = date(2026, 11, 20)
SYSTEMS = {
    "debian-12": ("debian", "12", "6.1.0-50-amd64"),
    "debian-13": ("debian", "13", "6.12.94+deb13-amd64"),
    "ubuntu-22.04": ("ubuntu", "22.04", "5.15.0-130-generic"),
    "ubuntu-24.04": ("ubuntu", "24.04", "6.8.0-51-generic"),
    "ubuntu-26.04": ("ubuntu", "26.04", "7.0.0-31-generic"),
    "rhel-9": ("rhel", "9.5", "5.14.0-503.14.1.el9_5.x86_64"),
    "rhel-10": ("rhel", "10.0", "6.12.0-55.9.1.el10_0.x86_64"),
}


def kernel(version, *, markers=(), headers=True, installed=True):
    return {
        "version": version,
        "running": False,
        "installed": installed,
        "next_boot": True,
        "headers": f"/usr/src/linux-headers-{version}" if headers else None,
        "markers": list(markers),
        "dkms": [],
        "nvidia_module": None,
        "nvidia_module_flavour": None,
        "initramfs": None,
    }


def facts(platform="debian-12", gpus=("10de:2330",), *, architecture="x86_64", kernels=None, running=None, **system):
    """Return the facts of a node; running is the kernel that runs, by default the platform's own and only one."""
    name, version, default_kernel = SYSTEMS[platform]
    running = running or default_kernel
    return {
        "schema": 1,
        "simulated": False,
        "system": {
            "id": name,
            "version": version,
            "name": f"{name} {version}",
            "family": "redhat" if name == "rhel" else "debian",
            "architecture": architecture,
            "kernel": running,
            "container": False,
            "secure_boot": "disabled",
            "mok_enrolled": None,
            "mok_pending": None,
            "virtualization": "none",
            "memory_mib": 65536,
            "numa_nodes": 1,
            **system,
        },
        "pci": {
            "gpus": [
                {"address": f"0000:{index:02x}:00.0", "device": device, "class": "0302", "driver": None}
                for index, device in enumerate(gpus)
            ],
            "nvswitches": [],
        },
        "kernels": [kernel(running)] if kernels is None else kernels,
        "modules": {"nvidia": {"loaded": False, "version": None}, "nouveau": {"loaded": False, "version": None}},
        "nouveau": {"unused": False},
        "driver": {"packages": [], "runfile": None, "runfile_own": False},
        "filesystems": [{"mount": "/", "type": "ext4", "free_mib": 100_000}],
        "network": [],
        "infiniband": [],
        "services": {},
        "imex": {"nodes": [], "own": False, "state": None, "channel": False},
        "nccl_own": {},
        "storage": [],
        "monitoring": {
            "addresses": ["127.0.0.1", "10.1.2.3"],
            "routed_address": "10.1.2.3",
            "exporter": {"installed": False, "arguments": [], "listen": None, "answers": None, "serves_gpus": None},
            "dcgm_exporter": {"installed": False, "listen": None, "answers": None, "serves_gpus": None},
            "collector": None,
        },
        "tuning": {
            "grub": True,
            "boot_entries": {},
            "later": {},
            "kernel_arguments": {"wanted": [], "in_menu": True, "running": []},
        },
        "engines": {
            "docker": None,
            "podman": None,
            "containerd": None,
            "nvidia_container_toolkit": None,
            "docker_rivals": [],
        },
    }
