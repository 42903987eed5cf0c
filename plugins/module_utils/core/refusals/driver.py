# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about the driver."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    # D001 to D003: kernel modules that DKMS builds
    "D001": (
        "DKMS could not build {module} {version} for kernel {kernel}: {error}",
        "{way}. See {log} on the node.",
    ),
    "D002": (
        "kernel {kernel} has no headers, so {module} cannot be built for it",
        "Install linux-headers-{kernel} or kernel-devel-{kernel}. If no server has it, boot a newer kernel first.",
    ),
    "D003": ("DKMS has no source of {module} {version}", "Install the package that contains it. DKMS has: {added}."),
    # D020 to D023: another driver in place of one that works
    "D020": (
        "a package cannot be saved, so a rollback would be impossible: {line}",
        (
            "See {log} on the node. Make the package's installed version available and run again. Or continue"
            " without a rollback: nvidia_driver_keep_former: false."
        ),
    ),
    "D021": (
        "the driver of {host} must change ({change}), but the node is in use ({who})",
        (
            "Wait until it is idle and run again, or set nvidia_driver_change: wait. To force the change: -e"
            " nvidia_driver_change_force={host}"
        ),
    ),
    "D022": (
        "the new driver of {host} failed verification and was rolled back: {cause}",
        "Read the findings above. To keep the former driver, set nvidia_driver_version to its version.",
    ),
    "D023": (
        "the former packages {names} could not be reinstalled",
        "See {log} on the node. Their files are in {directory}.",
    ),
    # D030 to D037: a driver from a .run file; D011 was given up and is not given again
    "D030": (
        "the .run file cannot be fetched from {url}: {detail}",
        "Set nvidia_driver_runfile to a mirror or to a path on the controller. Nothing was changed.",
    ),
    "D031": (
        "{url} has SHA-256 {found}, but {wanted} is expected",
        "Check which one is right. The file may be another version, or was altered on its way. Nothing was changed.",
    ),
    "D032": (
        "{url} is not the .run file of driver {version}: {detail}",
        (
            "Make nvidia_driver_version, nvidia_driver_runfile and nvidia_driver_runfile_sha256 match the same"
            " driver. Nothing was changed."
        ),
    ),
    "D033": (
        "the {kernel_modules} modules of driver {version} do not build for kernel {kernel}: {error}",
        "{way}. See {log} on the node. The former driver, if any, is unchanged.",
    ),
    "D034": (
        "the installer of driver {version} failed: {error}",
        "{way}. See {log} on the node. {left}",
    ),
    "D035": (
        "the .run file of driver {version} cannot install {kernel_modules} kernel modules",
        "Set nvidia_driver_kernel_modules, or use another version. Nothing was changed.",
    ),
    "D036": (
        "the uninstaller of driver {version} failed: {error}",
        "See {log} on the node, and run {uninstaller} there by hand.",
    ),
    "D037": (
        "gpulab does not have the .run file of driver {version}, so a rollback would be impossible",
        "Continue without a rollback: nvidia_driver_keep_former: false. Nothing was changed.",
    ),
    # D040 to D049: a driver that does not work on the node
    "D040": (
        "{names} cannot be configured: DKMS could not build {module} {version} for kernel {kernel}: {error}",
        "{way}.",
    ),
    "D041": (
        (
            "DKMS could not build {module} {version} for kernel {kernel}; this module does not belong to gpulab's"
            " driver: {error}"
        ),
        "{way}. See {log} on the node.",
    ),
    # D050: builds that the controller keeps
    "D050": (
        "others than {user} can write into {directory}, from which the nodes' kernels get their modules",
        "Make it yours alone (chmod 0700), or let nvidia_driver_builds_directory name one that is not there yet.",
    ),
}
refuse = partial(build, CODES)
