# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install this tree, which runs from memory, on one disk: the only part that writes to a disk.

The installer itself comes first, so that a disk that lost power half way boots it again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Callable

from ansible_collections.gpulab.node.plugins.module_utils.core.processors import AMD64, ARM64
from ansible_collections.gpulab.node.plugins.module_utils.installer import cpio, texts
from ansible_collections.gpulab.node.plugins.module_utils.installer import plan as plans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import Plan

MOUNT = Path("/run/gpulab/new")
PACKED = Path("/run/gpulab/initrd")
OWN = Path("/gpulab")
NOT_COPIED = ("dev", "gpulab", "mnt", "proc", "run", "sys", "tmp")
# GRUB's names of where it runs, by the kernel's name of the processor and the firmware
_TARGETS = {
    (AMD64, plans.BIOS): "i386-pc",
    (AMD64, plans.UEFI): "x86_64-efi",
    (ARM64, plans.UEFI): "arm64-efi",
}
_FILES = ("passwd", "group", "shadow", "gshadow")
_RESOLVED = "../run/systemd/resolve/stub-resolv.conf"
SHELL = "/bin/bash"
SECONDS = 1200.0  # for one command
_SETTLE = ["udevadm", "settle", "--timeout=60"]


class FailedError(Exception):
    """A step failed; its text says which, and why."""


def run(argv: Sequence[str | Path], given: str = "") -> str:
    """Run a command; return what it printed. Raises FailedError."""
    name = " ".join(map(str, argv[:4]))
    try:
        done = subprocess.run(
            argv,
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        message = f"{name}: {error}"
        raise FailedError(message) from error
    if done.returncode:
        message = f"{name} ended with {done.returncode}: {' / '.join(done.stdout.splitlines()[-3:])}"
        raise FailedError(message)
    return done.stdout


def hindrances(plan: Plan, root: Path = Path("/")) -> Iterator[str]:
    """Yield why this tree cannot be installed by the plan: what would fail when the disk is wiped already."""
    modules = root / "usr/lib/grub" / _target(plan)
    programs = ["wipefs", "sfdisk", "mkfs.ext4", "grub-install", "update-grub", "zstd"]
    programs += ["mkfs.vfat"] if plan["firmware"] == plans.UEFI else []
    for program in programs:
        if not any((root / place / program).exists() for place in ("usr/sbin", "usr/bin", "sbin", "bin")):
            yield f"This image has no {program}."
    if not modules.is_dir():
        yield f"This image was made for another firmware: it has no {modules}."
    if len(kernels(root)) != 1:
        yield f"This image has {len(kernels(root))} kernels."
    yield from texts.hindrances(plan, {name: _text(root / "etc" / name) for name in ("passwd", "group")})


def _target(plan: Plan) -> str:
    return _TARGETS[os.uname().machine, plan["firmware"]]


def kernels(root: Path) -> list[Path]:
    """Return the kernels of a tree."""
    return sorted((root / "boot").glob("vmlinuz-*"))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape")


def pack(root: Path = Path("/"), target: Path = PACKED) -> None:
    """Pack this tree, with the plan, as the installer that starts from the disk. Raises FailedError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(
        ["zstd", "--quiet", "-1", "--threads=0", "--force", "-o", target], stdin=subprocess.PIPE
    ) as process:
        if process.stdin is None:
            raise AssertionError  # it is a pipe
        cpio.pack(root, [name for name in NOT_COPIED if name != OWN.name], cpio.Writer(process.stdin.write))
        process.stdin.close()
    if process.returncode:
        message = f"zstd ended with {process.returncode}"
        raise FailedError(message)


class Installation:
    """An installation by a plan on a disk (its path); say is told each step."""

    def __init__(self, plan: Plan, disk: str, started: texts.Start, say: Callable[[str], None]) -> None:
        """Nothing is written yet."""
        self._plan, self._disk, self._started, self._say = plan, disk, started, say
        self._uefi = plan["firmware"] == plans.UEFI

    def run(self) -> None:
        """Install. Raises FailedError and OSError; the disk then boots the installer again, if it came so far."""
        self._say("1 of 5: partitions and file systems")
        self._partition()
        self._say("2 of 5: the installer itself, for the case that this is interrupted")
        self._second_start()
        self._say("3 of 5: the system")
        self._tree()
        self._say("4 of 5: the files and the user of the plan")
        self._configure()
        self._say("5 of 5: the boot menu")
        self._finish()

    def _partition(self) -> None:
        for path in [*self._partitions(), self._disk]:
            run(["wipefs", "--all", "--force", path])
        script = texts.partitions(self._plan, os.uname().machine)
        run(["sfdisk", "--wipe=always", "--wipe-partitions=always", self._disk], script)
        run(_SETTLE)
        first, root = self._partitions()
        uuid = plans.guid(self._plan, plans.ROOT_FILESYSTEM)
        run(["mkfs.ext4", "-q", "-F", "-U", uuid, "-L", "root", root])
        MOUNT.mkdir(parents=True, exist_ok=True)
        run(["mount", root, MOUNT])
        (MOUNT / "boot/grub").mkdir(parents=True)
        if self._uefi:
            run(["mkfs.vfat", "-F", "32", "-i", texts.esp_serial(self._plan), first])
            (MOUNT / "boot/efi").mkdir()
            run(["mount", first, MOUNT / "boot/efi"])
        run(_SETTLE)

    def _partitions(self) -> list[str]:
        """Return the paths of the disk's partitions, in their order."""
        place = Path("/sys/block", Path(self._disk).name)
        found = {path.name: int(_text(path / "partition")) for path in place.iterdir() if (path / "partition").exists()}
        return [f"/dev/{name}" for name in sorted(found, key=lambda name: found[name])]

    def _second_start(self) -> None:
        own = MOUNT / "boot/gpulab"
        own.mkdir(mode=0o700)
        (kernel,) = kernels(Path("/"))
        shutil.copyfile(kernel, own / "vmlinuz")
        shutil.copyfile(PACKED, own / "initrd")
        (own / "initrd").chmod(0o600)
        (MOUNT / "boot/grub/grub.cfg").write_text(texts.second_menu(self._plan, self._started), encoding="ascii")
        os.sync()
        self._grub()
        os.sync()

    def _grub(self) -> None:
        common = [f"--target={_target(self._plan)}", f"--boot-directory={MOUNT}/boot"]
        if not self._uefi:
            run(["grub-install", *common, self._disk])
            return
        common += [f"--efi-directory={MOUNT}/boot/efi", "--uefi-secure-boot"]
        run(["grub-install", *common, "--removable", "--no-nvram"])
        try:
            run(["grub-install", *common])
        except FailedError as error:  # it boots the removable path
            self._say(f"the firmware takes no boot entry: {error}")
            run(["grub-install", *common, "--no-nvram"])

    def _tree(self) -> None:
        for path in sorted(Path("/").iterdir()):
            if path.name not in NOT_COPIED:
                run(["cp", "--archive", "--one-file-system", path, MOUNT])
        for name in NOT_COPIED:
            if name != OWN.name:
                (MOUNT / name).mkdir(exist_ok=True)
        (MOUNT / "tmp").chmod(0o1777)

    def _configure(self) -> None:
        etc = MOUNT / "etc"
        user = self._plan["user"]
        (etc / "hostname").write_text(f"{self._plan['hostname']}\n", encoding="utf-8")
        (etc / "fstab").write_text(texts.fstab(self._plan), encoding="utf-8")
        add_grub_defaults(self._plan, etc / "default/grub")
        files = {name: _text(etc / name) for name in _FILES}
        shell = user["shell"] if (MOUNT / user["shell"].lstrip("/")).exists() else SHELL  # nobody logs in without one
        for name, text in texts.accounts(self._plan, files, shell).items():
            (etc / name).write_text(text, encoding="utf-8", errors="surrogateescape")
        home = MOUNT / user["home"].lstrip("/")
        if not home.exists():
            home.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(etc / "skel", home, symlinks=True)
            for path in [home, *home.rglob("*")]:
                os.chown(path, user["uid"], user["gid"], follow_symlinks=False)
            home.chmod(0o700)
        placed = place_files(OWN / "target", MOUNT)
        if not list((etc / "ssh").glob("ssh_host_*_key")):
            run(["chroot", MOUNT, "ssh-keygen", "-A"])
        self._network(placed)
        if not self._uefi:
            chosen = f"grub-pc grub-pc/install_devices multiselect {by_id(self._disk)}\n"
            run(["chroot", MOUNT, "debconf-set-selections"], chosen)

    def _network(self, placed: list[str]) -> None:
        """Enable what reads the network files of the plan."""
        if any(path.startswith(("/etc/systemd/network/", "/etc/netplan/")) for path in placed):
            units = ["systemd-networkd.service"]
            if (MOUNT / "usr/lib/systemd/system/systemd-resolved.service").exists():
                units.append("systemd-resolved.service")
                if "/etc/resolv.conf" not in placed:
                    link = MOUNT / "etc/resolv.conf"
                    link.unlink(missing_ok=True)
                    link.symlink_to(_RESOLVED)
            run(["systemctl", f"--root={MOUNT}", "enable", *units])

    def _finish(self) -> None:
        made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        (MOUNT / "etc/gpulab-installed-by").write_text(texts.marker(self._plan, made), encoding="ascii")
        for name in ("dev", "proc", "sys"):
            run(["mount", "--rbind", f"/{name}", MOUNT / name])
        os.sync()
        run(["chroot", MOUNT, "update-grub"])
        os.sync()
        shutil.rmtree(MOUNT / "boot/gpulab")
        for name in ("dev", "proc", "sys"):
            run(["umount", "--recursive", "--lazy", MOUNT / name])
        os.sync()
        run(["umount", "--recursive", MOUNT])
        # Another start of the installer by this plan must not wipe what is whole now.
        run(["sfdisk", "--no-reread", "--disk-id", self._disk, plans.guid(self._plan, plans.DONE)])
        os.sync()


def add_grub_defaults(plan: Plan, path: Path) -> None:
    """Add the plan's settings to GRUB's own file, which the captured one replaces in the rebuild.

    A file in grub.d would override that one, and what gpulab's roles write, for ever.
    """
    with path.open("a", encoding="utf-8") as stream:
        stream.write(texts.grub_defaults(plan))


def place_files(source: Path, target: Path) -> list[str]:
    """Copy files with their rights and owners into a tree; return their paths there.

    A link in the place of a file is replaced. A directory that is missing gets the owner of the file, and is for that
    one alone where others may not read the file.
    """
    placed = []
    for path in sorted(source.rglob("*")):
        if path.is_dir():
            continue
        found, relative = path.stat(), path.relative_to(source)
        place = target / relative
        for above in reversed(place.parents):
            if not above.exists():
                above.mkdir()
                above.chmod(0o755 if found.st_mode & 0o004 else 0o700)
                os.chown(above, found.st_uid, found.st_gid)
        place.unlink(missing_ok=True)
        shutil.copyfile(path, place)
        os.chown(place, found.st_uid, found.st_gid)
        place.chmod(found.st_mode & 0o7777)
        placed.append(f"/{relative}")
    return placed


def by_id(disk: str, directory: Path = Path("/dev/disk/by-id")) -> str:
    """Return the lasting name of a disk; its own where udev knows none."""
    links = sorted(path for path in directory.glob("*") if path.resolve() == Path(disk))
    return str(links[0] if links else disk)
