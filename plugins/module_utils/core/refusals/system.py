# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about monitoring, the network between nodes, Secure Boot and the boot loader."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    # H130 to H139: monitoring
    "H130": (
        "setting up monitoring needs a systemd reload, which can detach GPUs from running containers: {who}",
        "Run again when the GPUs are idle, or force the reload: -e monitoring_restart_force={host}",
    ),
    # H140 to H149: the network between nodes
    "H140": (
        "/etc/hosts maps {name} to {told}, but the inventory to {address}",
        "Correct that line, or set network_address of {name}. Nothing was changed.",
    ),
    "H141": (
        "the inventory gives {host} the address {address}, but the node has {known}",
        "Set network_address of {host} to the address at which its peers reach it. Nothing was changed.",
    ),
    "H142": (
        "the firewall would close port {ports} of {host}, where SSH may listen",
        "Move SSH to a port outside {closed}, or remove network_firewall. Nothing was changed.",
    ),
    "H143": (
        "network_firewall is nftables, but {firewall} is already active on {host}",
        "Remove network_firewall. gpulab then adds the peers to {firewall}. Nothing was changed.",
    ),
    "H148": (
        "{host} calls itself {hostname}: {why}",
        (
            "Give it the name that the inventory has (hostnamectl set-hostname {name}). Or list {hostname} in"
            " gpulab_host_names of {host} alone, if it shall be called so."
        ),
    ),
    "H149": (
        "the inventory calls both {host} and {other} {name}",
        "Correct gpulab_host_names of one of them. Nothing was changed.",
    ),
    # H170 to H172: the key of Secure Boot, with P046 and P047
    "H170": (
        "{present} exists without {missing}, and DKMS would overwrite it with a new key pair",
        "Restore the missing file, or move this one away. Nothing was changed.",
    ),
    "H171": (
        "the DKMS signing key could not be created: {line}",
        "Correct the error, or create the key pair by hand: {private}, {certificate}.",
    ),
    "H172": ("{what} failed: {line}", "Correct the error. mokutil --list-new shows the keys that wait for enrolment."),
    # H173 and H174: arguments of the kernel in the boot loader's entries
    "H173": (
        "{path} has {found}, which gpulab did not add, but {argument} is requested for every kernel",
        (
            "Remove it (grubby --update-kernel=ALL --remove-args={name}), or add it to every kernel yourself. To"
            " leave it alone, set tuning_overrides: {{{name}: null}}. Nothing was changed."
        ),
    ),
    "H174": (
        "grubby wrote other kernel arguments to {path} than requested: {found}",
        (
            "Set them by hand: {wanted}. All files of grubby are restored. Please report this to the maintainers of"
            " grubby."
        ),
    ),
}
refuse = partial(build, CODES)
