"""The disk of a machine for arm64 on a controller of another architecture: its packages set up under emulation.

It has what an installer leaves: GPT, Debian's signed shim and GRUB on the EFI system partition, an administrator.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import golden
import yaml

RELEASE = "bookworm"
PACKAGES = (
    *("ca-certificates", "dbus", "initramfs-tools", "iproute2", "kmod", "libpam-systemd", "linux-image-arm64"),
    *("grub-efi-arm64", "grub-efi-arm64-signed", "shim-signed"),
    *("openssh-server", "pciutils", "procps", "python3", "python3-apt", "sudo", "systemd-sysv", "udev", "zstd"),
)
SUITES = (
    f"deb http://deb.debian.org/debian {RELEASE} main",
    f"deb http://deb.debian.org/debian {RELEASE}-updates main",
    f"deb http://deb.debian.org/debian-security {RELEASE}-security main",
)
LOADERS = {  # on the EFI system partition, with what the tree has them as
    "EFI/BOOT/BOOTAA64.EFI": "usr/lib/shim/shimaa64.efi.signed",
    "EFI/BOOT/grubaa64.efi": "usr/lib/grub/arm64-efi-signed/grubaa64.efi.signed",
}
MODULES = "virtio_pci\nvirtio_blk\ncrc32c_generic\next4\n"  # most of them take minutes to be copied by an emulator
ESP_MIB, ROOT_MIB = 64, 32768  # sparse
SECONDS = 3600
FILES = {
    "etc/hostname": f"{golden.NODE}\n",
    "etc/hosts": f"127.0.0.1 localhost {golden.NODE}\n",
    "etc/resolv.conf": "nameserver 10.0.2.3\n",  # of QEMU's user network
    "etc/fstab": "PARTLABEL=root / ext4 errors=remount-ro 0 1\nPARTLABEL=esp /boot/efi vfat umask=0077 0 2\n",
    "etc/systemd/network/vm.network": "[Match]\nName=en*\n[Network]\nDHCP=yes\n",
    "etc/sudoers.d/admin": "admin ALL=(ALL) NOPASSWD: ALL\n",
    "etc/default/grub": 'GRUB_TIMEOUT=0\nGRUB_TERMINAL=console\nGRUB_CMDLINE_LINUX="console=ttyAMA0"\n',
    "etc/dpkg/dpkg.cfg.d/lab": "force-unsafe-io\n",
    "etc/machine-id": "",
}
MENU = """set timeout=0
menuentry 'Debian GNU/Linux' {
    linux /vmlinuz root=PARTLABEL=root ro console=ttyAMA0
    initrd /initrd.img
}
"""


class Golden:
    """A directory with the disk, and the key, the known host and the inventory of the machine on it."""

    def __init__(self):
        """Name it by this file."""
        digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
        self.directory = golden.CACHE / f"arm64-{digest}"
        self.disk = self.directory / "disk.raw"
        self.inventory = self.directory / "inventory"
        self.ssh_options = [
            "User admin",
            f"IdentityFile {self.directory}/id",
            "IdentitiesOnly yes",
            f"UserKnownHostsFile {self.directory}/known_hosts",
            f"HostKeyAlias {golden.NODE}",
        ]

    def make(self, say):
        """Make the disk unless it is there."""
        if self.disk.exists():
            say(f"the disk is there: {self.directory}")
            return
        for former in golden.CACHE.glob("arm64-*"):
            shutil.rmtree(former)
        self.inventory.mkdir(parents=True, mode=0o700)
        for name in ("id", "host"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", golden.NODE, "-f", self.directory / name)
        known = (self.directory / "host.pub").read_text()
        (self.directory / "known_hosts").write_text(f"{golden.NODE} {known}")
        types = yaml.safe_load((golden.ROOT / "catalog/host_types.yml").read_text())["host_types"]
        nothing = {one["option"]: None for host_type in types for one in host_type["options"]}
        host = {**nothing, "ansible_user": "admin", "ansible_python_interpreter": "/usr/bin/python3"}
        groups = {"gpu-nodes": {"children": {"workstations": {"hosts": {golden.NODE: host}}}}}
        (self.inventory / "hosts.yml").write_text(json.dumps(groups))
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            root = Path(directory, "root")
            say("making a tree of Debian for arm64, which takes a while")
            _bootstrap(root)
            say("writing its disk")
            _configure(root, self.directory)
            _write(root, Path(directory), self.disk)


def _run(*argv, **options):
    subprocess.run(argv, check=True, timeout=SECONDS, **options)


def register_emulator():
    """Let the kernel here start programs of arm64, by the emulator of Debian's package."""
    registered = Path("/proc/sys/fs/binfmt_misc")
    if not (registered / "register").exists():
        _run("mount", "-t", "binfmt_misc", "binfmt_misc", registered)
    if not (registered / "qemu-aarch64").exists():
        _run("update-binfmts", "--import", "qemu-aarch64")
        _run("update-binfmts", "--enable", "qemu-aarch64")


def _bootstrap(root):
    """Make the tree."""
    register_emulator()
    initramfs = (
        'mkdir -p "$1/etc/initramfs-tools/conf.d" && echo MODULES=list > "$1/etc/initramfs-tools/conf.d/vm"'
        f' && printf "{MODULES!r}" > "$1/etc/initramfs-tools/modules"'.replace("'", "")
    )
    _run(
        "mmdebstrap",
        *("--quiet", "--mode=root", "--variant=minbase", "--architectures=arm64", f"--include={','.join(PACKAGES)}"),
        *("--dpkgopt=force-confold", "--dpkgopt=force-unsafe-io", f"--essential-hook={initramfs}"),
        '--customize-hook=chroot "$1" useradd --create-home --shell /bin/bash admin',
        '--customize-hook=chroot "$1" systemctl enable systemd-networkd.service',
        *(RELEASE, root, *SUITES),
    )


def _configure(root, keys):
    for name, content in FILES.items():
        path = root / name
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (root / "boot/grub").mkdir(exist_ok=True)
    (root / "boot/grub/grub.cfg").write_text(MENU)
    (root / "boot/efi").mkdir(exist_ok=True)
    for path in root.glob("etc/ssh/ssh_host_*"):
        path.unlink()
    for source, target in (("host", "ssh_host_ed25519_key"), ("host.pub", "ssh_host_ed25519_key.pub")):
        shutil.copyfile(keys / source, root / "etc/ssh" / target)
        (root / "etc/ssh" / target).chmod(0o600)
    authorized = root / "home/admin/.ssh/authorized_keys"
    authorized.parent.mkdir(mode=0o700)
    shutil.copyfile(keys / "id.pub", authorized)
    owner = (root / "home/admin").stat()
    for path in (authorized.parent, authorized):
        os.chown(path, owner.st_uid, owner.st_gid)


def _write(root, directory, disk):
    """Write the disk: a GPT, the EFI system partition and the tree's."""
    esp, image = directory / "esp", directory / "disk"
    menu = directory / "esp.cfg"
    menu.write_text("search --no-floppy --set=root --file /boot/grub/grub.cfg\nconfigfile /boot/grub/grub.cfg\n")
    for path, mib in ((esp, ESP_MIB), (image, ESP_MIB + ROOT_MIB + 2)):
        with path.open("wb") as file:
            file.truncate(mib << 20)
    _run("mformat", "-F", "-i", esp, "::")
    _run("mmd", "-i", esp, "::EFI", "::EFI/BOOT", "::EFI/debian")
    for name, source in LOADERS.items():
        _run("mcopy", "-i", esp, root / source, f"::{name}")
    _run("mcopy", "-i", esp, menu, "::EFI/debian/grub.cfg")  # where the signed GRUB looks
    table = f"label: gpt\nstart=1MiB, size={ESP_MIB}MiB, type=U, name=esp\nsize={ROOT_MIB}MiB, type=L, name=root\n"
    _run("sfdisk", "--quiet", image, input=table.encode())
    _run("dd", f"if={esp}", f"of={image}", "bs=1M", "seek=1", "conv=sparse,notrunc", "status=none")
    _run("mkfs.ext4", "-q", "-F", "-E", f"offset={1 + ESP_MIB << 20}", "-d", root, image, f"{ROOT_MIB}M")
    image.rename(disk)
