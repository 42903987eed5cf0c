# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about the inventory and what is given on the command line."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    # I001 to I014: variables
    "I001": ("{variable} is an unknown variable", "{advice}"),
    "I002": (
        "{variable} is internal to gpulab",
        "Remove it. Variables that you may set do not begin with underscores.",
    ),
    "I003": (
        "{variable} is the number {value}, but it needs text{zero}",
        "Quote it: {ways}. On a host line of an INI inventory, which drops quotes: '\"{value}\"'.",
    ),
    "I004": (
        "{variable} is the text {value}, but it takes true or false",
        (
            "Write true or false without quotes, in YAML or JSON. Inside a mapping or a list, quoted text is not"
            " converted."
        ),
    ),
    "I005": ("{variable} is {value}, but it needs {expected}", "{advice}"),
    "I006": ("{variable} is {value}, but must be one of {choices}", "{advice}"),
    "I007": ("{variable} is {value}, which does not match its format", "Expected: {description}"),
    "I008": ("{variable} is {value}, {bound}", "Expected: {description}"),
    "I009": ("{variable} has no {field}", "Add {field}: {description}"),
    "I010": ("{variable} has an unknown field {field}", "{advice}"),
    "I011": ("{variable} has {value} twice", "Use each value once."),
    "I012": ("{one} and {other} exclude each other: {reason}", "{way}."),
    "I013": ("{variable} cannot be evaluated: {detail}", "Define the variables that it uses, or correct its template."),
    "I014": ("{variable} names {value}, which is not a host of this run", "{advice}"),
    # I020 to I025: hosts and groups; I022, one host in several host types, is no refusal any more
    "I020": ("the run has no hosts: {detail}", "{advice}"),
    "I021": ("no host type is given to {hosts}", "Add each to one of the groups {types}, below gpu-nodes."),
    "I023": ("the group {group} of {hosts} is not a host type", "Did you mean {near}?"),
    "I024": ("{hosts} have the same address {address}", "Give each its own ansible_host, or remove the duplicates."),
    "I025": (
        "{host} is in the host types {types}, which disagree about {options}",
        (
            "Leave it in one of them, or set these options for the host; those of catalog/tuning.yml are set in"
            " tuning_overrides."
        ),
    ),
    # I040: options of ansible-playbook
    "I040": (
        "--start-at-task {task} skips the tasks that read and plan the node, which all later tasks need",
        "Use --tags with a role's name, such as --tags cuda. A full run also skips what is already done.",
    ),
    # I046 to I049: names of groups, beside I020 to I025, of tags, and options that Ansible does not take so
    "I046": (
        "gpulab has no group {group}",
        "Did you mean {near}? A group for something else needs a name that is less like it.",
    ),
    "I047": ("no task of gpulab has the tag {tag}, so a run with it does not do what it says", "{advice}"),
    "I048": (
        "nothing reads {path}: the inventory has no group {group}",
        "Did you mean {near}? Rename the file, or keep it beside the inventory that has the group.",
    ),
    "I049": (
        "{name} is null by -e, and then no task gets its default",
        "Leave it out, give it its default ({default}), or write null in the inventory.",
    ),
    # I050 to I052: what cannot be read, nodes that the inventory does not have, and addresses that are none
    "I050": ("{place} cannot be read: {problem}", "{advice}"),
    "I051": ("the inventory has no host or group {name}, which -l names", "{advice}"),
    "I052": ("{host}: ansible_host is {address}, which is more than an address", "Write {settings}."),
}
refuse = partial(build, CODES)
