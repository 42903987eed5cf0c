# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a planned installation goes onto media: with gpulab's image, or as answers for a distribution's installer."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from ansible_collections.gpulab.node.plugins.module_utils.core.processors import AMD64
from ansible_collections.gpulab.node.plugins.module_utils.installer import plan as plans
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import (
    archive,
    autoinstall,
    boot_menu,
    image,
    kickstart,
    lint,
    media,
    preseed,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild import planned
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.case import Installer
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.new_system import SSHD
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.new_system import NewFile

NETBOOT = "/usr/lib/debian-installer/images/{version}/amd64/text/debian-installer/amd64"
NETBOOT_PACKAGE = "debian-installer-{version}-netboot-amd64"
# Systems that gpulab makes no image of, but answers for their own installer; the sizes are of a minimal installation.
_MACHINES: dict[str, dict[str, object]] = {AMD64: {plans.BIOS: [], plans.UEFI: []}}
WITHOUT_IMAGE = [
    Installer(f"{name}-{version}", "", _MACHINES, least_memory_mib=3072, least_disk_mib=10240)
    for name in ("rhel", "rocky", "almalinux")
    for version in (9, 10)
]
_NAMED_KEY = re.compile(rb"^HostKey .*\n", re.MULTILINE)
IMAGES = "gpulab/images"


@dataclass(frozen=True)
class Ready:
    """A host that is planned: its name as that of a file, the installer's plan, and the files of the new system.

    unattended says whether its installation asks nobody.
    """

    host: str
    plan: plans.Plan
    files: dict[str, NewFile]
    unattended: bool

    def without_secrets(self, host_keys: Iterable[str]) -> Ready:
        """Return it without these host keys, and without the hash of a password."""
        left_out = {path for key in host_keys for path in (key, f"{key}.pub")}
        files = {path: one for path, one in self.files.items() if path not in left_out}
        if SSHD in files:
            files[SSHD] = replace(files[SSHD], content=_NAMED_KEY.sub(b"", files[SSHD].content))
        user = {**self.plan["user"], "password": None}
        return replace(self, plan=plans.identified({**self.plan, "user": user}), files=files)

    def own(self) -> str:
        """Return the path on the media of what is its own."""
        return f"{boot_menu.HOSTS}/{self.host}.cpio.gz"

    def entry(self, kernel: str, initrd: str, arguments: Sequence[str], installed: tuple[str, str]) -> boot_menu.Entry:
        """Return its entry in GRUB's menus."""
        disk = self.plan["disk"]
        words = f"{'serial number' if disk['kind'] == plans.SERIAL else 'WWN'} {disk['value']}"
        machine = self.plan["machine"]["dmi_uuid"]
        initrds = (initrd, self.own())
        return boot_menu.Entry(self.host, machine, words, kernel, initrds, arguments, installed, self.unattended)


def of_image(ready: Ready, of: image.Image) -> media.Part:
    """Return a host's part with the image: the tree is shared, the rest is its own."""
    kernel, tree = (f"{IMAGES}/{of.path.name}/{name}" for name in (image.KERNEL, image.TREE))
    arguments = planned.kernel_arguments(ready.plan, refused="poweroff", source="media")
    entry = ready.entry(kernel, tree, arguments, ("--fs-uuid", plans.guid(ready.plan, plans.ROOT_FILESYSTEM)))
    own = archive.host_part(ready.plan, ready.files)
    return media.Part(entry, {kernel: of.kernel, tree: of.tree, ready.own(): own})


def netboot(system: str, directory: str | None) -> tuple[Path, Path]:
    """Return the kernel and the initrd of Debian's installer. Raises Refusal R053."""
    version = system.rpartition("-")[2]
    place = Path(directory or NETBOOT.format(version=version))
    paths = place / "linux", place / "initrd.gz"
    missing = [str(path) for path in paths if not path.is_file()]
    if missing:
        package = NETBOOT_PACKAGE.format(version=version)
        way = f"Install the package {package}, or put both files elsewhere and set reinstall_media_netboot"
        raise refuse("R053", what=" and ".join(missing), way=way)
    return paths


def of_debian(ready: Ready, record: Installer, address: str, paths: tuple[Path, Path]) -> media.Part:
    """Return a host's part with Debian's own installer.

    address is that of a mirror, paths are the installer's kernel and initrd. Raises Refusal R055.
    """
    members = preseed.render(ready.plan, ready.files, address, record.codename)
    _lint(ready.host, lint.of_preseed(members["preseed.cfg"].content.decode("ascii")))
    name = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:12]
    kernel, initrd = (f"{IMAGES}/{record.system}-netboot-{name}/{path.name}" for path in paths)
    arguments = ["auto=true", "priority=critical", "preseed/file=/preseed.cfg", *ready.plan["kernel_arguments"]]
    entry = ready.entry(kernel, initrd, arguments, ("--file", f"/boot/gpulab-{ready.plan['id']}"))
    return media.Part(entry, {kernel: paths[0], initrd: paths[1], ready.own(): preseed.packed(members)})


def of_others(ready: Ready, system: str, repository: str) -> media.Volume:
    """Return the answers for the installer of Ubuntu, or of RHEL, Rocky or Alma. Raises Refusal R055."""
    if system.startswith("ubuntu-"):
        found = autoinstall.render(ready.plan, ready.files)
        _lint(ready.host, lint.of_autoinstall(yaml.safe_load(found["user-data"])["autoinstall"]))
        return media.Volume(ready.host, "CIDATA", found)
    found = kickstart.render(ready.plan, ready.files, repository)
    _lint(ready.host, lint.of_kickstart(found["ks.cfg"].decode("ascii")))
    return media.Volume(ready.host, "OEMDRV", found)


def _lint(host: str, faults: Iterable[str]) -> None:
    wrong = list(faults)
    if wrong:
        raise refuse("R055", host=host, detail="; ".join(wrong))
