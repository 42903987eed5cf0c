"""Faults of the versions of the driver, its modules and its packages; see faults.py."""

from __future__ import annotations

from typing import Any, Callable

from . import nodes
from .faults import NOT_LOADED, OLD, Fault, all_of, every_gpu, nvml_down, put, with_modules

MISMATCH = nvml_down("mismatch", 18, "LIB_RM_VERSION_MISMATCH")
NO_DRIVER = all_of(
    put("modules.nvidia", {"loaded": False, "version": None}),
    nvml_down("absent", 12, "LIBRARY_NOT_FOUND"),
    put("driver.packages", []),
    put("driver.library", None),
    *(put(f"kernels.{n}.{key}", value) for n in (0, 1) for key, value in (("nvidia_module", None), ("dkms", []))),
)
SECURE_BOOT = all_of(
    put("system.secure_boot", "enabled"),
    put("system.mok_enrolled", value=True),
    *(put(f"kernels.{n}.nvidia_module_signer", "DKMS module signing key") for n in (0, 1)),
)


def forbid(line: str, how: str, by: str = "/etc/modprobe.d/a.conf", when: str = "") -> Callable[[dict[str, Any]], None]:
    """Return an injection of what forbids the module, now and at the next boot or at one of them."""
    found = {"module": "nvidia", "by": by, "line": line, "how": how}
    return all_of(*(put(f"forbidden.{one}", [found]) for one in ([when] if when else ["now", "next_boot"])))


DRIVER = [
    Fault(
        "driver upgraded without a reboot",
        "h100x8",
        all_of(put("modules.nvidia.version", OLD), MISMATCH),
        "driver-match",
        "reboot",
        says="upgraded after its module was loaded",
    ),
    Fault(
        "library upgraded, module not rebuilt",
        "h100x8",
        all_of(put("modules.nvidia.version", OLD), put("kernels.0.nvidia_module", OLD), MISMATCH),
        "driver-match",
        "rebuild_module",
        says="no module 580.178.04 was built",
    ),
    Fault(
        "library older than the module",
        "h100x8",
        all_of(
            put("containers.cdi", []),
            put("driver.library", OLD),
            put("driver.library_path", "/usr/local/lib/libnvidia-ml.so.1"),
            MISMATCH,
        ),
        "driver-match",
        "reinstall_driver",
        also=("driver-next-boot",),
        says="older than the module: /usr/local/lib/libnvidia-ml.so.1",
    ),
    Fault(
        "driver downgraded without a reboot",
        "h100x8",
        all_of(
            put("containers.cdi", []),
            put("driver.library", OLD),
            *(put(f"kernels.{number}.nvidia_module", OLD) for number in range(2)),
            MISMATCH,
        ),
        "driver-match",
        "reboot",
        says="downgraded after its module was loaded",
    ),
    Fault(
        "module on disk newer than the library",
        "t4",
        put("kernels.0.nvidia_module", "595.71.05"),
        "driver-match",
        "reinstall_driver",
        "warn",
    ),
    Fault(
        "module of the next kernel newer than the library",
        "t4",
        put("kernels.1.nvidia_module", "595.71.05"),
        "driver-next-boot",
        "reinstall_driver",
    ),
    Fault(
        "runfile over packages",
        "rtx4090x2",
        all_of(put("modules.nvidia.version", OLD), put("driver.runfile", "580.95.05"), MISMATCH),
        "driver-match",
        "reinstall_driver",
        says="two drivers",
    ),
    Fault(
        "three versions at once",
        "t4",
        all_of(put("modules.nvidia.version", OLD), put("kernels.0.nvidia_module", "570.211.01"), MISMATCH),
        "driver-match",
        "reinstall_driver",
    ),
    Fault(
        "the X server's driver is another",
        "rtx4090x2",
        put("driver.display", {"libGLX_nvidia.so.0": nodes.DRIVER, "nvidia_drv.so": OLD}),
        "display-match",
        "reinstall_driver",
        says=f"nvidia_drv.so is {OLD}",
    ),
    Fault(
        "module loaded, library missing",
        "l40s",
        all_of(put("driver.library", None), nvml_down("absent", 12, "LIBRARY_NOT_FOUND")),
        "driver-match",
        "reinstall_driver",
        also=("driver-responsive",),
    ),
    Fault(
        "module on disk is another", "t4", put("kernels.0.nvidia_module", OLD), "driver-match", "rebuild_module", "warn"
    ),
    Fault(
        "next kernel has no module",
        "a100-pcie-x2",
        all_of(put("kernels.1.nvidia_module", None), put("kernels.1.dkms", [])),
        "driver-next-boot",
        "rebuild_module",
        also=("dkms-every-kernel",),
    ),
    Fault(
        "next kernel has no headers",
        "a100-pcie-x2",
        all_of(put("kernels.1.nvidia_module", None), put("kernels.1.dkms", []), put("kernels.1.headers", None)),
        "driver-next-boot",
        "rebuild_module",
        also=("dkms-every-kernel",),
        says="headers are not installed",
    ),
    Fault(
        "next kernel has an older module",
        "b200x8",
        put("kernels.1.nvidia_module", OLD),
        "driver-next-boot",
        "rebuild_module",
    ),
    Fault(
        "DKMS did not finish for an installed kernel",
        "v100x4",
        lambda f: f["kernels"].append(
            {
                **f["kernels"][0],
                "version": "6.1.0-44-amd64",
                "running": False,
                "nvidia_module": None,
                "dkms": [{"module": "nvidia", "version": nodes.DRIVER, "state": "built"}],
            }
        ),
        "dkms-every-kernel",
        "rebuild_module",
        "warn",
        says="6.1.0-44-amd64",
    ),
    Fault(
        "an installed kernel has the module of another driver",
        "v100x4",
        lambda f: f["kernels"].append(
            {
                **f["kernels"][0],
                "version": "6.1.0-44-amd64",
                "running": False,
                "nvidia_module": OLD,
                "headers": "/usr/src/linux-headers-6.1.0-44-amd64",
                "dkms": [{"module": "nvidia", "version": nodes.DRIVER, "state": "added", "error": "a.c:1: error: no"}],
            }
        ),
        "dkms-every-kernel",
        "rebuild_module",
        "warn",
        says="its build failed with a.c:1: error: no",
    ),
    Fault(
        "DKMS built for an installed kernel what is gone",
        "v100x4",
        lambda f: f["kernels"].append(
            {
                **f["kernels"][0],
                "version": "6.1.0-44-amd64",
                "running": False,
                "nvidia_module": None,
                "nvidia_module_file": None,
                "headers": "/usr/src/linux-headers-6.1.0-44-amd64",
                "dkms": [{"module": "nvidia", "version": nodes.DRIVER, "state": "installed"}],
            }
        ),
        "dkms-every-kernel",
        "rebuild_module",
        "warn",
        says="its file is missing",
    ),
    Fault(
        "DKMS built a leftover of another driver for an installed kernel",
        "v100x4",
        lambda f: f["kernels"].append(
            {
                **f["kernels"][0],
                "version": "6.1.0-44-amd64",
                "running": False,
                "nvidia_module": None,
                "dkms": [
                    {"module": "nvidia", "version": OLD, "state": "installed"},
                    {"module": "nvidia", "version": nodes.DRIVER, "state": "added"},
                ],
            }
        ),
        "dkms-every-kernel",
        "rebuild_module",
        "warn",
        says=f"nvidia {nodes.DRIVER} is added",
    ),
    Fault(
        "Secure Boot without an enrolled key",
        "rtx4090x2",
        all_of(NOT_LOADED, SECURE_BOOT, put("system.mok_enrolled", value=False)),
        "secure-boot",
        "enroll_key",
        also=("driver-responsive",),
        says="not enrolled",
    ),
    Fault(
        "a driver that is not loaded, with an enrolled key",
        "rtx4090x2",
        all_of(NOT_LOADED, SECURE_BOOT),
        "driver-responsive",
        "reboot",
        says="its module is not loaded",
    ),
    Fault(
        "Secure Boot and an unsigned module for the next boot",
        "rtx3060",
        all_of(SECURE_BOOT, put("kernels.1.nvidia_module_signer", None)),
        "secure-boot",
        "enroll_key",
        says="not signed",
    ),
    Fault(
        "Secure Boot, and a module that a former key of DKMS signed",
        "rtx3060",
        all_of(SECURE_BOOT, put("kernels.1.nvidia_module_accepted", value=False)),
        "secure-boot",
        "sign_again",
        says="another key than DKMS's of now signed the module",
    ),
    Fault(
        "the driver hangs",
        "h100x8",
        nvml_down("unresponsive", 0, "NVML did not answer in time, at GPU 3"),
        "driver-responsive",
        "reboot",
        says="timed out",
    ),
    Fault(
        "NVML ends with an unknown error", "h200x8", nvml_down("error", 999, "UNKNOWN"), "driver-responsive", "reboot"
    ),
    Fault("no driver installed", "l40s", NO_DRIVER, "driver-responsive", "install_driver", says="not installed"),
    Fault(
        "driver not loaded, nouveau in its place",
        "rtx4090x2",
        all_of(NOT_LOADED, put("nouveau.bound", ["0000:19:00.0"]), put("pci.gpus.0.driver", "nouveau")),
        "driver-responsive",
        "reboot",
        also=("nouveau-absent",),
        says="nouveau holds",
    ),
    Fault(
        "driver not loaded, no module for the running kernel",
        "t4",
        all_of(NOT_LOADED, put("kernels.0.nvidia_module", None)),
        "driver-responsive",
        "rebuild_module",
        also=("dkms-every-kernel",),
        says="its file is missing",
    ),
    Fault(
        "the module is blacklisted",
        "t4",
        all_of(NOT_LOADED, forbid("blacklist nvidia", "by_itself")),
        "driver-responsive",
        "allow_module",
        says="/etc/modprobe.d/a.conf has blacklist nvidia",
    ),
    Fault(
        "the module is forbidden until the next boot",
        "t4",
        all_of(NOT_LOADED, forbid("module_blacklist=nvidia", "never", "the kernel's command line", "now")),
        "driver-responsive",
        "reboot",
        says="the kernel's command line has module_blacklist=nvidia",
    ),
    Fault(
        "the module is forbidden from the next boot on",
        "t4",
        forbid("install nvidia /bin/false", "never", when="next_boot"),
        "driver-next-boot",
        "allow_module",
        says="/etc/modprobe.d/a.conf has install nvidia /bin/false",
    ),
    Fault(
        "a virtual GPU without its driver",
        "t4",
        all_of(NOT_LOADED, put("pci.gpus.0.vgpu", value=True)),
        "driver-responsive",
        "install_grid",
    ),
    Fault(
        "a virtual GPU with the ordinary open modules",
        "t4",
        all_of(
            put("nvml", {"state": "error", "error": {"text": "NOT_SUPPORTED"}, "gpus": []}),
            put("pci.gpus.0.vgpu", value=True),
        ),
        "driver-responsive",
        "install_grid",
    ),
    Fault(
        "the proprietary modules of a GPU that takes the open ones",
        "b200x8",
        all_of(NOT_LOADED, with_modules("proprietary")),
        "driver-responsive",
        "other_modules",
        also=("driver-next-boot",),
        says="the proprietary kernel modules do not support",
    ),
    Fault(
        "the driver fails with the wrong modules",
        "v100x4",
        all_of(with_modules("open"), nvml_down("error", 999, "UNKNOWN")),
        "driver-responsive",
        "other_modules",
        also=("driver-next-boot",),
    ),
    Fault(
        "the next kernel has the wrong modules",
        "v100x4",
        put("kernels.1.nvidia_module_flavour", "open"),
        "driver-next-boot",
        "other_modules",
        says="the open kernel modules do not support Tesla V100",
    ),
    Fault("driver installed and merely not loaded", "t4", NOT_LOADED, "driver-responsive", "reboot"),
    Fault("persistence mode off", "b200x8", every_gpu("persistence", value=False), "persistence", "configure", "warn"),
    Fault(
        "a kernel that waits for a driver which does not build for it",
        "l40s",
        all_of(
            put("system.package_state", "interrupted"),
            put("system.packages_unfinished", ["linux-image-6.1.0-44-amd64", "linux-image-amd64"]),
            lambda f: f["kernels"].append(
                {
                    **f["kernels"][0],
                    "version": "6.1.0-44-amd64",
                    "running": False,
                    "nvidia_module": None,
                    "headers": "/usr/src/linux-headers-6.1.0-44-amd64",
                    "dkms": [
                        {"module": "nvidia", "version": nodes.DRIVER, "state": "added", "error": "a.c:1: error: no"}
                    ],
                }
            ),
        ),
        "packages-consistent",
        "remove_kernel",
        also=("dkms-every-kernel",),
        says="kernel 6.1.0-44-amd64 is not configured",
    ),
    Fault(
        "package installation interrupted",
        "l40s",
        put("system.package_state", "interrupted"),
        "packages-consistent",
        "repair_packages",
    ),
]
