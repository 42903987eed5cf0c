# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about the BMC of a node."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    # F100 to F109: reading it
    "F100": (
        "the BMC {address} of {host} does not answer: {detail}",
        "Check bmc_address, and whether the controller reaches the network of the BMCs. Nothing was changed.",
    ),
    "F101": (
        "the BMC {address} of {host} shows the certificate {seen}, and bmc_fingerprint is {pinned}",
        (
            "Compare it with what the BMC's own page or console says. If it was renewed, set bmc_fingerprint to it; if"
            " not, another machine answers there. The password was not sent."
        ),
    ),
    "F102": (
        "the BMC {address} of {host} does not take the name {user} with bmc_password",
        "Correct bmc_user and bmc_password. One try was made: some BMCs lock an account after a few.",
    ),
    "F103": (
        "the BMC {address} of {host} has no system with the serial number {serial}, but {seen}",
        (
            "Correct bmc_address: it may be that of another machine. Where the two name the same machine differently,"
            " set bmc_serial to the number that the BMC shows. Nothing was changed."
        ),
    ),
    "F104": ("{host} has a bmc_address, and no {options}", "Set it, bmc_password in a vault. Nothing was asked."),
    "F105": (
        "the serial number of {host} is not known: {detail}",
        "Set bmc_serial to what the plate on the machine says, or read the BMC once while the node runs.",
    ),
    "F106": (
        "{host} says that its serial number is {serial}, and it was {before} when its BMC was read before",
        "If its board was changed, remove {path}. If not, look which machine this is. The BMC was not asked.",
    ),
    "F107": (
        "the BMC {address} of {host} answers what is no Redfish: {detail}",
        "Check bmc_address. A BMC without Redfish cannot be read so far. Nothing was changed.",
    ),
    "F108": (
        "{host} has no bmc_fingerprint; its BMC {address} shows the certificate {seen}",
        (
            "Compare it with what the BMC's own page or console says, and set bmc_fingerprint to it. The password was"
            " not sent."
        ),
    ),
}
refuse = partial(build, CODES)
