# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about reinstalls and installation media."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    "R009": (
        "{host} is in use ({who}), so it is not reinstalled",
        "Wait until it is idle, or ask these people to stop. Then run again. Nothing was changed.",
    ),
    # R023 to R029 and R070 to R080: what stands against a reinstall, and how it went
    "R023": (
        "the new system of {host} could not be reached: {detail}",
        (
            "Write files of systemd-networkd that make this network on the new system, and name them in"
            " reinstall_network_files. Nothing was changed."
        ),
    ),
    "R024": (
        "the boot loader of {host} cannot start the installer exactly once: {detail}",
        "Correct that, or start the installer from a medium: the playbook gpulab.node.media. Nothing was changed.",
    ),
    "R025": (
        "{host} cannot take the installer: {detail}",
        "Free space there, or start the installer from a medium: the playbook gpulab.node.media. Nothing was changed.",
    ),
    "R026": (
        "other machines have {path} of {host} mounted over NFS, and would wait for it: {users}",
        "Unmount it there, or reinstall these machines first. Then run again. Nothing was changed.",
    ),
    "R027": (
        "the new system of {host} would not let Ansible in: {detail}",
        (
            "Connect as root or as an account of the node's own /etc/passwd (ansible_user), with a key in its"
            " authorized_keys, and capture the node again. Nothing was changed."
        ),
    ),
    "R028": (
        "{host} came back with its old system: {detail}",
        (
            "Nothing was wiped. Read what the installer said on the console, correct it, and run again; or start it"
            " from a medium: the playbook gpulab.node.media."
        ),
    ),
    "R029": (
        "{host} has not answered for {minutes} minutes since it was sent into the installer: {detail}",
        (
            "Look at its console. If it installs, wait and run again: gpulab continues there. If it does not start,"
            " use a medium: the playbook gpulab.node.media."
        ),
    ),
    "R030": (
        "the image of an installer needs {program}, which is not on this machine",
        "Install the package {package} on this machine. Debian and Ubuntu have it.",
    ),
    "R031": (
        "{user} cannot make the image of an installer on this machine: {detail}",
        (
            "Run as root, or let this user have namespaces: the package uidmap, a range in /etc/subuid and"
            " /etc/subgid, and no setting of the kernel against it."
        ),
    ),
    "R032": (
        "there is no keyring {path} on this machine, which verifies the packages of {system}",
        "Install the keyring of that distribution here, or name another file in the option keyring.",
    ),
    "R033": (
        "the mirror does not answer for the image of an installer: {address}: {detail}",
        "Check the option mirror, or security_mirror, and the network of this machine. Nothing was changed.",
    ),
    "R034": (
        "the image of an installer cannot be made: {detail}",
        "Correct what the message names, such as a package that the mirror does not have, then run again.",
    ),
    "R035": (
        "the image of an installer in {path} is damaged: {detail}",
        "Remove this directory, and the next run makes the image again. Look at the disk that it is on.",
    ),
    "R036": (
        "the image of an installer cannot be written to {path}: {detail}",
        "Free space there, or set another directory. TMPDIR says where the tree is made.",
    ),
    "R037": (
        "this machine cannot start programs of {architecture}, which the image of an installer is made with",
        "Install the packages qemu-user-static and binfmt-support on this machine, or use one with such a processor.",
    ),
    "R038": (
        "the firmware of {host} would not start {path} under Secure Boot: shim revokes {revoked}",
        "{way}. Nothing was changed.",
    ),
    # R050 to R059: installation media
    "R050": (
        "Debian's installer has the kernel {kernel}, and {mirror} has modules for {found} only (suite {suite})",
        (
            "Use the installer of the mirror's point release (update the package that reinstall_media_netboot is of),"
            " another mirror, or reinstall_media_installer: image. Nothing was written."
        ),
    ),
    "R051": (
        "{mirror} does not have {count} of the {all} packages that Debian's installer needs: {names}",
        (
            "Use a mirror that has the installer's packages (udebs), or reinstall_media_installer: image. Nothing was"
            " written."
        ),
    ),
    "R052": ("{what} cannot be read: {detail}", "Check the address or the path, and the proxy. Nothing was written."),
    "R053": ("installation media need {what}, which this machine does not have", "{way}. Nothing was written."),
    "R054": (
        "the installation media cannot be written to {path}: {detail}",
        "Free space there, or set another reinstall_media_directory. Older media are unchanged.",
    ),
    "R055": (
        "the answers for the installer of {host} are not safe: {detail}",
        "This is a fault of gpulab: please report it. Use reinstall_media_installer: image. Nothing was written.",
    ),
    "R070": (
        "the installer's files are not whole on {host}: {detail}",
        "Check its memory and its disk (dmesg), then run again. They are removed, and nothing else was changed.",
    ),
    "R071": (
        "{host} can be neither locked nor rebooted: {detail}",
        "Check that systemd is its init and works (systemctl is-system-running). Then run again.",
    ),
    "R072": (
        "while nobody can log in to {host}, Ansible cannot either: it connects as {user}, not as root: {detail}",
        (
            "Connect as root, or let ssh keep its connections (ssh_args: -o ControlMaster=auto -o ControlPersist=60s)."
            " The lock opens by itself within {minutes} minutes."
        ),
    ),
    "R073": (
        "the capture of {host} is {minutes} minutes old, and what changed since would be lost",
        "Run again. The installer's image is made already, so it takes less time.",
    ),
    "R074": (
        "the installer would refuse {host}: {detail}",
        "Check its disks and its firmware's settings, and run again, which captures it again. Nothing was changed.",
    ),
    "R075": (
        "this run is on {host} itself, and the reinstall would wipe it with the captures",
        "Run gpulab on another machine that reaches it. Nothing was changed.",
    ),
    "R076": (
        "no mirror of {system} is known for {host}: its package sources name none that this machine could use",
        "Set reinstall_mirror, and reinstall_security_mirror, to addresses that this machine reaches.",
    ),
    "R077": (
        "what answers as {host} since it was sent into the installer has another SSH host key: {detail}",
        (
            "Its new system has the key that it had. Look at its console: another machine may have its address. Compare"
            " the keys there before you accept one."
        ),
    ),
    "R078": (
        "{host} was installed from its newest capture, {capture}, and is not rebuilt yet",
        (
            "Use the playbook gpulab.node.rebuild. To install it again instead, delete /etc/gpulab-installed-by there;"
            " then the next capture is of the node as it is now. Nothing was changed."
        ),
    ),
    "R079": (
        "a part of the system of {host} is on a disk that would stay: {detail}",
        (
            "Move it to the root disk, and mount only data from other disks, such as /var/lib/docker. Then capture the"
            " node again. Nothing was changed."
        ),
    ),
    "R080": (
        "{host} is encrypted on its system disk ({places}), and the system that an installer brings is not{keys}",
        (
            "Install an encrypted system by hand, then use the playbook gpulab.node.rebuild. If this node may do"
            " without, add unencrypted to reinstall_allow. Nothing was changed."
        ),
    ),
}
refuse = partial(build, CODES)
