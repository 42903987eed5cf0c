"""A machine in QEMU that boots from a disk, reached over SSH. Emulated throughout: nothing needs KVM."""

import re
import shlex
import socket
import subprocess
import time

from firmware import BIOS

BOOT_SECONDS = 1200
BOOT_ID = "/proc/sys/kernel/random/boot_id"
NO_ANSWER = 255  # exit status of ssh itself
ESCAPES = re.compile(r"\x1b(?:\[[0-9;?=]*[A-Za-z]|[()].|[=>78c])|\0")
KEY_SECONDS = 0.5  # between two keys: a firmware that is emulated reads them slowly
SYSTEM = "SYSTEM"  # serial number of the disk it boots from


class Machine:
    """The machine writes to an overlay in directory, so that its disk stays as it was made.

    ssh_config there names it ``vm``; ssh_options are more lines of it: whom to log in as, with which keys. disks are
    the files of more disks by their serial numbers, and these it writes to. wire, which may be set until the start,
    are QEMU's arguments for one more network.
    """

    def __init__(self, disk, directory, ssh_options, disks, firmware=BIOS):
        """Nothing is started yet."""
        self._disk = disk
        self._firmware = firmware
        self.wire = ()
        self._disks = disks
        self._overlay = directory / "overlay.qcow2"
        self._console = directory / "console.log"
        self._read = 0
        self._port = free_port()
        self._process = None
        self.ssh_config = directory / "ssh_config"
        address = ["HostName 127.0.0.1", f"Port {self._port}", "StrictHostKeyChecking yes", "BatchMode yes"]
        self.ssh_config.write_text("\n  ".join(["Host vm", *address, *ssh_options]) + "\n")

    def start(self):
        """Switch it on, and return as soon as one can log in."""
        self.switch_on()
        self.wait_for_login()

    def switch_on(self):
        """Switch it on, and return at once."""
        backing = ["-b", self._disk, "-F", "raw"]
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *backing, self._overlay], check=True, timeout=60)
        self._process = subprocess.Popen(
            [
                *self._firmware.command(self._overlay.parent),
                *("-accel", "tcg,thread=multi,tb-size=1024", "-smp", "2", "-m", "2048"),
                *("-nographic", "-nodefaults", "-serial", "stdio"),
                *_drive(SYSTEM, self._overlay, "qcow2"),
                *(word for serial, path in self._disks.items() for word in _drive(serial, path, "raw")),
                *("-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{self._port}-:22"),
                *("-device", "virtio-net-pci,netdev=net,romfile="),
                *self.wire,
            ],
            stdin=subprocess.PIPE,
            stdout=self._console.open("wb"),
        )

    def wait_for_login(self):
        """Return as soon as one can log in."""
        self._wait(lambda: self._ssh("true", timeout=30).returncode == 0)

    def reboot(self, at_console=lambda: None):
        """Let it reboot, and return as soon as its boot is over and one can log in.

        at_console is called meanwhile: it may wait for what the console shows, and press keys.
        """
        before = self.boot_id()
        self._read = len(self.console())
        self._ssh("systemctl reboot", timeout=60)
        at_console()
        self._wait(lambda: self._ssh(f"! grep -q {before} {BOOT_ID}", timeout=30).returncode == 0)
        self.run("systemctl is-system-running --wait || true", BOOT_SECONDS)

    def _wait(self, reached):
        deadline = time.monotonic() + BOOT_SECONDS
        while not reached():
            if self._process.poll() is not None or time.monotonic() > deadline:
                message = f"the machine does not answer; its console:\n{self.console()[-3000:]}"
                raise AssertionError(message)
            time.sleep(1)

    def stop(self):
        """Pull the plug."""
        if self._process:
            self._process.kill()
            self._process.wait(timeout=30)

    def console(self):
        """Return what it wrote on its console."""
        return self._console.read_text(errors="replace")

    def wait_for_screen(self, pattern):
        """Wait until the console has a text after the last key or the last start; return what it has shown since."""

        def shown():
            return ESCAPES.sub("", self.console()[self._read :])

        self._wait(lambda: re.search(pattern, shown(), re.DOTALL))
        return shown()

    def press(self, *keys):
        """Press keys at the console, one after the other, as a person does."""
        time.sleep(KEY_SECONDS)  # the screen may be half drawn
        self._read = len(self.console())
        for key in keys:
            self._process.stdin.write(key.encode())
            self._process.stdin.flush()
            time.sleep(KEY_SECONDS)

    def run(self, script, timeout=300):
        """Run a shell script on it as root; return what it printed. Fails when it fails."""
        done = self._ssh(script, timeout)
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        return done.stdout.rstrip("\n")

    def fails(self, script, timeout=300):
        """Run a shell script on it as root that must fail; return what it printed."""
        done = self._ssh(script, timeout)
        assert done.returncode not in (0, NO_ANSWER), f"{script}\n{done.stdout}"
        return done.stdout.rstrip("\n")

    def boot_id(self):
        """Return what is new with every boot."""
        return self.run(f"cat {BOOT_ID}")

    def _ssh(self, script, timeout):
        command = f"sudo sh -ec {shlex.quote(script)} 2>&1"
        argv = ["ssh", "-F", self.ssh_config, "-o", "ConnectTimeout=20", "vm", command]
        try:
            return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=timeout)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, NO_ANSWER, f"no end after {timeout} s", "")


def _drive(serial, path, image_format):
    return (
        *("-drive", f"file={path},if=none,id={serial},format={image_format},cache=unsafe"),
        *("-device", f"virtio-blk-pci,drive={serial},serial={serial}"),
    )


def wires(port):
    """Return the ends of a wire between two machines, which is a TCP connection to a port of this one.

    The machine of the first end has to be there before the other. QEMU's user network lets nobody in.
    """
    ends = (f"listen=127.0.0.1:{port}", f"connect=127.0.0.1:{port}")
    return [
        ("-netdev", f"socket,id=wire,{end}", "-device", f"virtio-net-pci,netdev=wire,romfile=,mac=52:54:00:99:00:0{nr}")
        for nr, end in enumerate(ends, 1)
    ]


def free_port():
    """Return a port of this machine that nobody listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
