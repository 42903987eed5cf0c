"""The kernel of a simulated GPU node: what a real one would have done at this boot, mounted over the container's own.

``boot`` runs early at every boot of a lab node. It reads the model, decides which driver has the GPUs (nouveau,
NVIDIA's or none) from what is on disk, and shows that state. ``fault``, ``heal`` and ``set`` change it while the node
runs. See README.md. Needs Python 3.9, root, CAP_SYS_ADMIN and CAP_MKNOD.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import uuid
from pathlib import Path
from typing import NamedTuple

from sim import hardware
from sim.settings import Settings

HOME = Path(__file__).resolve().parents[1]
LIBRARIES = {"libnvidia-ml.so": HOME / "libnvidia-ml.so.1", "libcuda.so": HOME / "libcuda.so.1"}
LOADED = HOME / "loaded"  # the libraries as the loader finds them while the driver is loaded; /run may be noexec
LOADER = Path("/etc/ld.so.conf.d/000-gpulab-simulation.conf")  # read first, so these win over the real libraries
RUN = Path("/run/gpulab-simulation")
MODEL, FAULTS = Path("/etc/gpulab-simulation/gpu.conf"), Path("/etc/gpulab-simulation/faults.conf")
BOARD = Path("/etc/gpulab-simulation/board.conf")  # what GPUs keep in their own memory: ECC and MIG
DRIVER, STATE = RUN / "driver.conf", RUN / "state.conf"

# The CUDA driver API by branch, and the branch from which a function or field is there.
CUDA = {470: 11040, 525: 12000, 530: 12010, 535: 12020, 545: 12030, 550: 12040, 555: 12050, 560: 12060, 565: 12070}
CUDA.update({570: 12080, 575: 12090, 580: 13000, 590: 13010, 595: 13020, 610: 13030})
NEWER_FUNCTIONS = {
    "nvmlDeviceGetGpuFabricInfoV": 550,
    "nvmlDeviceGetNumaNodeId": 550,
    "nvmlDeviceGetPciInfoExt": 550,
    "nvmlDeviceGetMarginTemperature": 570,
    "nvmlDeviceGetTemperatureV": 570,
}
RECOVERY_ACTION_SINCE = 570
INSTALLED_LIBRARY = "/usr/{lib64,lib/x86_64-linux-gnu}/{,nvidia/current/}libnvidia-ml.so.[0-9]*.[0-9]*"
FABRIC_IN_PROGRESS = 2
NVIDIA_MAJOR, UVM_MAJOR = 195, 510


class Kernel(NamedTuple):
    """What boots next, as the disk has it."""

    version: str  # "" without an installed kernel
    module_version: str  # of the NVIDIA module for it, "" without one
    module_flavour: str  # open or proprietary
    nouveau_blacklisted: bool
    options: dict[str, str]  # of the NVIDIA module, by name

    def driver(self, settings: Settings) -> str:
        """Name the driver that has the GPUs after the boot: nvidia, nouveau or ""."""
        if not settings.gpus:
            return ""
        if not self.nouveau_blacklisted:
            return "nouveau"
        if not self.module_version:
            return ""
        branch = branch_of(self.module_version)
        known = int(settings.node("driver_min", "0")) <= branch <= int(settings.node("driver_max", "9999"))
        accepted = settings.node("kernel_modules", "either") in {"either", self.module_flavour}
        return "nvidia" if known and accepted else ""


def branch_of(version: str) -> int:
    """Return the branch of a driver version: 535 of 535.261.03."""
    return int(version.split(".", maxsplit=1)[0])


def natural(text: str) -> list[tuple[int, str]]:
    """Order version numbers: 6.1.0-10 after 6.1.0-9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|\D+", text)]


def read_kernel() -> Kernel:
    """Read the newest installed kernel and the NVIDIA module that DKMS built for it."""
    installed = [path.parent.name for path in Path("/lib/modules").glob("*/modules.dep")]
    version = max(installed, key=natural, default="")
    for name in ("nvidia", "nvidia-current", "nvidia-current-open") if version else ():
        module_version = modinfo(version, name, "version")
        if module_version:
            flavour = "proprietary" if modinfo(version, name, "license") == "NVIDIA" else "open"
            return Kernel(version, module_version, flavour, nouveau_blacklisted(), module_options(name))
    return Kernel(version, "", "", nouveau_blacklisted(), {})


def modinfo(kernel: str, module: str, field: str) -> str:
    """Return a field of a module on disk, "" where there is no such module."""
    command = ["modinfo", "-k", kernel, "-F", field, module]
    return subprocess.run(command, capture_output=True, check=False, text=True).stdout.strip()


def module_options(module: str) -> dict[str, str]:
    """Return the options with which modprobe would load a module."""
    shown = subprocess.run(["modprobe", "--showconfig"], capture_output=True, check=True, text=True).stdout
    lines = [shlex.split(line) for line in shown.splitlines() if line.startswith("options ")]
    given = [word for line in lines if line[:2] == ["options", module.replace("-", "_")] for word in line[2:]]
    return dict(word.split("=", maxsplit=1) for word in given if "=" in word)


def nouveau_blacklisted(root: Path = Path("/")) -> bool:
    """Tell whether a rule of modprobe's keeps nouveau from its cards."""
    rule = re.compile(
        r"^\s*(blacklist\s+nouveau|install\s+nouveau\s+\S*/(false|true)|alias\s+nouveau\s+off)\b", re.MULTILINE
    )
    places = ("etc", "run", "usr/local/lib", "usr/lib", "lib")
    files = [file for place in places for file in (root / place / "modprobe.d").glob("*.conf")]
    return any(rule.search(file.read_text(encoding="utf-8", errors="replace")) for file in files if file.is_file())


def runs_fabric_manager(settings: Settings) -> bool:
    """Tell whether the GPUs wait for a fabric manager of the node: behind NVSwitches, on the bus or not."""
    return settings.node("nvswitches", "0") != "0" or settings.node("fabric_manager", "") == "always"


def driver_settings(kernel: Kernel, *, fabric_manager: bool = False) -> str:
    """Return what NVML has to know of the loaded driver, as settings."""
    branch = branch_of(kernel.module_version)
    absent = " ".join(function for function, since in NEWER_FUNCTIONS.items() if branch < since)
    lines = [
        f"driver_version = {kernel.module_version}",
        f"cuda_version = {CUDA[max((known for known in CUDA if known <= branch), default=min(CUDA))]}",
        f"absent_functions = {absent}",
        f"installed_library = {INSTALLED_LIBRARY}",
    ]
    if branch < RECOVERY_ACTION_SINCE:
        lines.append("gpu.*.recovery_action = N/A")
    if fabric_manager:
        lines.append(f"gpu.*.fabric_state = {FABRIC_IN_PROGRESS}")  # until the fabric manager runs
    return "\n".join(lines)


def own_uuids(host: str, settings: Settings) -> str:
    """Give the GPUs UUIDs that are theirs alone among all nodes, and stay, as settings."""
    uuids = {gpu: uuid.uuid5(uuid.NAMESPACE_DNS, f"{settings.gpu(gpu, 'address')}.{host}") for gpu in settings.gpus}
    return "\n".join(f"gpu.{gpu}.uuid = GPU-{uuids[gpu]}" for gpu in uuids)


def turn_over() -> None:
    """Let the modes hold that were set for after a reset."""
    kept = Settings(MODEL, BOARD)
    modes = [(gpu, mode, kept.gpu(gpu, f"{mode}_pending")) for gpu in kept.gpus for mode in ("ecc", "mig")]
    lines = (f"gpu.{gpu}.{mode} = {value}\ngpu.{gpu}.{mode}_pending = {value}\n" for gpu, mode, value in modes)
    if BOARD.exists():
        BOARD.write_text("".join(lines), encoding="utf-8")


def boot() -> None:
    """Bring the node into the state that a real one has after booting from this disk."""
    kernel = read_kernel()
    settings = Settings(MODEL, FAULTS)
    driver = kernel.driver(settings)
    if RUN.exists():
        sys.exit("This boot is simulated already; the next one is a reboot away.")
    RUN.mkdir()
    turn_over()
    hardware.write_line(RUN / "boot_id", str(uuid.uuid4()))
    hardware.write_pci(RUN, settings, driver)
    hardware.write_modules(RUN, driver, kernel.module_version)
    (RUN / "proc/driver").mkdir(exist_ok=True)
    if driver == "nvidia":
        driver_lines = driver_settings(kernel, fabric_manager=runs_fabric_manager(settings))
        hardware.write_line(DRIVER, f"{own_uuids(socket.gethostname(), settings)}\n{driver_lines}")
        settings = Settings(MODEL, DRIVER, FAULTS)
        hardware.write_proc_driver(RUN, settings, kernel.module_version, kernel.module_flavour)
        hardware.write_parameters(RUN, kernel.options)
        make_device_nodes(len(settings.gpus))
    hardware.write_kernel_log(RUN, settings, driver, kernel.module_version)
    show_libraries(kernel.module_version if driver == "nvidia" else "")
    keep_other_modules()
    bind(RUN / "sys/bus/pci/devices", Path("/sys/bus/pci/devices"))
    bind(RUN / "sys/module", Path("/sys/module"))
    bind(RUN / "proc/driver", Path("/proc/driver"))
    bind(RUN / "proc/modules", Path("/proc/modules"))
    bind(RUN / "boot_id", Path("/proc/sys/kernel/random/boot_id"))
    if kernel.version:
        hardware.write_line(RUN / "osrelease", kernel.version)
        bind(RUN / "osrelease", Path("/proc/sys/kernel/osrelease"))
    sys.stdout.write(f"{settings.announcement()}; kernel {kernel.version or 'none'}, driver {driver or 'none'}\n")


def keep_other_modules() -> None:
    """Link the container's real /sys/module entries beside the simulated ones."""
    real = RUN / "real-modules"
    real.mkdir()
    bind(Path("/sys/module"), real)
    (RUN / "sys/module").mkdir(parents=True, exist_ok=True)
    for module in real.iterdir():
        hardware.write_link(RUN / "sys/module" / module.name, module)


def bind(source: Path, target: Path) -> None:
    """Mount a file or directory over another; a kernel without that file has nothing to cover."""
    if target.exists():
        subprocess.run(["mount", "--bind", str(source), str(target)], check=True)


def make_device_nodes(gpus: int) -> None:
    """Make the driver's device nodes. No driver answers behind them."""
    nodes = {f"nvidia{gpu}": (NVIDIA_MAJOR, gpu) for gpu in range(gpus)}
    nodes.update({"nvidiactl": (NVIDIA_MAJOR, 255), "nvidia-modeset": (NVIDIA_MAJOR, 254)})
    nodes.update({"nvidia-uvm": (UVM_MAJOR, 0), "nvidia-uvm-tools": (UVM_MAJOR, 1)})
    for name, number in nodes.items():
        path = Path("/dev", name)
        with contextlib.suppress(FileExistsError):
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(*number))
        path.chmod(0o666)


def show_libraries(version: str) -> None:
    """Let the dynamic loader find the simulated libraries as those of this driver; of none with ""."""
    shutil.rmtree(LOADED, ignore_errors=True)
    if version:
        LOADED.mkdir()
        for name, library in LIBRARIES.items():
            shutil.copy(library, LOADED / f"{name}.{version}")
            (LOADED / f"{name}.1").symlink_to(f"{name}.{version}")
        hardware.write_line(LOADER, str(LOADED))
    elif LOADER.exists():
        LOADER.unlink()
    subprocess.run(["ldconfig"], check=True)


def refresh() -> None:
    """Show changed settings in the PCI tree and the kernel log; NVML reads them by itself."""
    driver = "nvidia" if DRIVER.exists() else "nouveau" if (RUN / "sys/module/nouveau").exists() else ""
    hardware.write_pci(RUN, Settings(MODEL, FAULTS), driver)
    hardware.write_kernel_log(RUN, Settings(MODEL, FAULTS), driver, Settings(DRIVER).node("driver_version"))


def fault(lines: list[str]) -> None:
    """Inject faults: settings that win over all others until ``heal``."""
    with FAULTS.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    refresh()


def heal() -> None:
    """Take back all injected faults."""
    with contextlib.suppress(FileNotFoundError):
        FAULTS.unlink()
    refresh()


def change(lines: list[str]) -> None:
    """Change settings as NVIDIA's daemons do, until the next boot; it fails without a driver."""
    if not DRIVER.exists():
        sys.exit("Failed to query NVIDIA devices: no driver is loaded")
    with STATE.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="gpulab-simulate", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("boot", help="show the state after a boot; the service does this")
    commands.add_parser("heal", help="take back all injected faults")
    commands.add_parser("fault", help="inject faults, such as 'gpu.3.temp = 91'").add_argument("lines", nargs="+")
    commands.add_parser("set", help="change settings until the next boot, as a daemon").add_argument("lines", nargs="+")
    arguments = parser.parse_args()
    if arguments.command in {"fault", "set"}:
        {"fault": fault, "set": change}[arguments.command](arguments.lines)
    else:
        {"boot": boot, "heal": heal}[arguments.command]()


if __name__ == "__main__":
    main()
