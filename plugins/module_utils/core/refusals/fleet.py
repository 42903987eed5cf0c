# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about the fence, the rollout, the acceptance, the nightly proof and the monitoring server."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    # F001 to F029: the fence and the rollout
    "F001": (
        "no change may begin now: {why}",
        "Run the same command again when the freeze is over. No further node was changed.",
    ),
    "F002": (
        "the rollout {run} is at work: {user} on {machine}, process {pid}",
        "Wait until it ends, or stop it there; the same command then goes on with it. Nothing was changed.",
    ),
    "F003": (
        "{out} of {all} nodes are out of service, and no more than {most} may be: {who}",
        "Bring these nodes back first, or raise rollout_out_at_once. Nothing was changed.",
    ),
    "F004": ("{option} is {value}: {detail}", "Correct it. Nothing was changed."),
    "F005": (
        "the change stopped at {host}: {cause}",
        (
            "{remedy} Then run the rollout again. If a change had begun, {host} stays fenced, and the rollout begins"
            " with it. The nodes after it are as before."
        ),
    ),
    "F006": (
        "{host} was still in use after {minutes} minutes ({who})",
        (
            "Run again when they are done, or wait longer: rollout_wait_minutes for a rollout, fence_wait_minutes for"
            " fence.yml, acceptance_wait_minutes for an acceptance. The node is as it was."
        ),
    ),
    "F007": (
        "{host} has been fenced since {since} by {by} (run {run}): {reason}",
        (
            "Let that run come to its end. If it never will, lift its fence: ansible-playbook gpulab.node.fence"
            " -e fence_state=absent -e fence_force={host}"
        ),
    ),
    "F008": (
        "Slurm's controller does not answer: {detail}",
        "Check slurmctld and munge (scontrol ping). Then run again. Nothing was changed.",
    ),
    "F009": (
        "Slurm does not know the node {host}",
        "Add it to slurm.conf, or set fence_engine: none for it. Nothing was changed.",
    ),
    "F010": (
        "{host} has none of the files in /etc/pam.d by which people log in: {services}",
        "Check its PAM configuration. Nothing was changed.",
    ),
    "F011": (
        "no canary is left: {detail}",
        "Name others in rollout_canary, or run again when one of them is back. No further node was changed.",
    ),
    "F012": (
        "{host} was lost on the way, in the state {state} since {since}",
        "Bring it back, and run the rollout again; it begins with {host}. The nodes after it are as before.",
    ),
    "F013": (
        "the fence of {host} in Kubernetes needs the Python package kubernetes on the controller: {detail}",
        "Install it beside Ansible: pip install kubernetes. Nothing was changed.",
    ),
    "F014": (
        "Kubernetes cannot be asked: {detail}",
        (
            "Check fence_kubeconfig (kubectl --kubeconfig FILE get nodes). Its user has to list and patch nodes, and to"
            " list pods. Then run again. The node is as it was."
        ),
    ),
    "F015": (
        "Kubernetes does not know the node {host}",
        "Set fence_kubernetes_node to its name there, or fence_engine: none for it. Nothing was changed.",
    ),
    "F016": (
        "{host} cannot be reserved in Slurm until {until}: {detail}",
        (
            "Let it end before the other one begins (acceptance_until, fence_until), or ask who made that:"
            " scontrol show reservation. The node is as it was."
        ),
    ),
    "F020": (
        "the fence of {host} is recorded there as that of {name} in Kubernetes, which is another name than it has",
        (
            "If it is {host}'s name there, set fence_kubernetes_node to it and run again. Otherwise lift the fence by"
            " hand (kubectl uncordon). No node was changed."
        ),
    ),
    # F060 to F079: the nightly proof
    "F060": (
        "the nightly proof cannot run on {host}: {detail}",
        "Set nightly_user, nightly_directory and nightly_program to what is on the controller. Nothing was changed.",
    ),
    "F061": (
        "the timers need a systemd reload on {host}, which can detach GPUs from running containers: {who}",
        "Run again when the GPUs are idle. Nothing was changed.",
    ),
    # F080 to F099: the monitoring server
    "F080": (
        "{host} has a Prometheus or an Alertmanager that somebody configured: {paths}",
        (
            "Choose another server. Or leave this role out, and add the rules and the scrape configuration of the role"
            " monitoring, which are in its files, to your own."
        ),
    ),
    "F081": (
        "{system} on {host} has no packages of Prometheus",
        "Use a server with Debian or Ubuntu for the group monitoring_server.",
    ),
    # F140 to F159: the acceptance
    "F140": (
        "{host} is in use: {who}",
        "Run again when they are done, or let acceptance_fence wait for them behind a fence. Nothing was measured.",
    ),
    "F141": (
        "nodes with different boards cannot be accepted together: {detail}",
        "Accept them one kind at a time (-l). Nothing was measured.",
    ),
    "F142": (
        (
            "nothing says what these {nodes} nodes should reach: there is no floor, no earlier certificate, and fewer"
            " than four nodes"
        ),
        "Set acceptance_floors, or accept four nodes or more together. Nothing was measured.",
    ),
    "F143": (
        "others than its owner may read or replace the key {path}",
        "chmod go-rwx {path}; if somebody may have read it, make another one. Nothing was measured.",
    ),
    "F144": (
        "{host} is not as it was when the acceptance {run} began: {detail}",
        "Begin again: move {directory} away, then run the same command. Nothing more was measured.",
    ),
    "F145": (
        "the certificate {path} does not hold: {detail}",
        (
            "Do not rely on it. Take it from where it was written, with its signature, and let acceptance_signers name"
            " who may sign."
        ),
    ),
    "F146": (
        "the acceptance {run} is at work: {user} on {machine}, process {pid}",
        "Wait until it ends, or stop it there; the same command then goes on with it. Nothing was measured.",
    ),
    "F147": (
        "the nodes differ in {what}, and no majority of three says which of them are right: {detail}",
        "Make them alike, or accept those that are alike together (-l). Nothing was measured.",
    ),
    "F148": ("the nodes are not accepted: {detail}", "Mend what the page names ({page}), and run it again."),
}
refuse = partial(build, CODES)
