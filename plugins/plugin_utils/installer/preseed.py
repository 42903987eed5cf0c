# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers for Debian's installer: a preseed file, and what lies beside it in the initrd."""

from __future__ import annotations

import gzip
import io
import os
import posixpath
import stat
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ansible_collections.gpulab.node.plugins.module_utils.installer.cpio import Member, Writer
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import scripts
from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.new_system import NewFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import Plan

PLACE = "/gpulab"
RECIPE = (
    "gpulab :: "
    "1 1 1 free $iflabel{ gpt } $reusemethod{ } method{ biosgrub } . "
    "512 512 512 fat32 $iflabel{ gpt } $reusemethod{ } method{ efi } format{ } . "
    "4096 10000 -1 ext4 method{ format } format{ } use_filesystem{ } filesystem{ ext4 } mountpoint{ / } ."
)


def render(plan: Plan, files: Mapping[str, NewFile], mirror: str, suite: str) -> dict[str, NewFile]:
    """Return the files for the root of the installer's initrd, by path.

    plan is an installer's plan, files are those of the installed system; mirror is the address of a mirror of Debian,
    and suite the release's code name.
    """
    text = "".join(f"{line}\n" for line in _lines(plan, mirror, suite))
    beside = scripts.members(plan, files, "preseed", PLACE)
    return {
        "preseed.cfg": NewFile(text.encode("ascii"), 0o600),
        **{f"{PLACE[1:]}/{path}": one for path, one in beside.items()},
    }


def packed(members: Mapping[str, NewFile]) -> bytes:
    """Return what render returns as a gzip'd cpio archive, which follows the installer's own initrd."""
    buffer = io.BytesIO()
    writer = Writer(buffer.write)
    made = {""}
    for path, one in sorted(members.items()):
        steps = path.split("/")[:-1]
        for place in (posixpath.join(*steps[: count + 1]) for count in range(len(steps))):
            if place not in made:
                made.add(place)
                writer.add(Member(os.fsencode(place), stat.S_IFDIR | 0o700))
        whole = Member(os.fsencode(path), stat.S_IFREG | one.mode, (one.uid, one.gid), size=len(one.content))
        writer.add(whole, [one.content])
    writer.end()
    return gzip.compress(buffer.getvalue(), mtime=0)


def _lines(plan: Plan, mirror: str, suite: str) -> list[str]:
    address = urlsplit(mirror)
    answers = {
        "debian-installer/locale": "string en_US.UTF-8",
        "keyboard-configuration/xkb-keymap": "select us",
        "netcfg/choose_interface": "select auto",
        "netcfg/get_hostname": f"string {plan['hostname']}",
        "netcfg/get_domain": "string",
        "hw-detect/load_firmware": "boolean false",
        "mirror/protocol": f"string {address.scheme}",
        "mirror/country": "string manual",
        f"mirror/{address.scheme}/hostname": f"string {address.netloc}",
        f"mirror/{address.scheme}/directory": f"string {address.path.rstrip('/') or '/'}",
        f"mirror/{address.scheme}/proxy": "string",
        "mirror/suite": f"string {suite}",
        "clock-setup/utc": "boolean true",
        "clock-setup/ntp": "boolean true",
        "time/zone": "string UTC",
        "passwd/root-login": "boolean true",
        "passwd/root-password-crypted": "password !",
        "passwd/make-user": "boolean false",
        # The guard says which disk, and stops here when it has to.
        "partman/early_command": f"string sh {PLACE}/{scripts.GUARD}",
        "partman-auto/method": "string regular",
        "partman-auto/expert_recipe": f"string {RECIPE}",
        "partman-partitioning/choose_label": "select gpt",
        "partman-partitioning/default_label": "string gpt",
        "partman-partitioning/confirm_write_new_label": "boolean true",
        "partman-lvm/device_remove_lvm": "boolean true",
        "partman-md/device_remove_md": "boolean true",
        "partman-basicfilesystems/no_swap": "boolean false",
        "partman/choose_partition": "select finish",
        "partman/confirm": "boolean true",
        "partman/confirm_nooverwrite": "boolean true",
        "partman/mount_style": "select uuid",
        "apt-setup/cdrom/set-first": "boolean false",
        "pkgsel/include": "string openssh-server sudo python3",
        "pkgsel/upgrade": "select none",
        "grub-installer/only_debian": "boolean true",
        "grub-installer/with_other_os": "boolean false",
        "grub-installer/enable_os_prober_otheros_yes": "boolean false",
        "grub-installer/enable_os_prober_otheros_no": "boolean false",
        "debian-installer/add-kernel-opts": f"string {' '.join(plan['kernel_arguments'])}".rstrip(),
        "preseed/late_command": f"string sh {PLACE}/{scripts.FINISH} /target",
        "finish-install/reboot_in_progress": "note",
    }
    others = ["tasksel tasksel/first multiselect", "popularity-contest popularity-contest/participate boolean false"]
    return [*(f"d-i {question} {answer}" for question, answer in answers.items()), *others]
