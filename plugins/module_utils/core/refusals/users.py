# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about people and their accounts. Nothing was changed when one of these is raised, but for U010."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    "U001": (
        "users_people and users_groups contradict each other or themselves: {problems}",
        (
            "Give each person and each group one name, and a number of its own from 20000 to 59999. Nobody gets the"
            " number of somebody who left. Nothing was changed."
        ),
    ),
    "U002": (
        "accounts of this node have other numbers than the inventory: {problems}",
        (
            "Put the number that the node has into users_people or users_groups, or rename one of them. gpulab gives no"
            " account another number, and no file another owner. Nothing was changed."
        ),
    ),
    "U003": (
        "keys in users_people cannot be used: {problems}",
        (
            "Put public keys there (the line of a file .pub, without options): Ed25519, ECDSA, or RSA from 2048 bits"
            " on, each for one person. Nothing was changed."
        ),
    ),
    "U004": (
        "the end of an account is not clear: {problems}",
        "Write until as YYYY-MM-DD. Set state: leaving for whoever has left, or a later day. Nothing was changed.",
    ),
    "U005": (
        "an heir cannot take over: {problems}",
        "Let heir name a person of users_people whose state is present. Nothing was changed.",
    ),
    "U006": (
        "this run would lock itself out: {problems}",
        (
            "Let Ansible connect as somebody else, who stays, or let this one keep a key and the groups, and run again."
            " Nothing was changed."
        ),
    ),
    "U007": (
        "the keys in {directory} would not count: {problem}",
        (
            "Correct the configuration of sshd (sshd -T shows it). /etc/ssh/sshd_config has to include"
            " /etc/ssh/sshd_config.d/*.conf, and nothing may set AuthorizedKeysFile before it. Nothing was changed."
        ),
    ),
    "U008": (
        "no homes can be made in {place}: {problem}",
        (
            "Let users_homes name a directory that is root's, as are those above it, or mount its file system. Nothing"
            " was changed."
        ),
    ),
    "U009": (
        "these accounts cannot be removed yet: {problems}",
        (
            "Let them leave first (state: leaving), end what runs, and hand over or remove the data (find PLACE -xdev"
            " -uid NUMBER). Then run again. Nothing was changed."
        ),
    ),
    "U010": (
        "{command} failed for {name}: {detail}",
        "Read the message. What was done before stays, and the next run goes on from there.",
    ),
    "U011": (
        "several things about people are wrong: {problems}",
        "Correct each of them, as the document of errors says. Nothing was changed.",
    ),
    "U012": (
        "the places of cron, at and sshd that gpulab knows are Debian's and Ubuntu's only so far, and this is {name}",
        (
            "Leave users_people and directory_uris empty for this node, and make accounts by other means. Nothing was"
            " changed."
        ),
    ),
    "U013": (
        "the directory cannot be joined as it is set: {problems}",
        (
            "Correct the settings of role directory. People come from the directory or from users_people, not from"
            " both. Nothing was changed."
        ),
    ),
    "U014": (
        "the directory does not serve this node: {servers}",
        (
            "Look at the name, the port and the way there from the node. The certificate has to be in the server's name"
            " and of an authority that the node trusts (base_ca_certificates). Nothing was changed."
        ),
    ),
    "U015": (
        "quotas cannot be set as users_quota and users_directories say: {problems}",
        (
            "Homes need an ext4 or XFS that is mounted with usrquota, directories of groups one with prjquota; ext4"
            " needs the features quota and project, too: the document of people says how a disk gets them. Where"
            " another machine has the disk, set quotas there. Nothing was changed, and nothing unmounted."
        ),
    ),
}
refuse = partial(build, CODES)
