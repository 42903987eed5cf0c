# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about captures."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    "R001": (
        "{host} has no {what} in {path}",
        "Capture it first, with the role gpulab.node.capture.",
    ),
    "R002": (
        "a reinstall of {host} would lose {files}, {size}: {paths}",
        (
            "Capture them (capture_paths), name a backup that has them (capture_receipts), move them to another disk,"
            " or name them in capture_acknowledged. Then capture again."
        ),
    ),
    "R003": (
        "{host} is not certain to be the machine that was captured: {detail}",
        (
            "Check ansible_host and the capture. Reinstall a machine without a UUID of its own by hand, with the disks"
            " of its data unplugged; then use the playbook gpulab.node.rebuild, with hardware in rebuild_allow. Nothing"
            " was changed."
        ),
    ),
    "R004": (
        "the disk on which {host} would be reinstalled is not certain: {detail}",
        (
            "A reinstall needs exactly one disk for /, with a serial number or WWN that no other disk has. Reinstall"
            " this machine by hand, with the disks of its data unplugged; then use the playbook gpulab.node.rebuild,"
            " with disks in rebuild_allow. Nothing was changed."
        ),
    ),
    "R005": (
        "{group} of {host} spans the root disk, {root}, and disks with data, {others}",
        (
            "Move its data off the root disk (pvmove and vgreduce, mdadm --remove, zpool remove, btrfs device remove),"
            " then capture again. Nothing was changed."
        ),
    ),
    "R006": (
        "the capture {path} is damaged: {detail}",
        "Capture the node again, or use an older capture in the same directory.",
    ),
    "R007": (
        "secrets of {host} cannot be encrypted: {detail}",
        (
            "Run with --ask-vault-pass or --vault-password-file. Or install age on this machine, and set"
            " capture_age_recipients to public keys of age. Nothing was changed."
        ),
    ),
    "R008": (
        "{host} is not reinstalled: {detail}",
        "If the lines WIPE and KEEP are right, run again with {way}. Nothing was changed.",
    ),
    "R010": (
        "no installer is known for {host}, {system}",
        "{way} the system by hand, then run the playbook gpulab.node.rebuild. Nothing was changed.",
    ),
    "R011": (
        "{host} was not installed by the plan of its capture {capture}: {detail}",
        (
            "Reinstall it from this capture. If another installation is meant, add disks to rebuild_allow."
            " Nothing was changed."
        ),
    ),
    "R012": (
        "{disk} of {host} has to be kept, but it is not as the capture found it: {detail}",
        (
            "Check its cables and its contents before anything writes to it. If the change is meant, add disks to"
            " rebuild_allow. Nothing was changed."
        ),
    ),
    "R013": (
        "environments of {host} could not be made again, because packages of their locks are not available: {names}",
        (
            "Check the node's network and pip.conf. Else let the environment's owner move to packages that exist, or"
            " set reinstall_check_locks: false. Nothing was changed."
        ),
    ),
    "R014": (
        "{path} of {host}, the {what}, is on the root disk and has {files} ({size}) that nothing brings back",
        (
            "Back it up and name the backup in capture_receipts, or move it to another disk. If it may be lost, name"
            " it in capture_acknowledged. Then capture again."
        ),
    ),
    "R015": (
        "{host} boots from {place} on {disk}, which is not the root disk, {root}",
        "Move it to the root disk, then capture again. A reinstall would leave the other disks as they are.",
    ),
    "R016": (
        "{path} of {host} is on the root disk, and other machines have it mounted over NFS: {users}",
        "Unmount it there, or move the directory to another disk. Then capture again.",
    ),
    "R017": ("another capture of {host} is at work on this machine", "Wait until it ends, then run again."),
    "R018": ("the capture {path} has schema {found}, but this version of gpulab knows schema {known}", "{way}."),
    "R019": (
        "the backup of {path} does not count as a receipt: {detail}",
        (
            "Correct its repository and password_file in capture_receipts, or remove it there. Without a receipt, the"
            " files that it covers are left over. Nothing was changed."
        ),
    ),
    "R020": (
        "the capture cannot be written to {path}: {detail}",
        "Free space there, or set another directory. The latest capture is unchanged.",
    ),
    "R021": (
        "{path} on the root disk of {host} ({what}) holds what no capture has seen: {why}",
        (
            "Mount it and capture again, or copy what you need to another disk and erase it. If it may be lost, name"
            " it in capture_acknowledged."
        ),
    ),
    "R022": ("the comparison cannot be written to {path}: {detail}", "Use another directory, or free space there."),
    # R085 to R087: the signature of a capture
    "R085": (
        "the capture {path} has no signature, so whoever may write there may have changed it",
        (
            "Captures of earlier versions of gpulab have none. If nobody else may write there, name it: -e"
            " rebuild_unsigned={name} (reinstall_unsigned for media). Else capture the node again. Nothing was changed."
        ),
    ),
    "R086": (
        "the capture {path} was not written by you on this machine: {detail}",
        (
            "If it was captured on another controller, or by another user, copy the key {key} from there, for you alone"
            " (0600). Else somebody changed it: use another capture. Nothing was changed."
        ),
    ),
    "R087": (
        "the key that signs captures cannot be used: {path}: {detail}",
        (
            "It has to be yours alone (chmod 0600). If others could read it, delete it and capture the nodes again."
            " Nothing was changed."
        ),
    ),
}
refuse = partial(build, CODES)
