"""Facts of made-up nodes, as gpu_facts returns them."""

from __future__ import annotations

from datetime import date

from unit import machines

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
        **machines.KERNEL,
        "version": version,
        "installed": installed,
        "headers": f"/usr/src/linux-headers-{version}" if headers else None,
        "markers": list(markers),
    }


def facts(platform="debian-12", gpus=("10de:2330",), *, architecture="x86_64", kernels=None, running=None, **system):
    """Return the facts of a node; running is the kernel that runs, by default the platform's own and only one."""
    name, version, default_kernel = SYSTEMS[platform]
    running = running or default_kernel
    return machines.machine(
        {
            "system": {
                "id": name,
                "version": version,
                "name": f"{name} {version}",
                "family": "redhat" if name == "rhel" else "debian",
                "architecture": architecture,
                "kernel": running,
                **system,
            },
            "pci": {
                "gpus": [
                    {**machines.PCI_GPU, "address": f"0000:{index:02x}:00.0", "device": device}
                    for index, device in enumerate(gpus)
                ],
            },
            "kernels": [kernel(running)] if kernels is None else kernels,
            "monitoring": {"addresses": ["127.0.0.1", "10.1.2.3"]},
        }
    )
