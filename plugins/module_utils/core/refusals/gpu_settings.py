# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about settings of GPUs; before the driver is installed, P093 to P095 of the plan."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    "H120": (
        "gpu_settings_per_gpu names {name}, but this node has no such GPU",
        "Use a GPU's UUID, bus id or index: {known}. Nothing was changed.",
    ),
    "H121": (
        "the power supply leaves {budget} W for the GPUs, {watts} W for GPU {gpu}, which needs at least {low} W",
        (
            "Use a larger power supply or fewer GPUs, or set the limits yourself: gpu_settings_per_gpu. Nothing was"
            " changed."
        ),
    ),
    "H122": (
        "GPU {gpu} does not support {name} (NVML: {error})",
        (
            "Remove it from gpu_settings_values, or set it to null for this GPU in gpu_settings_per_gpu. Nothing"
            " was changed."
        ),
    ),
    "H123": (
        "{name} of GPU {gpu} is set to {value}, but its range is {low} to {high} {unit}",
        "Choose a value in that range. Nothing was changed.",
    ),
    "H124": (
        "the settings of the GPUs cannot be read: {detail}",
        (
            "Install and load the driver (ansible-playbook gpulab.node.provision), or remove the settings. Nothing"
            " was changed."
        ),
    ),
    "H125": ("GPU {gpu} rejected {name} = {value} ({why})", "{way}."),
    "H126": (
        "{names} would change on {host}, but its GPUs are {state} ({who})",
        "Wait until they are idle and run again. Nothing was changed.",
    ),
    "H127": ("GPU {gpu} cannot be divided into the MIG instances {instances}: {why}", "Use its profiles: {known}."),
    "P054": ("{variable} has {name}, which is not a setting of a GPU", "Use one of: {known}."),
    "P055": ("{variable} has {value} for {name}, which needs {form}", "Correct it, or use null to leave it alone."),
    "P056": (
        "{variable} turns MIG off, but requests the MIG instances {instances}",
        "Remove one of the two. Instances turn MIG on by themselves.",
    ),
}
refuse = partial(build, CODES)
