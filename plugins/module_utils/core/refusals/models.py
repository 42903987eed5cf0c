# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about the store of models and data sets."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    "M001": (
        "{name} has the revision {revision}, which is no commit",
        (
            "Write the 40 hexadecimal digits of a commit, which the hub shows under Files and versions, History. A"
            " branch or a tag may be something else tomorrow. Nothing was changed."
        ),
    ),
    "M002": (
        "{name}: these files do not have the SHA-256 of the lock: {files}",
        (
            "Take the files from another source, or find out who changed them. A file that was damaged in the store"
            " comes again with the next run: ansible-playbook gpulab.node.provision --tags model_store."
        ),
    ),
    "M003": (
        "the hub does not hand out {name}: {detail}",
        (
            "Put a token that may read it into model_store_token, from a vault. For a gated repository, somebody has"
            " to accept its licence on its page, as the token's owner. Nothing was changed."
        ),
    ),
    "M004": (
        "{needed} are needed for models in {directory}, and {free} are free there",
        (
            "Choose fewer files (files), remove what nobody uses (model_store_absent), or put the store on a larger"
            " disk (storage_tiers). What has come so far is kept, and used by the next run."
        ),
    ),
    "M005": (
        "{name} has files that can run code when they are loaded: {files}",
        (
            'Choose the others (files: ["*.safetensors", "*.json"]), or set allow_code: true where you trust'
            " whoever made them. Nothing was changed."
        ),
    ),
    "M006": (
        "{name} is in use and is not removed: {holders}",
        "Ask these people to end their programs, then run again. Nothing was changed.",
    ),
    "M007": (
        "the store of models cannot lie in {directory}: {problem}",
        (
            "Let model_store_directory name a directory that is root's, as are those above it, on a disk that is"
            " mounted. Nothing was changed."
        ),
    ),
    "M008": (
        "{name}: files of the snapshot are gone: {files}",
        "Let them come again: ansible-playbook gpulab.node.provision --tags model_store.",
    ),
    "M009": (
        "{name} cannot be had: {detail}",
        (
            "Let model_store_folder name a directory on the node that has it, as models--ORG--NAME/REVISION, or"
            " model_store_hub a hub that the node reaches. What has come so far is kept, and used by the next run."
        ),
    ),
    "M010": (
        "the settings of role model_store cannot be used: {problems}",
        "Correct each of them. Nothing was changed.",
    ),
}
refuse = partial(build, CODES)
