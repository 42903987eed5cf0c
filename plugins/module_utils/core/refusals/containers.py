# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about container engines."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    # H110 to H118: container engines, with H190 and H191
    "H110": ("{path} is not valid: {detail}", "Correct the file. Nothing was changed."),
    "H111": (
        "{path} has {settings}, but {wanted} is required",
        "Change the setting there, or remove the request. gpulab does not overwrite settings that it did not write.",
    ),
    "H112": (
        "Docker must restart to apply its new settings, which would stop containers: {containers}",
        "Stop them and run again, or force the restart: -e container_toolkit_restart_force={host}",
    ),
    "H113": (
        "Docker's data directory would change from {old} to {new}, but {old} holds {held}",
        (
            "Copy the data by hand, or set container_toolkit_docker_leave_data: true to leave it behind. gpulab"
            " neither moves nor deletes it."
        ),
    ),
    "H114": ("Docker does not accept its new settings: {detail}", "Correct the settings. Nothing was changed."),
    "H115": (
        "Docker did not start with its new settings: {detail}. The former settings are restored, and Docker {state}",
        "Correct the settings. For details, run journalctl -u docker on the node.",
    ),
    "H116": (
        "the CDI specification of the GPUs could not be generated: {detail}",
        "Read journalctl -u nvidia-cdi-refresh on the node. Then run again.",
    ),
    "H117": (
        "the container toolkit's packages would change while containers use a GPU: {containers}",
        "Stop them and run again, or force the change: -e container_toolkit_restart_force={host}",
    ),
    "H118": (
        "user {user} does not exist on this node and cannot be added to {group}",
        "Correct the name, or create the user first.",
    ),
    # H190 and H191: how Docker is started
    "H190": (
        (
            "Docker rejected its new settings at a reload: {detail}. The former file is restored, and Docker kept"
            " running"
        ),
        "Correct /etc/docker/daemon.json, or Docker's flags (see systemctl cat docker.service), and run again.",
    ),
    "H191": (
        "Docker's flag --config-file makes it read {file}, but gpulab manages only {path}",
        "Move its settings to {path} and remove the flag, or remove docker from container_toolkit_engines.",
    ),
}
refuse = partial(build, CODES)
