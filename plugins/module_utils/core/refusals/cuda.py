# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about CUDA: what nvcc says of a node, the source of nccl-tests, and toolkits made of wheels."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    "C001": (
        "nvcc of CUDA {version} does not compile for compute capability {capabilities}: {error}",
        "Choose a CUDA that supports the GPU and the host compiler, or correct the error that the message names.",
    ),
    "C002": (
        "the source of nccl-tests cannot be fetched from {url}: {detail}",
        "Check the node's network and proxy, or set nccl_tests_url to a mirror. Nothing was built.",
    ),
    "C003": (
        "{url} has SHA-256 {found}, but nccl_tests_sha256 is {wanted}",
        "Check which one is right. The file may be another version, or was altered on its way. Nothing was built.",
    ),
    "C004": (
        "{path} holds a CUDA toolkit that gpulab did not make",
        "Remove it, choose another CUDA in cuda_toolkits, or set cuda_source: nvidia. It was left as it is.",
    ),
    "C005": (
        "the wheels of CUDA {version} cannot be fetched: {line}",
        "{advice} See {log} on the node. A former toolkit is still there.",
    ),
    "C006": (
        "cuda_remove_strays does not take away {path}: {reason}",
        (
            "Name the directory of a CUDA toolkit below /usr/local or /opt, a file of its libraries, a file in"
            " /etc/ld.so.conf.d or /etc/profile.d that is for these alone, or a package. Nothing was changed."
        ),
    ),
    "C007": (
        "{path} is in use by {user}",
        "Wait until it has ended, or end it. Then run again. Nothing was changed.",
    ),
    "C008": (
        "{path} has files of the package {package}",
        "Name that package in cuda_remove_strays, not its files. Nothing was changed.",
    ),
    "C009": (
        "{file} still leads to {path}",
        (
            "Take the line or the link away, or name the file in cuda_remove_strays too, if all of it is for what is"
            " named there. Nothing was changed."
        ),
    ),
    "C010": (
        "{names} cannot be removed alone: {detail}",
        "Name in cuda_remove_strays what needs it as well, or leave it. Nothing was changed.",
    ),
}
refuse = partial(build, CODES)
