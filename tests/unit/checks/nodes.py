"""Healthy nodes as gpu_facts would describe them; the only place in these tests that knows how facts are laid out.

Values per board: captures of nvidia-smi -q where they are public, else data sheets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node
from ansible_collections.gpulab.node.plugins.plugin_utils.proof import catalog

from unit import machines

DRIVER = "580.178.04"
KERNEL, NEXT_KERNEL = "6.1.0-49-amd64", "6.1.0-50-amd64"
ABSENT = {"unsupported": "NOT_SUPPORTED"}
CATALOG = catalog()

# Of an A100 with 40 GB, as nvidia-smi mig -lgip and -lgipp list them: name, id, slices, how many fit, MiB, size, starts
MIG_PROFILES = [
    {
        "name": name,
        "id": number,
        "slices": slices,
        "count": count,
        "memory_mib": mib,
        "placements": [[start, size] for start in starts],
    }
    for name, number, slices, count, mib, size, starts in (
        ("1g.5gb", 19, 1, 7, 4864, 1, range(7)),
        ("2g.10gb", 14, 2, 3, 9856, 2, (0, 2, 4)),
        ("3g.20gb", 9, 3, 2, 20096, 4, (0, 4)),
        ("4g.20gb", 5, 4, 1, 20096, 4, (0,)),
        ("7g.40gb", 0, 7, 1, 40320, 8, (0,)),
        ("1g.5gb+me", 20, 1, 1, 4864, 1, range(7)),
        ("1g.10gb", 15, 1, 4, 9856, 2, (0, 2, 4, 6)),
    )
]


MODELS: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("boards.yml").read_text(encoding="utf-8"))


def healthy(model: str) -> dict[str, Any]:
    """Return the facts of a provisioned, healthy and idle node with these GPUs."""
    spec = MODELS[model]
    addresses = [f"0000:{0x19 + 0x10 * n:02x}:00.0" for n in range(spec["count"])]
    return machines.machine(
        {
            "system": {"kernel": KERNEL, "memory_mib": 2 * spec["memory"] * spec["count"]},
            "pci": {
                "gpus": [_pci(spec, address) for address in addresses],
                "nvswitches": [
                    {"address": f"0000:0{n}:00.0", "device": "10de:22a3", "driver": None}
                    for n in range(spec.get("nvswitches", 0))
                ],
            },
            "kernels": [_kernel(spec, KERNEL, running=True), _kernel(spec, NEXT_KERNEL, next_boot=True)],
            "modules": {
                "nvidia": {"loaded": True, "version": DRIVER},
                "nvidia_peermem": {"loaded": bool(spec.get("nvswitches")), "version": None},
            },
            "nouveau": {"blacklisted": True, "nova_blacklisted": True},
            "driver": {
                "packages": [{"name": "nvidia-driver", "version": f"{DRIVER}-1", "source": "nvidia"}],
                "library": DRIVER,
                "module_on_disk": DRIVER,
            },
            "nvml": {
                "state": "ok",
                "error": None,
                "driver_version": DRIVER,
                "nvml_version": f"13.{DRIVER}",
                "cuda_version": "13.0",
                "gpus": [_gpu(spec, index, address) for index, address in enumerate(addresses)],
                "peers": [_peers(spec, a, b) for a in range(spec["count"]) for b in range(a + 1, spec["count"])],
            },
            "filesystems": [{**machines.FILESYSTEM, "free_mib": 200000, "size_mib": 400000, "free_inodes": 10**7}],
            "cuda_compiled": None,
            "container_started": {"seconds": 1.2, "problem": None},
            "engines": {
                "docker": "28.0.1",
                "podman": None,
                "containerd": "1.7.27",
                "nvidia_container_toolkit": "1.19.1",
                "docker_rivals": ["runc"],
            },
            "services": {}
            if spec.get("rack")
            else {
                "nvidia-fabricmanager": {"load": "loaded", "active": "active", "sub": "running", "enabled": "enabled"},
            },
            "containers": {
                "docker": {
                    "invalid": None,
                    "runtimes": ["nvidia"],
                    "default_runtime": None,
                    "cdi": None,
                    "cdi_directories": None,
                    "selinux": False,
                    "file": "/etc/docker/daemon.json",
                    "missing_programs": {},
                },
                "cdi": [
                    {
                        "path": "/var/run/cdi/nvidia.yaml",
                        "kind": "nvidia.com/gpu",
                        "library": DRIVER,
                        "missing": [],
                        "devices": ["all"],
                        "mig_devices": [],
                    }
                ],
                "toolkit_ldconfig": "@/sbin/ldconfig",
            },
            "imex": {"nodes": ["10.1.2.3", "10.1.2.4"], "own": True, "state": "READY", "channel": True}
            if spec.get("rack")
            else {},
            "libraries": {"cudnn": ["9.14.0"], "nccl": ["2.28.3"], "tensorrt": []},
            "network": [machines.INTERFACE],
            "nccl": [{"name": "NCCL_SOCKET_IFNAME", "value": "=enp1s0f0np0", "file": "/etc/nccl.conf"}],
            "limits": {
                "services": {"memlock": "unlimited", "nofile": 524288},
                "sessions": {"memlock": "unlimited", "nofile": 1048576},
                "shared_memory_mib": spec["memory"] * spec["count"],
            },
            "infiniband": [_port(number) for number in range(2 * spec.get("nvswitches", 0))],
            "group": {
                "hosts": [
                    {"address": "10.1.2.3", "own": True, "names": ["node1"], "leads": {"node1": "10.1.2.3"}},
                    {"address": "10.1.2.4", "own": False, "names": ["node2"], "leads": {"node2": "10.1.2.4"}},
                ],
                "own_firewall": {"wanted": True, "loaded": True},
            },
            "monitoring": {
                "exporter": {
                    "installed": True,
                    "listen": "10.1.2.3:9100",
                    "answers": True,
                    "serves_gpus": True,
                },
                "dcgm_exporter": {
                    "installed": True,
                    "listen": "10.1.2.3:9400",
                    "answers": True,
                    "serves_gpus": True,
                },
                "collector": {"interval_seconds": 30, "age_seconds": 12},
            },
            "tuning": {
                "values": {"vm.swappiness": "10", "vm.max_map_count": "1048576", "cpu_governor": None},
                "limits": {who: {"nofile": "1048576:1048576"} for who in ("pam", "systemd")},
                "kernel_arguments": {"running": ["quiet"]},
            },
        }
    )


def _active(spec: dict[str, Any]) -> int:
    return int(spec.get("active", spec.get("links", 0)))


def _port(number: int) -> dict[str, Any]:
    return {
        "device": f"mlx5_{number}",
        "port": 1,
        "link_layer": "infiniband",
        "state": "active",
        "physical_state": "linkup",
        "rate_gbps": 400.0,
        "card": "15b3:1021",
        "interface": None,
        "opens": True,
        "mtu": 4096,
        "gids": [{"index": 0, "gid": f"fe80::{number}", "type": "IB/RoCE v1", "ipv4": None}],
        "downed": 0,
        "hours": 240.0,
        "lossless": None,
    }


def _pci(spec: dict[str, Any], address: str) -> dict[str, Any]:
    width, speed = spec.get("width", spec.get("slot", 16)), {3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}[spec["generation"]]
    return {
        "address": address,
        "device": spec["device"],
        "subsystem": "10de:16c1",
        "class": "0302",
        "driver": "nvidia",
        "vgpu": False,
        "boot_vga": None,
        "monitors": [],
        "numa_node": 0,
        "link": {
            "width": width,
            "max_width": 16,
            "speed_gts": 2.5 if spec.get("idle") else speed,
            "max_speed_gts": speed,
        },
        "bridge_link": {"width": width, "max_width": spec.get("slot", 16), "speed_gts": speed, "max_speed_gts": speed},
        "redirecting_bridges": [],
        "iommu": "identity",
        "errors": {"correctable": 0, "nonfatal": 0, "fatal": 0},
    }


def _kernel(spec: dict[str, Any], version: str, *, running: bool = False, next_boot: bool = False) -> dict[str, Any]:
    return {
        **machines.KERNEL,
        "version": version,
        "running": running,
        "next_boot": next_boot,
        "headers": f"/usr/src/linux-headers-{version}",
        "dkms": [{"module": "nvidia", "version": DRIVER, "state": "installed", "source": True, "error": None}],
        "nvidia_module": DRIVER,
        "nvidia_module_flavour": "proprietary" if spec["architecture"] == "volta" else "open",
        "initramfs": {
            "path": f"/boot/initrd.img-{version}",
            "nouveau": True,
            "blacklist": True,
            "nova": True,
            "nova_blacklist": True,
            "nvidia": False,
            "nvidia_version": None,
            "error": None,
        },
    }


def _gpu(spec: dict[str, Any], index: int, address: str) -> dict[str, Any]:
    ecc, geforce, idle = spec.get("ecc"), spec.get("geforce"), spec.get("idle")
    shutdown, slowdown, gpu_max = spec.get("limits", (ABSENT, ABSENT, ABSENT))
    zeros = {"corrected": 0, "uncorrected": 0, "dram_uncorrected": 0, "sram_uncorrected": 0}
    none = dict.fromkeys(zeros, ABSENT)
    generation, width = spec["generation"], spec.get("width", spec.get("slot", 16))
    rows = {"corrected": 0, "uncorrected": 0, "pending": False, "failure": False}
    banks = {"max": spec.get("banks", 0), "high": 0, "partial": 0, "low": 0, "none": 0}
    has_mig = bool(spec.get("hbm")) and "pages" not in spec
    return {
        "index": index,
        "name": spec["name"],
        "uuid": f"GPU-00000000-0000-0000-0000-{index:012d}",
        "serial": ABSENT if geforce else f"16530230000{index}",
        "bus_id": address,
        "device": spec["device"],
        "subsystem": "10de:16c1",
        "vbios": "96.00.89.00.01",
        "board_part_number": ABSENT if geforce else "692-2G520",
        "minor": index,
        "architecture": spec["architecture"],
        "compute_capability": "9.0",
        "numa_node": 0,
        "pcie": {
            "generation": 1 if idle else generation,
            "max_generation": generation,
            "gpu_max_generation": generation,
            "width": width,
            "max_width": 16,
            "replays": 0,
        },
        "memory_mib": dict.fromkeys(("total", "used", "bar1"), ABSENT)
        if spec.get("unified")
        else {"total": spec["memory"], "used": 4, "bar1": 131072},
        "temperature": {
            "gpu": 34,
            "memory": 42 if spec.get("hbm") else ABSENT,
            "margin": spec.get("margin", ABSENT),
            "shutdown": shutdown,
            "slowdown": slowdown,
            "gpu_max": gpu_max,
            "memory_max": 95 if spec.get("hbm") else ABSENT,
            "shutdown_tlimit": -8 if "margin" in spec else ABSENT,
            "slowdown_tlimit": -2 if "margin" in spec else ABSENT,
            "gpu_max_tlimit": 0 if "margin" in spec else ABSENT,
            "memory_max_tlimit": ABSENT,
        },
        "power_mw": {
            "usage": 70000,
            **dict.fromkeys(("limit", "enforced_limit", "default_limit", "constraints"), ABSENT),
        }
        if spec.get("unified")
        else {
            "usage": 70000,
            "limit": spec["watts"] * 1000,
            "enforced_limit": spec["watts"] * 1000,
            "default_limit": spec["watts"] * 1000,
            "constraints": {"min": 60000, "max": spec["watts"] * 1000},
        },
        "clocks": {
            "sm": 210,
            "memory": 2619,
            "max_sm": 1980,
            "max_memory": 2619,
            "performance_state": 8 if idle else 0,
            "event_reasons": 0x5 if idle else 0x1,
        },
        "ecc": {
            "mode": {"enabled": True, "pending": True} if ecc else ABSENT,
            "default": True if ecc else None,
            "volatile": zeros if ecc else none,
            "aggregate": zeros if ecc else none,
            "sram_threshold_exceeded": False if ecc and not spec.get("pages") else ABSENT,
        },
        # A GeForce RTX 4090 answers the remapping call with zeros and no error.
        "remapped_rows": {**rows, "banks": banks}
        if spec.get("banks")
        else {**rows, "banks": ABSENT}
        if geforce
        else ABSENT,
        "retired_pages": {"single_bit": 0, "double_bit": 0, "pending": False}
        if spec.get("pages")
        else {"single_bit": ABSENT, "double_bit": ABSENT, "pending": ABSENT},
        "nvlink": {
            "count": spec.get("links", ABSENT),
            "links": [_link(n, active=n < _active(spec)) for n in range(spec.get("links", 0))],
        },
        "fabric": {
            "state": "completed",
            "status": "SUCCESS",
            "clique": 0,
            "cluster": "0" * 32,
            "health_mask": 0,
            "health_summary": 1,
        }
        if spec.get("nvswitches") or spec.get("fabric")
        else ABSENT,
        "licence": ABSENT,
        "inforom": {"version": "G520.0200.00.05", "valid": True},
        "gsp": {"mode": {"enabled": True, "default": True}, "version": DRIVER},
        "c2c": spec.get("c2c", ABSENT),
        "recovery_action": 0,
        "energy_mj": 1_234_567,
        "persistence": True,
        "compute_mode": 0,
        "accounting": False,
        "mig": {"enabled": False, "pending": False} if has_mig else ABSENT,
        "mig_profiles": MIG_PROFILES if has_mig else ABSENT,
        "mig_instances": [] if has_mig else ABSENT,
        "utilization": {"gpu": 0, "memory": 0},
        "processes": [],
    }


def _peers(spec: dict[str, Any], a: int, b: int) -> dict[str, Any]:
    if spec.get("cube_mesh") and a // 4 != b // 4 and b - a != 4:
        return {"gpus": [a, b], "ancestor": "system", **dict.fromkeys(("read", "write", "nvlink"), "not_supported")}
    nvlink = "ok" if _active(spec) else "not_supported"
    return {"gpus": [a, b], "ancestor": "node", "read": "ok", "write": "ok", "nvlink": nvlink}


def _link(number: int, *, active: bool) -> dict[str, Any]:
    return {
        "link": number,
        "active": active,
        "version": 4,
        "speed_mbps": 26562 if active else ABSENT,
        "errors": {"replay": 0, "recovery": 0, "crc_flit": 0, "crc_data": 0},
    }


def node(facts: dict[str, Any], plan: dict[str, Any] | None = None, **declared: Any) -> Node:
    """Return what checks look at, with the project's own catalogue."""
    expected = catalog(declared["profile"]) if "profile" in declared else CATALOG
    return Node(Facts(facts), Facts(plan) if plan else None, expected, declared)
