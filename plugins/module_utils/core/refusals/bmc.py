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
    "F104": ("{host} has no {options}, which its BMC needs", "Set it, bmc_password in a vault. Nothing was asked."),
    "F105": (
        "the serial number of {host} is not known: {detail}",
        "Set bmc_serial to what the plate on the machine says, or read the BMC once while the node runs.",
    ),
    "F106": (
        "{host} says that its serial number is {serial}, and it was {before} when its BMC was read before",
        "If its board was changed, remove {path}. If not, look which machine this is. The BMC was not asked.",
    ),
    "F107": (
        "the BMC {address} of {host} answers what gpulab does not understand: {detail}",
        "Check bmc_address, and bmc_protocol: a BMC without Redfish may have IPMI. Nothing was changed.",
    ),
    "F108": (
        "{host} has no bmc_fingerprint; its BMC {address} shows the certificate {seen}",
        (
            "Compare it with what the BMC's own page or console says, and set bmc_fingerprint to it. The password was"
            " not sent."
        ),
    ),
    # F110 to F119: turning it off and on
    "F110": (
        "{host} may not be turned off and on: bmc_power is not true for it",
        "Set bmc_power for the hosts for which gpulab may do so. Nothing was changed.",
    ),
    "F111": (
        "{count} nodes would be turned off and on in one run, and bmc_cycles_most is {most}",
        "Name the node (-l), or raise bmc_cycles_most. Nothing was changed.",
    ),
    "F112": (
        "{host} is not turned off and on by its BMC {address}: {detail}",
        (
            "Turn it off and on by hand, after a look at what else is in its chassis. Where the BMC cannot say that"
            " nothing is, set bmc_alone for the node. Nothing was changed."
        ),
    ),
    "F113": (
        "{host} is neither free nor proven dead: {detail}",
        (
            "Fence it and wait for its users (fence_state: present), as the same user. If it does not answer, go and"
            " look; then let bmc_dead name it. Nothing was changed."
        ),
    ),
    "F114": (
        "the BMC {address} of {host} cannot turn it off and on: {detail}",
        "Turn it off and on by hand. What the power was is in its last reading.",
    ),
    "F115": (
        "the power of {host} is neither On nor Off, says its BMC {address}: {state}",
        "Wait until it is, and run again. Nothing was changed.",
    ),
    "F116": (
        "the BMC {address} of {host} took {asked}, and {seconds} s later the power was {state}",
        "Look at the machine. The same command goes on from the power that it then has.",
    ),
    "F117": (
        "{host} has power, and does not answer by SSH {minutes} minutes after it was turned on",
        "Look at its console. It is still out of service if it was fenced.",
    ),
    "F118": (
        "the BMC {address} of {host} cannot let it boot once from {target}: {detail}",
        "Boot it by hand from there. It was not turned off, and its next boot is as before.",
    ),
    "F119": (
        "{host} booted from {target}, and its BMC {address} would let it boot from there again: {detail}",
        "Set its boot order at the BMC by hand before anybody turns it off: what installs it would install it again.",
    ),
    "F120": (
        "{host} would not boot from its disk when it is turned on: its BMC {address} has {boot}",
        "If nobody needs that, set its boot order at the BMC; otherwise turn it on by hand. Nothing was changed.",
    ),
    "F121": (
        "{host} was not turned off, and its BMC {address} would boot it from {target} from now on: {detail}",
        "Set its boot order at the BMC by hand before anybody turns it off: what installs it would install it again.",
    ),
    "F122": (
        "{host} is off, and its BMC {address} no longer lets it boot once from {target}: {detail}",
        "Turn it on by hand and let it boot from there, or run again without bmc_boot_once to boot it from its disk.",
    ),
    "F123": (
        "{host} has bmc_protocol ipmi, and this controller has no ipmitool",
        "Install it here: apt-get install ipmitool, or dnf install ipmitool. Nothing was asked.",
    ),
    "F124": (
        "{host} does not answer after a reboot, and was turned off and on at {at} behind the same fence already",
        "Look at its console: what a second time would mend is not known. Nothing was changed.",
    ),
    "F125": (
        "{host} was rebooted, and does not answer by SSH after {seconds} s",
        (
            "Look at its console. If it hangs, turn it off and on: ansible-playbook gpulab.node.bmc -l {host}"
            " -e bmc_do=cycle -e bmc_dead={host}"
        ),
    ),
}
refuse = partial(build, CODES)
