"""A machine without a system in QEMU, for installers: it boots a kernel with archives for its memory, or its disks."""

import contextlib
import re
import shlex
import socket
import subprocess
import time

from firmware import ARM64, BIOS, SECURE_BOOT, UEFI

MEMORY_MIB = 3072  # GRUB has to load the installer, and the kernel to unpack it
FIRMWARE = {"bios": BIOS, "uefi": UEFI, "secure": SECURE_BOOT, "arm64": ARM64}
SECONDS = 1200
NO_ANSWER = 255  # exit status of ssh itself


class Bare:
    """A machine with raw disks in the order in which its kernel finds them: (serial number, path[, bus]).

    The bus is virtio, sata or nvme.
    It ends where the guest powers off, and, while it boots a kernel that is given, where the guest reboots.
    """

    def __init__(self, directory, disks, uuid, firmware="bios", cpus=2):
        """Nothing is started yet."""
        self._directory = directory
        self._cpus = cpus
        self._disks = disks
        self._uuid = uuid
        self._firmware = FIRMWARE[firmware]
        self._process = None
        self._starts = 0
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = listener.getsockname()[1]

    def boot_kernel(self, kernel, initrds, arguments):
        """Boot a kernel; the archives follow each other in memory, as a boot loader lays them."""
        whole = self._directory / "initrd"
        with whole.open("wb") as out:
            for path in initrds:
                data = path.read_bytes()
                out.write(data + b"\0" * (-len(data) % 4))
        self._start("-kernel", kernel, "-initrd", whole, "-append", arguments, "-no-reboot")

    def boot_disk(self, serial):
        """Boot a disk, as the firmware does; reboots go on."""
        self._start(first=serial)

    def boot_medium(self, image, kind):
        """Boot an image as a CD or as a USB stick; ends where the guest reboots."""
        drive = f"file={image},if=none,id=medium,readonly=on,format=raw"
        devices = {"cd": ["ide-cd"], "stick": ["qemu-xhci", "usb-storage"]}[kind]
        devices[-1] += ",drive=medium,bootindex=0"
        self._start("-no-reboot", "-drive", drive, *(word for device in devices for word in ("-device", device)))

    def boot_network(self, folder, program):
        """Boot a program in a folder that the network serves; ends where the guest reboots."""
        self._start("-no-reboot", network=f",tftp={folder},bootfile={program}")

    def _start(self, *arguments, first=None, network=None):
        self._starts += 1
        # BIOS has no other program for it than the card's; under Secure Boot, shim is told wrong sizes by that one.
        rom = "" if network and self._firmware is BIOS else ",romfile="
        disks = [word for place, disk in enumerate(self._disks) for word in _disk(place, disk[0] == first, *disk)]
        self._process = subprocess.Popen(
            [
                *self._firmware.command(self._directory),
                *("-accel", "tcg,thread=multi,tb-size=1024"),
                *("-smp", str(self._cpus), "-m", str(MEMORY_MIB), "-uuid", self._uuid),
                *("-nographic", "-nodefaults", "-serial", f"file:{self._console}"),
                *disks,
                *("-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{self.port}-:22{network or ''}"),
                *("-device", f"virtio-net-pci,netdev=net{rom}{',bootindex=0' if network else ''}"),
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
        )

    @property
    def _console(self):
        return self._directory / f"console-{self._starts}.log"

    def console(self):
        """Return what the machine wrote on its console since it was started last."""
        with contextlib.suppress(FileNotFoundError):
            return self._console.read_text(errors="replace")
        return ""

    def wait_for(self, pattern, seconds=SECONDS):
        """Wait until the console has a line; fail where the machine ends before."""
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.console()):
            ended = self._process.poll() is not None and not re.search(pattern, self.console())
            if ended or time.monotonic() > deadline:
                message = f"no {pattern!r} on the console:\n{self.console()[-3000:]}"
                raise AssertionError(message)
            time.sleep(0.5)

    def wait_for_end(self, seconds=SECONDS):
        """Wait until it powers off or, with a kernel that was given, reboots; return its console."""
        try:
            self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired as error:
            message = f"the machine did not end:\n{self.console()[-3000:]}"
            raise AssertionError(message) from error
        return self.console()

    def kill(self):
        """Pull the plug."""
        if self._process:
            self._process.kill()
            self._process.wait(timeout=30)

    def run(self, script, options, timeout=120):
        """Run a shell script on it over SSH as root; return what it printed. None where it does not answer."""
        argv = ["ssh", *options, "-p", str(self.port), "-o", "BatchMode=yes", "-o", "ConnectTimeout=20"]
        argv += ["-o", "StrictHostKeyChecking=yes", "127.0.0.1", f"sudo sh -ec {shlex.quote(script)} 2>&1"]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=timeout)
        except subprocess.TimeoutExpired:
            return None
        if done.returncode == NO_ANSWER:
            return None
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout.rstrip("\n")

    def wait_for_ssh(self, options, seconds=SECONDS):
        """Wait until one can log in."""
        deadline = time.monotonic() + seconds
        while self.run("true", options, 30) is None:
            if self._process.poll() is not None or time.monotonic() > deadline:
                message = f"the machine does not answer; its console:\n{self.console()[-3000:]}"
                raise AssertionError(message)
            time.sleep(2)


def _disk(place, first, serial, path, bus="virtio"):
    """Return the arguments of a disk; several may have one serial number."""
    device = {"virtio": "virtio-blk-pci", "sata": f"ide-hd,bus=ide.{place}", "nvme": "nvme"}[bus]
    boot = ",bootindex=1" if first else ""
    return (
        *("-drive", f"file={path},if=none,id=disk{place},format=raw,cache=unsafe"),
        *("-device", f"{device},drive=disk{place},serial={serial}{boot}"),
    )
