# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about images of work."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    "K001": (
        "the image {name} has the digest {digest}, which is none",
        (
            "Write sha256: and 64 hexadecimal digits, which skopeo inspect docker://SERVER/IMAGE:TAG shows. A tag may"
            " be something else tomorrow. Nothing was changed."
        ),
    ),
    "K002": (
        "the image {name} is not for {architecture}, which this node is, but for {others}",
        "Write the digest of an image, or of a list of images, that has this architecture. Nothing was changed.",
    ),
    "K003": (
        "the image {name} needs driver {needed}, and this node has {driver}",
        (
            "Let the node have a newer driver (nvidia_driver_branch), or choose an older image for this node. Nothing"
            " was changed."
        ),
    ),
    "K005": (
        "{needed} are needed for images in {directory}, and {free} are free there",
        (
            "Remove images that nobody uses (work_images_absent), or put work_images_directory on a larger disk. No"
            " half image stays."
        ),
    ),
    "K007": (
        "the image {name} is in use and is not removed: {holders}",
        "Ask these people to end their programs, then run again. Nothing was changed.",
    ),
    "K009": (
        "the image {name} cannot be had from {source}: {detail}",
        (
            "Let source name a folder of the node with an OCI layout, or docker://SERVER/IMAGE of a server that the"
            " node reaches and that asks for no password. Check name, proxy (base_https_proxy) and authority"
            " (base_ca_certificates)."
        ),
    ),
    "K011": (
        "the image {name} is another one than its digest says: {detail}",
        "Take it from another source, or find out who changed it. Nothing of it is on the node.",
    ),
    "K012": (
        "the image {name} does not start: {detail}",
        (
            "Name in test a program that the image has. An image that needs other users or an entry point does not run"
            " here. Nothing of it is on the node."
        ),
    ),
    "K013": (
        "the images of work cannot be kept: {problem}",
        "Correct it. Nothing was changed.",
    ),
}
refuse = partial(build, CODES)
