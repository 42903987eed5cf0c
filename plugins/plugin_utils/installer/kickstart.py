# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers for the installer of RHEL, Rocky and Alma: a kickstart file."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.installer import scripts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.gpulab.node.plugins.module_utils.installer.plan import Plan
    from ansible_collections.gpulab.node.plugins.plugin_utils.rebuild.new_system import NewFile

PLACE = "/run/gpulab"
STORAGE = "/tmp/gpulab-storage.ks"  # noqa: S108 - of the installer, which has no other users
DISK = "/dev/disk/by-id/@DISK@"  # the guard puts the planned disk's name in the place of @DISK@


def render(plan: Plan, files: Mapping[str, NewFile], repository: str) -> dict[str, bytes]:
    """Return ks.cfg, for a volume with the label OEMDRV; repository is the address of the system's packages."""
    members = scripts.members(plan, files, "kickstart", PLACE)
    unpack = scripts.unpack(PLACE, scripts.archive(members))
    return {"ks.cfg": _document(plan, unpack, repository).encode("ascii")}


def _document(plan: Plan, unpack: str, repository: str) -> str:
    return f"""\
text
url --url={shlex.quote(repository)}
lang en_US.UTF-8
keyboard us
timezone UTC --utc
network --bootproto=dhcp --hostname={plan["hostname"]}
rootpw --lock
firstboot --disable
%include {STORAGE}
reboot

%packages
@core
openssh-server
python3
sudo
-os-prober
%end

%pre --erroronfail
set -e
{unpack}cat >{PLACE}/storage.ks <<'GPULAB_STORAGE'
{storage(plan)}GPULAB_STORAGE
sh {PLACE}/{scripts.GUARD}
test -s {STORAGE}
%end

%post --nochroot --erroronfail
sh {PLACE}/{scripts.FINISH} /mnt/sysroot
chroot /mnt/sysroot restorecon -R /etc /home /root
%end
"""


def storage(plan: Plan) -> str:
    """Return the commands that name a disk, and nothing but the planned one."""
    arguments = " ".join(plan["kernel_arguments"])
    append = f' --append="{arguments}"' if arguments else ""
    boot = (
        f"part /boot/efi --fstype=efi --size=512 --ondisk={DISK}"
        if plan["firmware"] == "uefi"
        else f"part biosboot --fstype=biosboot --size=1 --ondisk={DISK}"
    )
    return f"""\
ignoredisk --only-use={DISK}
zerombr
clearpart --all --drives={DISK} --initlabel --disklabel=gpt
bootloader --boot-drive={DISK}{append}
{boot}
part / --fstype=ext4 --size=8192 --grow --ondisk={DISK}
"""
