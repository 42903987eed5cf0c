"""What the active tests measure on a healthy node."""

from __future__ import annotations

from typing import Any

from unit import machines

from .nodes import ABSENT, CATALOG, healthy

MOUNT = {
    "path": "/data",
    "state": "done",
    "files": 640,
    "left_out": 0,
    "latency_ms": 0.8,
    "by": "fio",
    "direct": True,
    "bytes": 20 << 30,
    "read_mbs": 5200.0,
    "random_ms": 0.08,
    "random_iops": 180_000,
}
LOADING = {
    "path": "/data",
    "state": "done",
    "rates": {name: {"1": 900.0, "2": 1750.0, "4": 3100.0} for name in ("memory", "files", "memmap", "lmdb")},
    "workers": 4,
    "feeds": 3100.0,
    "eats": 2600.0,
    "limit": None,
}


def measured(model: str) -> dict[str, Any]:
    """Return a healthy node's facts after the level burn-in; the rates are made up from the boards' limits."""
    facts = healthy(model)
    profiles = CATALOG["profiles"]
    gpus = []
    for gpu in facts["nvml"]["gpus"]:
        limits = profiles.get(gpu["device"], {}).get("limits", {})
        link = {3: 12.0, 4: 24.0, 5: 52.0, 6: 100.0}[gpu["pcie"]["max_generation"]] * gpu["pcie"]["width"] / 16
        tests = {
            "smoke": {"state": "done", "elements": 1 << 20, "wrong": 0},
            "copies": {"state": "done", "bytes": 1 << 27, "to_device_gbs": link, "to_host_gbs": link, "intact": True},
            "memory": {"state": "done", "memory_gbs": 0.88 * limits.get("memory_gbs", 500), "wrong": 0},
            "matmul": {
                "state": "done",
                **{key: 0.75 * value for key, value in limits.items() if key.endswith("_tflops")},
                "fp32_tflops": 40.0,
                "wrong": 0,
            },
            "burn_in": {
                "state": "done",
                "load": "bf16 matmul",
                "minutes": 60,
                "runs": 1_000_000,
                "wrong": 0,
                "hottest_celsius": 68,
                "slowest_sm_mhz": 1755,
                "event_reasons": 0x4,
            },
        }
        none = {"uncorrected": 0 if gpu["ecc"]["mode"] != ABSENT else None, "remapped_rows": 0, "kernel_log": {}}
        identity = {key: gpu[key] for key in ("index", "name", "uuid", "bus_id", "device")}
        gpus.append({**identity, "tests": tests, "errors": {"before": none, "after": none}})
    facts["measurements"] = {
        "schema": 1,
        "level": "burn-in",
        "simulated": None,
        "rates_declared": True,
        "gpus": gpus,
        "peer_copies": _between(facts["nvml"]["peers"]),
        "nodes_all_reduce": {
            "state": "done",
            "backend": "nccl",
            "name": "node1",
            "nodes": ["node1", "node2"],
            "meeting_point": "192.0.2.1 port 23457",
            "interface": "enp1s0f0np0",
            "taking_part": {"node1": [len(gpus)] * 2, "node2": [len(gpus)] * 2},
            "processes": 2 * len(gpus),
            "all_reduce_gbs": 300.0,
            "wrong": 0,
        },
        "nodes_rdma": _rdma(facts["infiniband"]),
        "all_reduce": {"state": "done", "by": "nccl-tests", "all_reduce_gbs": 800.0, "wrong": 0, "gpus": len(gpus)},
        "container": {"state": "done", "image": "base", "expected": len(gpus), "seen": len(gpus)},
        "mounts": [MOUNT],
        "data_loading": [LOADING],
    }
    return machines.unshared(facts)


def _rdma(ports: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what RDMA with another node measured; made-up rates."""
    if not ports:
        return {"state": "skipped", "reason": "no InfiniBand or RoCE port is in use"}
    rails = [
        {"device": port["device"], "port": port["port"], "state": "done", "mtu": port["mtu"], **test}
        for port in ports
        for test in ({"test": "ib_write_bw", "write_gbps": 390.0}, {"test": "ib_send_lat", "latency_us": 1.9})
    ]
    meeting = {"name": "node1", "nodes": ["node1", "node2"], "meeting_point": "192.0.2.1 port 23457"}
    return {"state": "done", **meeting, "pairs": [{"peer": "node2", "state": "done", "rails": rails}]}


def _between(peers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what copies between GPUs measured; made-up rates."""
    if not peers:
        return {"state": "skipped", "reason": "needs two GPUs", "applies": False}
    done = {"state": "done", "mib": 64, "wrong_mib": 0}
    pairs = [
        {
            "from": ends[0],
            "to": ends[1],
            "straight": each["read"] == "ok",
            "gbs": 380.0 if _linked(each) else 24.0,
            **done,
        }
        for each in peers
        for ends in (each["gpus"], each["gpus"][::-1])
    ]
    return {"state": "done", "pairs": pairs}


def _linked(peers: dict[str, Any]) -> bool:
    return bool(peers["nvlink"] == "ok")
