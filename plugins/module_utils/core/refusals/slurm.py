# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about Slurm."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    "F030": (
        "{host} has {path}, which gpulab did not write",
        (
            "If {host} is the controller, slurm_join: true adds gpulab's nodes to that cluster. If it is a node, move"
            " the file away: it gets its files from the controller. To leave it alone, remove slurm_state. Nothing was"
            " changed."
        ),
    ),
    "F031": (
        "{path} on {host} has no {missing}, which gpulab's nodes need",
        "Add it there and restart slurmctld. Then run again. Nothing was changed.",
    ),
    "F032": (
        "the MUNGE key of {host} is {problem}",
        (
            "Stop the jobs, remove /etc/munge/munge.key on the Slurm controller, or the value of slurm_munge_key, and"
            " run again. gpulab makes a random key."
        ),
    ),
    "F033": (
        "the driver of {host} lists {found} of {expected} GPUs, so Slurm cannot know them",
        "Set the node up and prove it: ansible-playbook gpulab.node.provision. Then run again.",
    ),
    "F034": (
        "a GPU of {host} is split by MIG, and Slurm of the distribution cannot give its instances to jobs",
        "Turn MIG off (gpu_settings_mig), or remove slurm_state for this node.",
    ),
    "F035": (
        "{host} has or gets Slurm {version}, which cannot work with Slurm {other} of its controller {controller}",
        (
            "Set slurm_controller to a host with a Slurm that is as new, or at most two releases newer (three from"
            " 24.11 on). Nothing was changed."
        ),
    ),
    "F036": (
        "{host} is a node of the Slurm controller {controller}, which is not part of this run or was refused",
        "Name both: -l {host},{controller}. Nothing was changed on {host}.",
    ),
    "F037": (
        "slurm_state of {host} is present, but {controller} is not a host of the inventory's group slurm_controllers",
        "Add a host to that group, or correct slurm_controller.",
    ),
    "F038": (
        "{host} would go from Slurm {before} to {after}, which cannot read the state of jobs of {before}",
        "Upgrade to a release between them first. Nothing was changed.",
    ),
    "F039": (
        "{host} and {other} both have the hostname {hostname}, so Slurm cannot tell them apart",
        "Give one of them another name (hostnamectl set-hostname). Then run again.",
    ),
    "F040": (
        "{host} has jobs of Slurm: {who}",
        "Drain it (scontrol update nodename=NAME state=drain reason=removal), wait for its jobs, then run again.",
    ),
    "F045": (
        "{host} calls itself {hostname}, so Slurm would know it by that name, which the inventory does not give it",
        (
            "Give it the name that the inventory has (hostnamectl set-hostname {name}). Or list {hostname} in"
            " gpulab_host_names of {host}, if it shall be called so. Nothing was changed."
        ),
    ),
    "F046": (
        "{host} calls itself {hostname}, a word that stands for something else in slurm.conf",
        "Give it another name (hostnamectl set-hostname NAME, and in the inventory). Nothing was changed.",
    ),
    "F047": (
        "{path} on {host} has a partition {partition}, which is the name of the one for gpulab's nodes",
        "Give theirs another name. Nothing was changed.",
    ),
    "F048": (
        "slurm_door of {host} is closed, but it has a display manager, whose user needs the GPU",
        "Set slurm_door: open for it, or remove the display manager. Nothing was changed.",
    ),
    "F049": (
        "Slurm's daemon needs a systemd reload on {host}, which can detach GPUs from running containers: {who}",
        "Run again when the GPUs are idle. Nothing was changed on {host}.",
    ),
    "F050": (
        "the settings of Slurm on {host} do not hold together: {lacking}",
        "Set both for the controller, or remove the first. Nothing was changed.",
    ),
    "F051": (
        "slurm_shares of {host} names {names}, which users_groups does not have",
        "{advice} Nothing was changed.",
    ),
    "F052": (
        "{who} have jobs in Slurm on {host}, and no account, so their jobs would wait for ever",
        (
            "Name them in users_people with a group of users_groups, and not as leaving, or give them an account"
            " (sacctmgr add user NAME account=ACCOUNT). Or wait for their jobs. Then run again. Nothing was changed."
        ),
    ),
    "F053": (
        "the accounting of Slurm on {host} did not do what it was told ({what}): {detail}",
        (
            "Look at slurmctld, slurmdbd and mariadb (journalctl -u slurmdbd). Jobs go on. Run again: it goes on where"
            " it stopped."
        ),
    ),
    "F054": (
        "slurm_accounts of {host} would let nobody but root submit jobs: it finds no person with a group there",
        (
            "Set users_groups and users_people for the controller, too (in group_vars of its groups), and run"
            " gpulab.node.users on it first. People of a directory stand in users_people as well, or have accounts"
            " already (sacctmgr add user NAME account=ACCOUNT). Nothing was changed."
        ),
    ),
    "F055": (
        "Slurm on {host} did not {what}: {detail}",
        (
            "Look at what is there (scontrol show reservation) and at its jobs (squeue --reservation=NAME), change"
            " slurm_reservations, and run again. All else of this run is done."
        ),
    ),
}
refuse = partial(build, CODES)
