"""A plan of an installer, and a machine as a distribution's installer sees it, for tests."""

import os
import subprocess
from pathlib import Path

from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.new_system import NewFile

MACHINE = "4c4c4544-0042-3010-8056-b4c04f373132"
TABLE, ROOT_FS, DATA_FS = "6d1b3c1e-aaaa-4444-8888-000000000001", "0aa0-ROOT", "7c7c7c7c-0000-4000-8000-00000000dada"
SYSTEM = {"kind": "serial", "value": "S5GXNX0T1", "size": 512_000_000_000, "holds": [TABLE.upper(), "0AA0-root"]}
DATA = {"kind": "wwn", "value": "0x5000c500a1b2c3d4", "size": 4_000_000_000_000, "holds": [DATA_FS]}
USER = {
    "name": "admin",
    "uid": 1007,
    "gid": 1008,
    "group": "staff2",
    "gecos": "The admin's own",
    "home": "/home/admin",
    "shell": "/bin/bash",
    "password": "$6$salt$hash",
}
# What runs as a program of the installer. A disk leaves when somebody waits for it; who waits for longer is stopped.
STUBS = {
    "udevadm": """
case "$*" in settle) exit 0 ;; esac
cat "$GPULAB_ROOT/udev/${3##*/}" """,
    "sleep": """
echo "sleep $1" >>"$GPULAB_ROOT/log"
if [ "$1" = 60 ]; then kill "$PPID"; fi
for leaving in "$GPULAB_ROOT"/leaving/*; do
    if [ "$(cat "$leaving/way")" = 1 ]; then rm -rf "$GPULAB_ROOT/sys/block/${leaving##*/}"; fi
done""",
    "debconf-set": 'echo "debconf-set $*" >>"$GPULAB_ROOT/log"',
    "swapoff": 'echo "swapoff $*" >>"$GPULAB_ROOT/log"',
    "vgchange": 'echo "vgchange $*" >>"$GPULAB_ROOT/log"',
}


def plan(**changes):
    """Return an installer's plan for a machine with a system disk and a disk with data."""
    return {
        "schema": 1,
        "id": "0123456789abcdef",
        "host": "node07",
        "capture": "20261126T021500Z",
        "made": "2026-11-26T02:15:00Z",
        "machine": {"dmi_uuid": MACHINE},
        "disk": SYSTEM,
        "kept": [DATA],
        "firmware": "uefi",
        "hostname": "node07",
        "user": USER,
        "kernel_arguments": ["console=tty0", "console=ttyS0"],
        "minutes": 15,
        **changes,
    }


def files():
    """Return the files of the installed system."""
    return {
        "/etc/hostname": NewFile(b"node07\n", 0o644),
        "/etc/ssh/ssh_host_ed25519_key": NewFile(b"PRIVATE\n", 0o600),
        "/home/admin/.ssh/authorized_keys": NewFile(b"ssh-ed25519 AAAA\n", 0o600, 1007, 1008),
    }


class Machine:
    """What /sys, /dev and udev say on a machine, below a directory."""

    def __init__(self, root, firmware="uefi", machine=MACHINE):
        """Make a machine without disks."""
        self.root = Path(root)
        for place in ("sys/block", "dev/disk/by-id", "proc", "udev", "leaving", "bin", "run/gpulab", "tmp"):
            (self.root / place).mkdir(parents=True)
        self._write("sys/class/dmi/id/product_uuid", machine.upper() + "\n")
        self._write("proc/mounts", "rootfs / rootfs rw 0 0\n")
        self._write("dev/console", "")
        self._write("autoinstall.yaml", '"serial": "gpulab-planned-disk"\n')
        self._write("run/gpulab/storage.ks", "clearpart --drives=/dev/disk/by-id/@DISK@\n")
        if firmware == "uefi":
            self._write("sys/firmware/efi/systab", "")
        for name, body in STUBS.items():
            path = self._write(f"bin/{name}", f"#!/bin/sh\n{body}\n")
            path.chmod(0o755)

    def _write(self, place, text):
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def disk(self, name, of=SYSTEM, *, holds=None, way="delete", **properties):
        """Add a disk with one partition; way is how it leaves the kernel: delete, remove, nvme or none."""
        port = f"sys/devices/pci0000:00/0000:00:1f.{len(list((self.root / 'sys/block').iterdir()))}"
        device = self.root / port / ("nvme/nvme0" if way == "nvme" else "host0")
        device.mkdir(parents=True)
        block = self.root / "sys/block" / name
        part = f"{name}p1" if name[-1].isdigit() else f"{name}1"
        (block / part).mkdir(parents=True)
        (block / "size").write_text(f"{of['size'] // 512}\n")
        (block / "device").symlink_to(device)
        place = {
            "delete": device / "delete",
            "remove": self.root / port / "remove",
            "nvme": self.root / port / "remove",
        }
        if way == "nvme":
            (device / "device").symlink_to(self.root / port)
        file = place.get(way)
        if file:
            file.write_text("")
            (self.root / "leaving" / name).mkdir()
            (self.root / "leaving" / name / "way").symlink_to(file)
        names = {"serial": "ID_SERIAL_SHORT", "wwn": "ID_WWN"}
        known = {names[of["kind"]]: of["value"]} if of["kind"] else {}
        known = {"ID_SERIAL": f"Samsung_SSD_{of['value']}", **known, **properties}
        first, *rest = [*(of["holds"] if holds is None else holds), ""]
        self._write(f"udev/{name}", "".join(f"{key}={value}\n" for key, value in known.items()))
        with (self.root / "udev" / name).open("a") as stream:
            stream.write(f"ID_PART_TABLE_UUID={first}\n")
        self._write(f"udev/{part}", f"ID_FS_UUID={rest[0] if rest else ''}\n")
        node = self._write(f"dev/{name}", "")
        (self.root / "dev/disk/by-id" / f"ata-{name}-{of['value']}").symlink_to(node)
        return file

    def mount(self, source):
        """Let something of a disk be mounted."""
        with (self.root / "proc/mounts").open("a") as stream:
            stream.write(f"/dev/{source} /cdrom iso9660 ro 0 0\n")

    def run(self, script):
        """Run a script; return (exit status, what it said on the console, what it called)."""
        environment = {"PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", "GPULAB_ROOT": str(self.root)}
        done = subprocess.run(["sh", "-c", script], env=environment, check=False, timeout=60)
        log = self.root / "log"
        return done.returncode, (self.root / "dev/console").read_text(), log.read_text() if log.exists() else ""

    def is_off(self):
        """Tell whether it was switched off."""
        trigger = self.root / "proc/sysrq-trigger"
        return trigger.exists() and trigger.read_text() == "o\n"

    def disks(self):
        """Return the disks that the kernel has."""
        return sorted(path.name for path in (self.root / "sys/block").iterdir())
