"""The PCI devices and kernel files of a simulated node, as trees below any root: a node's or a test's."""

from __future__ import annotations

import contextlib
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sim.settings import Settings

SPEEDS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}  # GT/s by PCIe generation
NVIDIA_MODULES = ("nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia")
# Options of NVIDIA's module, as /proc/driver/nvidia/params names them; one goes by another name than modprobe's.
PARAMETERS = {"ModifyDeviceFiles": "1", "EnableStreamMemOPs": "0", "RmProfilingAdminOnly": "1", "RegistryDwords": ""}
PARAMETERS_OF = {"NVreg_RestrictProfilingToAdminUsers": "RmProfilingAdminOnly"}
BRIDGE = "0604"
CHIPSET_BUSES = 0x10  # below, a bridge sits on bus 0; above, in front of its device


class Function(NamedTuple):
    """One PCI function. Identities are "vvvv:dddd", the class has four digits, generations are PCIe's."""

    address: str
    identity: str
    subsystem: str
    pci_class: str
    driver: str = ""
    numa_node: str = "0"
    generation: str = "5"
    generation_max: str = "5"
    width: str = "16"
    width_max: str = "16"
    gone: bool = False  # fell off the bus: every read gives ones


def write_line(file: Path, text: str) -> None:
    """Write one line, and the directories above it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n", encoding="utf-8")


def write_link(path: Path, target: Path) -> None:
    """Make a link to the target, in place of the link that may be there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    path.symlink_to(target)


def bridge_address(address: str) -> str:
    """Place a bridge above a device; "" for a device on bus 0."""
    bus = int(address.split(":")[1], 16)
    if not bus:
        return ""
    return f"0000:00:{bus:02x}.0" if bus < CHIPSET_BUSES else f"0000:{bus - 1:02x}:01.0"


def config_space(function: Function) -> bytes:
    """Return the first 256 bytes of a function's configuration space."""
    if function.gone:
        return b"\xff" * 256
    config = bytearray(256)
    vendor, device = (int(part, 16) for part in function.identity.split(":"))
    revision_and_class = int(function.pci_class, 16) << 16 | 0xA1
    struct.pack_into("<HHHHI", config, 0, vendor, device, 0x0406, 0, revision_and_class)
    struct.pack_into("<HH", config, 0x2C, *(int(part, 16) for part in function.subsystem.split(":")))
    return bytes(config)


def write_function(root: Path, function: Function, announcement: str) -> None:
    """Write a function as sysfs has it: its directory below its bridge, and links by bus and by driver."""
    bridge = bridge_address(function.address) if function.pci_class != BRIDGE else ""
    home = root / "sys/devices" / f"pci0000:{(bridge or function.address).split(':')[1]}" / bridge / function.address
    vendor, device = function.identity.split(":")
    subsystem_vendor, subsystem_device = function.subsystem.split(":")
    files = {
        "vendor": f"0x{vendor}",
        "device": f"0x{device}",
        "class": f"0x{function.pci_class}00",
        "revision": "0xff" if function.gone else "0xa1",
        "subsystem_vendor": f"0x{subsystem_vendor}",
        "subsystem_device": f"0x{subsystem_device}",
        "numa_node": function.numa_node,
        "irq": "0",
        "enable": "1",
        "modalias": f"pci:v0000{vendor.upper()}d0000{device.upper()}"
        f"sv0000{subsystem_vendor.upper()}sd0000{subsystem_device.upper()}"
        f"bc{function.pci_class[:2]}sc{function.pci_class[2:]}i00",
        "resource": "\n".join(["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 13),
        "current_link_speed": f"{SPEEDS[int(function.generation)]} GT/s PCIe",
        "current_link_width": function.width,
        "max_link_speed": f"{SPEEDS[int(function.generation_max)]} GT/s PCIe",
        "max_link_width": function.width_max,
        "simulated": announcement,
    }
    for name, text in files.items():
        write_line(home / name, text)
    (home / "config").write_bytes(config_space(function))
    write_link(root / "sys/bus/pci/devices" / function.address, home)
    with contextlib.suppress(FileNotFoundError):
        (home / "driver").unlink()
    if function.driver:
        driver = root / "sys/bus/pci/drivers" / function.driver
        write_link(driver / function.address, home)
        write_link(home / "driver", driver)


def gpu_functions(settings: Settings, driver: str) -> Iterator[Function]:
    """Yield each GPU, bound to a driver or to none (""), after the bridge above it."""
    for gpu in settings.gpus:
        address = settings.gpu(gpu, "address")
        function = Function(
            address,
            settings.gpu(gpu, "device"),
            settings.gpu(gpu, "subsystem"),
            settings.gpu(gpu, "class"),
            driver,
            settings.gpu(gpu, "numa_node"),
            settings.gpu(gpu, "pcie_gen"),
            settings.gpu(gpu, "pcie_gen_gpu_max"),
            settings.gpu(gpu, "pcie_width"),
            settings.gpu(gpu, "pcie_width_max"),
            gone=settings.gpu(gpu, "lost", "0") != "0",
        )
        if bridge_address(address):
            generation_max = settings.gpu(gpu, "bridge_pcie_gen_max", settings.gpu(gpu, "pcie_gen_max"))
            width_max = settings.gpu(gpu, "bridge_pcie_width_max", function.width_max)
            yield bridge_above(function)._replace(generation_max=generation_max, width_max=width_max)
        yield function


def switch_functions(settings: Settings, driver: str) -> Iterator[Function]:
    """Yield each NVSwitch, which only NVIDIA's driver takes, after the bridge above it."""
    identity = settings.node("nvswitch_device")
    for number in range(int(settings.node("nvswitches", "0"))):
        address, owner = f"0000:{5 + number:02x}:00.0", driver if driver == "nvidia" else ""
        function = Function(address, identity, identity, "0680", owner, generation="4", width="2", width_max="2")
        yield bridge_above(function)
        yield function


def bridge_above(function: Function) -> Function:
    """Return the bridge that a function hangs on, with the same link."""
    address = bridge_address(function.address)
    return function._replace(
        address=address, identity="8086:352a", subsystem="8086:0000", pci_class=BRIDGE, driver="pcieport", gone=False
    )


def write_pci(root: Path, settings: Settings, driver: str) -> None:
    """Write the node's PCI functions; driver has the GPUs: nvidia, nouveau or none ("")."""
    for function in (*gpu_functions(settings, driver), *switch_functions(settings, driver)):
        write_function(root, function, settings.announcement())


def write_modules(root: Path, driver: str, version: str) -> None:
    """Write /proc/modules and the additions to /sys/module for the loaded driver (nvidia, nouveau or "")."""
    names = NVIDIA_MODULES if driver == "nvidia" else (driver,) if driver else ()
    lines = [f"{name} 1048576 0 - Live 0x0000000000000000 (POE)" for name in names]
    modules = root / "proc/modules"
    modules.parent.mkdir(parents=True, exist_ok=True)
    modules.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for name in names:
        home = root / "sys/module" / name
        write_line(home / "initstate", "live")
        write_line(home / "refcnt", "0")
        (home / "holders").mkdir(exist_ok=True)
        if driver == "nvidia":
            write_line(home / "version", version)


def write_parameters(root: Path, options: dict[str, str]) -> None:
    """Write what options the loaded driver has; it knows no others than these."""
    given = {PARAMETERS_OF.get(name, name.replace("NVreg_", "", 1)): value for name, value in options.items()}
    known = {name: given.get(name, value) for name, value in PARAMETERS.items()}
    known["RegistryDwords"] = f'"{known["RegistryDwords"]}"'
    write_line(root / "proc/driver/nvidia/params", "\n".join(f"{name}: {value}" for name, value in known.items()))


def write_kernel_log(root: Path, settings: Settings, driver: str, version: str) -> None:
    """Write what the node's dmesg prints: that the driver was loaded, and the lines kernel_log of the settings."""
    loaded = [f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {version}"] if driver == "nvidia" else []
    lines = [settings.announcement(), *loaded, *settings.every("kernel_log")]
    write_line(root / "kernel.log", "\n".join(f"[{second:5}.000000] {line}" for second, line in enumerate(lines)))


def write_proc_driver(root: Path, settings: Settings, version: str, flavour: str) -> None:
    """Write /proc/driver/nvidia of a loaded driver; the flavour is open or proprietary."""
    home = root / "proc/driver/nvidia"
    kind = "Open Kernel Module for x86_64" if flavour == "open" else "x86_64 Kernel Module"
    write_line(home / "version", f"NVRM version: NVIDIA UNIX {kind}  {version}  {settings.announcement()}")
    for gpu in settings.gpus:
        address = settings.gpu(gpu, "address")
        lines = {
            "Model": settings.gpu(gpu, "name"),
            "GPU UUID": settings.gpu(gpu, "uuid", f"GPU-51301a7e-0000-4000-8000-{gpu:012x}"),
            "Video BIOS": settings.gpu(gpu, "vbios"),
            "Bus Type": "PCIe",
            "Bus Location": address,
            "Device Minor": str(gpu),
            "GPU Excluded": "No",
        }
        text = "\n".join(f"{key + ':':<17}{value}" for key, value in lines.items())
        write_line(home / "gpus" / address / "information", text)
