"""Faults that the active tests find on a GPU or a node; see faults.py."""

from __future__ import annotations

from typing import Any

from . import loaded
from .faults import Loaded, cuda, failed, measured


def ended(name: str, record: dict[str, Any], number: int = 0) -> Any:
    """Return an injection of what became of one test on one GPU."""
    return measured(f"gpus.{number}.tests.{name}", record)


LATE = {"state": "late", "seconds": 60.0}
DECLARED = {"mounts": [{"path": "/data", "least_mbs": 800, "most_ms": 20}]}
CUDA = [
    Loaded(
        "wrong results of a kernel",
        "rtx4090x2",
        measured("gpus.1.tests.smoke.wrong", 3),
        "cuda-smoke",
        "contact_support",
        says="3 results",
    ),
    Loaded("hung kernel launch", "h100x8", ended("smoke", LATE, 5), "cuda-smoke", "reboot", says="within 60 s"),
    Loaded("out of memory on an idle GPU", "l40s", ended("smoke", cuda(2, "OUT_OF_MEMORY")), "cuda-smoke", "reset_gpu"),
    Loaded("device-side assert", "t4", ended("smoke", cuda(710, "ASSERT")), "cuda-smoke", "contact_support"),
    Loaded("launch failure", "v100x4", ended("smoke", cuda(719, "LAUNCH_FAILED"), 2), "cuda-smoke", "contact_support"),
    Loaded(
        "memory error under a kernel",
        "a100-pcie-x2",
        ended("smoke", cuda(214, "ECC_UNCORRECTABLE")),
        "cuda-smoke",
        "reset_gpu",
    ),
    Loaded(
        "CUDA waits for the fabric manager",
        "h100x8",
        ended("smoke", cuda(802, "SYSTEM_NOT_READY", "cuInit")),
        "cuda-smoke",
        "start_fabricmanager",
    ),
    Loaded(
        "CUDA waits for the fabric manager of the rack",
        "gb200x4",
        ended("smoke", cuda(802, "SYSTEM_NOT_READY", "cuInit")),
        "cuda-smoke",
        "check_rack",
    ),
    Loaded(
        "CUDA library and module differ",
        "b200x8",
        ended("smoke", cuda(803, "SYSTEM_DRIVER_MISMATCH", "cuInit")),
        "cuda-smoke",
        "reboot",
    ),
    Loaded(
        "CUDA sees no GPU",
        "rtx3060",
        ended("smoke", cuda(100, "NO_DEVICE", "cuInit")),
        "cuda-smoke",
        "reinstall_driver",
    ),
    Loaded(
        "GPU in exclusive mode",
        "h200x8",
        ended("smoke", cuda(46, "DEVICE_UNAVAILABLE", "cuDevicePrimaryCtxRetain"), 1),
        "cuda-smoke",
        "stop_app",
    ),
    Loaded(
        "driver too old for a kernel's code",
        "unknown-model",
        ended("smoke", cuda(222, "UNSUPPORTED_PTX_VERSION", "cuModuleLoadData")),
        "cuda-smoke",
        "upgrade_driver",
    ),
    Loaded("CUDA fails without a reason", "t4", ended("smoke", cuda(999, "UNKNOWN", "cuInit")), "cuda-smoke", "reboot"),
    Loaded(
        "libcuda is missing",
        "rtx3060",
        ended("smoke", failed("dlopen", None, "libcuda.so.1: cannot open shared object file")),
        "cuda-smoke",
        "install_driver",
    ),
    Loaded(
        "CUDA library crashes",
        "rtx4090x2",
        ended("smoke", {"state": "died", "reason": "the reading process died (signal 11)"}),
        "cuda-smoke",
        "reinstall_driver",
        says="signal 11",
    ),
]
RATES = [
    Loaded(
        "copies below what the link allows",
        "h100x8",
        measured("gpus.4.tests.copies.to_device_gbs", 22.0),
        "copy-rate",
        "check_seating",
        says="below the floor of 37.8",
    ),
    Loaded(
        "copies slower than the siblings'",
        "h100x8",
        measured("gpus.4.tests.copies.to_host_gbs", 40.0),
        "copy-rate",
        "check_seating",
        "warn",
        says="siblings reach 52",
    ),
    Loaded("wrong copy", "v100x4", measured("gpus.3.tests.copies.intact", value=False), "copy-rate", "contact_support"),
    Loaded(
        "slow memory",
        "h200x8",
        measured("gpus.0.tests.memory.memory_gbs", 1900.0),
        "memory-bandwidth",
        "contact_support",
    ),
    Loaded(
        "memory slower than the sibling's, no floor known",
        "rtx4090x2",
        measured("gpus.1.tests.memory.memory_gbs", 600.0),
        "memory-bandwidth",
        "contact_support",
        "warn",
    ),
    Loaded(
        "memory returns wrong data",
        "l40s",
        measured("gpus.0.tests.memory.wrong", 1),
        "memory-bandwidth",
        "contact_support",
    ),
    Loaded(
        "floor of the operator's",
        "l40s",
        measured("gpus.0.tests.memory.memory_gbs", 700.0),
        "memory-bandwidth",
        "contact_support",
        declared={"profile": {"floors": {"memory_gbs": 720}}},
        says="below the floor of 720",
    ),
    Loaded("slow matmul", "b200x8", measured("gpus.6.tests.matmul.bf16_tflops", 900.0), "matmul-rate", "check_cooling"),
    Loaded(
        "matmul slower than the siblings'",
        "h100x8",
        measured("gpus.6.tests.matmul.bf16_tflops", 560.0),
        "matmul-rate",
        "check_cooling",
        "warn",
    ),
    Loaded("wrong matmul", "a100-pcie-x2", measured("gpus.0.tests.matmul.wrong", 12), "matmul-rate", "contact_support"),
    Loaded(
        "PyTorch is not in the environment",
        "t4",
        ended("matmul", failed(None, 1, "ModuleNotFoundError: No module named 'torch'")),
        "matmul-rate",
        "install_software",
    ),
    Loaded(
        "PyTorch of a CUDA that the driver lacks",
        "t4",
        ended("matmul", failed(None, 1, "PyTorch 2.9.0 (CUDA 13.0) sees no GPU")),
        "matmul-rate",
        "upgrade_software",
    ),
    Loaded(
        "PyTorch meets an assert on the device",
        "l40s",
        ended("matmul", failed(None, 1, "RuntimeError: CUDA error: device-side assert triggered")),
        "matmul-rate",
        "contact_support",
    ),
    Loaded("matmul hangs", "h200x8", ended("matmul", {"state": "late", "seconds": 300.0}, 7), "matmul-rate", "reboot"),
]
NODE = [
    Loaded("slow all_reduce", "h100x8", measured("all_reduce.all_reduce_gbs", 180.0), "all-reduce", "contact_support"),
    Loaded("wrong all_reduce", "h100x8", measured("all_reduce.wrong", 5), "all-reduce", "contact_support"),
    Loaded(
        "all_reduce hangs",
        "h100x8",
        measured("all_reduce", {"state": "late", "seconds": 300.0}),
        "all-reduce",
        "reboot",
    ),
    Loaded("container sees fewer GPUs", "rtx4090x2", measured("container.seen", 1), "container-gpu", "configure"),
    Loaded(
        "Docker has no GPU driver",
        "t4",
        measured(
            "container",
            failed(None, 125, 'could not select device driver "" with capabilities: [[gpu]]'),
        ),
        "container-gpu",
        "configure",
    ),
    Loaded(
        "container image is not on the node",
        "t4",
        measured("container", failed(None, 125, "No such image: base:latest")),
        "container-gpu",
        "install_software",
    ),
    Loaded("dead mount", "h100x8", measured("mounts.0", {"path": "/data", **LATE}), "dataset-mounts", "check_storage"),
    Loaded(
        "missing mount",
        "h100x8",
        measured("mounts.0", {"path": "/data", **failed(None, None, "No such file or directory")}),
        "dataset-mounts",
        "check_storage",
    ),
    Loaded("empty mount", "l40s", measured("mounts.0.files", 0), "dataset-mounts", "check_storage", "warn"),
    Loaded(
        "slow mount",
        "l40s",
        measured("mounts.0.read_mbs", 90.0),
        "dataset-mounts",
        "check_storage",
        declared=DECLARED,
        says="90.0 MB/s",
    ),
    Loaded(
        "tardy mount",
        "l40s",
        measured("mounts.0.latency_ms", 250.0),
        "dataset-mounts",
        "check_storage",
        declared=DECLARED,
        says="250.0 ms",
    ),
    Loaded(
        "tardy mount of which nothing is declared",
        "l40s",
        measured("mounts.0.latency_ms", 51.0),
        "dataset-mounts",
        "check_storage",
        "warn",
        says="1 ms is good",
    ),
    Loaded(
        "slow NVMe disk",
        "h100x8",
        measured("mounts.0.read_mbs", 4199.0),
        "dataset-mounts",
        "check_disk",
        "warn",
        says="disks of its class read 7000",
    ),
    Loaded(
        "storage slower than a GPU",
        "h100x8",
        measured("data_loading.0", {**loaded.LOADING, "feeds": 300.0, "limit": "storage"}),
        "data-loading",
        "feed_gpus",
        "info",
        says="the storage limits it",
    ),
    Loaded(
        "processors slower than a GPU",
        "h100x8",
        measured("data_loading.0", {**loaded.LOADING, "feeds": 300.0, "limit": "processors"}),
        "data-loading",
        "feed_gpus",
        "info",
        says="the processors limit it",
    ),
    Loaded(
        "DataLoader without shared memory",
        "l40s",
        measured("data_loading.0", {"path": "/data", **failed(None, None, "Bus error")}),
        "data-loading",
        "check_storage",
        "warn",
        says="Bus error",
    ),
]


def burnt(key: str, value: Any) -> Any:
    """Return an injection into what the burn-in of the first GPU saw."""
    return measured(f"gpus.0.tests.burn_in.{key}", value)


def came(key: str, count: Any) -> Any:
    """Return an injection of errors that came under load."""
    return measured(f"gpus.0.errors.after.{key}", count)


LONG = [
    Loaded("wrong results after minutes", "h100x8", burnt("wrong", 1), "burn-in", "contact_support"),
    Loaded("hardware slowdown for heat under load", "t4", burnt("event_reasons", 0x40), "burn-in", "check_cooling"),
    Loaded(
        "driver slowdown for heat under load", "t4", burnt("event_reasons", 0x24), "burn-in", "check_cooling", "warn"
    ),
    Loaded("power brake under load", "b200x8", burnt("event_reasons", 0x80), "burn-in", "check_power"),
    Loaded("hardware slowdown under load", "b200x8", burnt("event_reasons", 0x8), "burn-in", "check_power"),
    Loaded("memory errors under load", "a100-pcie-x2", came("uncorrected", 2), "load-errors", "reset_gpu"),
    Loaded("rows remapped under load", "h200x8", came("remapped_rows", 1), "load-errors", "reset_gpu"),
    Loaded(
        "XID under load",
        "rtx4090x2",
        came("kernel_log", {"79": 1}),
        "load-errors",
        "contact_support",
        says="1 driver errors occurred in the kernel log under load XID 79",
    ),
    Loaded("unlisted XID under load", "rtx4090x2", came("kernel_log", {"999": 1}), "load-errors", "contact_support"),
    Loaded(
        "GPU falls off the bus under load",
        "t4",
        came("kernel_log", {"fallen_off_the_bus": 1}),
        "load-errors",
        "contact_support",
    ),
]
