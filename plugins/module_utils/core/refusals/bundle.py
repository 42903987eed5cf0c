# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about bundles, for labs without a network. No node was changed when one of these is raised."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    "B001": (
        "{path} holds something else than a bundle, such as {name}",
        "Let bundle_directory name an empty folder, or one with a bundle. Nothing in it was changed.",
    ),
    "B002": (
        "the bundle needs {need} MB more in {path}, and {free} MB are free",
        "Free that space, or let bundle_directory name a larger disk. Nothing was fetched.",
    ),
    "B003": (
        "nobody who is trusted has signed {path}: {detail}",
        (
            "Copy the bundle once more from where it was made. If its signer is to be trusted, let bundle_signers name"
            " a file with that key, in the form of ssh-keygen's allowed_signers. Use nothing of it before."
        ),
    ),
    "B004": (
        "{count} of {all} files of the bundle {path} are not what they were: {names}",
        "Copy them once more from where the bundle was made. Use nothing of it before.",
    ),
    "B005": (
        "{count} of {all} files of the bundle {path} are missing: {names}",
        "Copy it once more; the copy may have ended early. Use nothing of it before.",
    ),
    "B007": (
        "the bundle {path} of {made} is not for {host}: {lacking}",
        (
            "Make it again with this inventory (bundle.yml), for a host that has this name or the same system, and"
            " bring it here. Nothing was changed."
        ),
    ),
    "B008": (
        "the bundle {path} was made by a newer gpulab, {version}, in a form that this one does not know",
        "Bring that version of gpulab to this controller, too. Nothing was changed.",
    ),
    "B009": (
        "the bundle {path} was made on {made}, and the node uses one of {used} already",
        (
            "Bring the newer one. To go back on purpose, first remove on the node"
            " /etc/apt/sources.list.d/gpulab-bundle.sources and what is in /var/lib/apt/lists: APT keeps the newer of"
            " two lists. Nothing was changed."
        ),
    ),
    "B010": (
        "APT finds no way to what {host} is to get: {detail}",
        (
            "Correct the package sources of {host}, or the setting that asks for it; this machine has to reach the same"
            " sources as the node, over HTTP or HTTPS. Nothing was fetched."
        ),
    ),
    "B011": (
        "the environment {name} of {host} has packages without a wheel for its Python and machine: {names}",
        "Choose versions that have one. A bundle holds no source code that has to be built. Nothing was fetched.",
    ),
    "B012": (
        "the bundle has holes: with it alone, {host} does not get {what}: {detail}",
        "Run bundle.yml once more; if it is still so, report it with this message. Do not use the bundle.",
    ),
    "B015": (
        "the clock of the node says {now}, and the bundle {path} was made on {made}",
        "Set the clock of the node, or of the machine that made the bundle. Nothing was changed.",
    ),
    "B018": (
        "this machine has no {program}, with which bundles are made",
        "Install it (on Debian and Ubuntu: apt-get install {package}). Nothing was fetched.",
    ),
    "B019": (
        "{host} has {system}, and bundles hold packages of Debian and Ubuntu only so far",
        "Leave it out of bundle_hosts. Nothing was fetched.",
    ),
    "B020": (
        "{count} files cannot be fetched: {names}",
        "Check the network and the proxies of this machine, then run again: what has come is kept.",
    ),
    "B021": (
        "{what} cannot be signed: {detail}",
        "Check the keys in {keys}; without them, new ones are made, which nodes would have to be told. Run again.",
    ),
    "B022": (
        "the environment {name} of {host} is for Python {python}, of which its system has {own}",
        "Let python of the environment be one that the system has: bundles hold none so far. Nothing was fetched.",
    ),
    "B023": (
        "the node cannot read the bundle {path}: {detail}",
        (
            "Let gpulab_bundle be a folder that is on the node, such as a stick or a share, or an address that answers"
            " there; base_ca_certificates has to name the authority of its server. Nothing was changed."
        ),
    ),
}
refuse = partial(build, CODES)
