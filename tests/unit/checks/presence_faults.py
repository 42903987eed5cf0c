"""GPUs that are not there, and a driver that does not run; see faults.py."""

from __future__ import annotations

from typing import Any, Callable

from . import nodes
from .faults import NOT_LOADED, Fault, all_of, nvml_down, put, with_modules

LENT = {"address": "0000:65:00.0", "device": "10de:2684", "driver": "vfio-pci"}
AMD = {"address": "0000:05:00.0", "device": "1002:74a1", "maker": "AMD"}


def without_gpus(**parts: Any) -> Callable[[dict[str, Any]], None]:
    """Return an injection of a node without GPUs of its own and without a driver that runs."""
    others = (put(f"pci.{name}", value) for name, value in parts.items())
    return all_of(put("pci.gpus", []), NOT_LOADED, *others)


PRESENCE = [
    Fault(
        "virtual machines have every GPU",
        "rtx4090x2",
        without_gpus(lent=[LENT]),
        "gpu-count",
        "take_back_gpu",
        says="0000:65:00.0 (vfio-pci)",
    ),
    Fault(
        "virtual machines have GPUs that are declared",
        "rtx4090x2",
        put("pci.lent", [LENT]),
        "gpu-count",
        "take_back_gpu",
        declared={"gpus": 3},
        says="0000:65:00.0 (vfio-pci)",
    ),
    Fault(
        "virtual machines have every GPU, and the driver does not run",
        "rtx4090x2",
        without_gpus(lent=[LENT]),
        "driver-responsive",
        "take_back_gpu",
        "info",
        says="0000:65:00.0 (vfio-pci)",
        declared={"gpus": 0},
    ),
    Fault(
        "a GPU is missing beside those of virtual machines",
        "rtx4090x2",
        put("pci.lent", [LENT]),
        "gpu-count",
        "check_seating",
        declared={"gpus": 4},
    ),
    Fault(
        "only GPUs of another maker",
        "rtx3060",
        without_gpus(other_gpus=[AMD]),
        "gpu-count",
        "check_seating",
        says="AMD 1002:74a1",
    ),
    Fault(
        "the open modules of a GPU that takes the proprietary ones",
        "v100x4",
        all_of(with_modules("open"), nvml_down("no_devices", 0, "")),
        "gpu-count",
        "other_modules",
        also=("driver-next-boot",),
        says="the open kernel modules do not support Tesla V100",
    ),
    Fault(
        "a GPU is missing from the bus",
        "h100x8",
        all_of(lambda f: f["pci"]["gpus"].pop(), lambda f: f["nvml"]["gpus"].pop()),
        "gpu-count",
        "check_seating",
        declared={"gpus": 8},
        says="7 GPUs on the PCI bus, 8 declared",
    ),
    Fault("more GPUs than declared", "t4", lambda _: None, "gpu-count", "configure", declared={"gpus": 0}),
    Fault(
        "a GPU on the bus that NVML does not list",
        "h200x8",
        lambda f: f["nvml"]["gpus"].pop(5),
        "gpu-count",
        "reboot",
        says="0000:69:00.0",
    ),
    Fault(
        "no GPU at all",
        "rtx3060",
        all_of(put("pci.gpus", []), nvml_down("no_devices", 0, "")),
        "gpu-count",
        "check_seating",
    ),
    Fault("NVML lists no device", "v100x4", nvml_down("no_devices", 0, ""), "gpu-count", "reboot", says="4 of 4"),
    Fault(
        "nouveau holds a GPU",
        "rtx4090x2",
        all_of(
            put("pci.gpus.1.driver", "nouveau"),
            put("nouveau.bound", ["0000:29:00.0"]),
            put("modules.nouveau.loaded", value=True),
        ),
        "nouveau-absent",
        "reboot",
    ),
    Fault(
        "nouveau holds a GPU and is not blacklisted",
        "rtx4090x2",
        all_of(put("pci.gpus.0.driver", "nouveau"), put("nouveau.blacklisted", value=False)),
        "nouveau-absent",
        "configure",
    ),
    Fault(
        "nouveau is loaded beside the driver",
        "l40s",
        put("modules.nouveau.loaded", value=True),
        "nouveau-absent",
        "reboot",
        "warn",
    ),
    Fault(
        "nouveau is not blacklisted",
        "l40s",
        put("nouveau.blacklisted", value=False),
        "nouveau-absent",
        "configure",
        "warn",
    ),
    Fault(
        "an old driver in the next boot's initramfs",
        "l40s",
        all_of(put("kernels.1.initramfs.nvidia", value=True), put("kernels.1.initramfs.nvidia_version", "580.95.05")),
        "driver-next-boot",
        "rebuild_initramfs",
        says="loads driver 580.95.05 at the next boot",
    ),
    Fault(
        "the old driver of the initramfs is loaded",
        "rtx4090x2",
        all_of(
            put("modules.nvidia.version", "580.95.05"),
            put("kernels.1.initramfs.nvidia", value=True),
        ),
        "driver-match",
        "rebuild_initramfs",
    ),
    Fault(
        "nouveau in the next boot's initramfs",
        "a100-pcie-x2",
        put("kernels.1.initramfs.blacklist", value=False),
        "nouveau-absent",
        "rebuild_initramfs",
        says=nodes.NEXT_KERNEL,
    ),
    Fault("nova holds a GPU", "rtx4090x2", put("pci.gpus.0.driver", "NovaCore"), "nova-absent", "configure"),
    Fault(
        "nova_core is loaded",
        "rtx4090x2",
        put("modules.nova_core.loaded", value=True),
        "nova-absent",
        "configure",
        "warn",
    ),
    Fault(
        "nova in the next boot's initramfs",
        "b200x8",
        put("kernels.1.initramfs.nova_blacklist", value=False),
        "nova-absent",
        "rebuild_initramfs",
        says=nodes.NEXT_KERNEL,
    ),
]
