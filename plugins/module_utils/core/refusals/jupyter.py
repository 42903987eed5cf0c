# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about JupyterHub. Nothing was changed when one of these is raised."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    "J001": (
        "the certificate or the key of the hub on {host} cannot be used: {problem}",
        (
            "Let jupyter_certificate and jupyter_key name PEM files on the controller, of one certificate and its key"
            " without a passphrase. Nothing was changed."
        ),
    ),
    "J002": (
        "the certificate of the hub on {host} is for {names}, and jupyter_url has {name}",
        "Have the lab's authority sign one for {name}, or correct jupyter_url. Nothing was changed.",
    ),
    "J003": (
        "the certificate of the hub on {host} is good from {begin} to {end}, which does not cover the next {days} days",
        "Renew it, and run again. Nothing was changed.",
    ),
    "J004": (
        "port {port} of {host} is taken by {who}",
        "Write another port into jupyter_url, or stop who has it. Nothing was changed.",
    ),
    "J005": (
        "jupyter_choices has what {host} cannot give: {problems}",
        "Make the choice smaller (scontrol show node says what Slurm gives there). Nothing was changed.",
    ),
    "J006": (
        "no environment of {host} is a kernel of Jupyter",
        "Set jupyter: true for one of gpulab_environments, and set the node up first. Nothing was changed.",
    ),
    "J007": (
        "{host} is no node of Slurm, which starts the servers of people",
        "Make it one (slurm_state: present, then ansible-playbook gpulab.node.slurm). Nothing was changed.",
    ),
    "J008": (
        "{host} has a JupyterHub that gpulab did not set up: {units}",
        "Remove it, or remove jupyter_state for this node. Nothing was changed.",
    ),
    "J009": (
        "jupyter_users of {host} names nobody who could log in: {problem}",
        "Name groups that the node has, such as those of users_groups. Nothing was changed.",
    ),
    "J010": (
        "people may work in servers of the hub on {host}: {who}",
        "Let them end their servers, or end their jobs (scancel --name=gpulab-jupyter). Nothing was changed.",
    ),
    "J011": (
        "the hub is set up on Debian 12 and 13 only, and {host} has {system}",
        "Remove jupyter_state for this node. Nothing was changed.",
    ),
    "J012": (
        "jupyter_url of {host} is no address of a hub: {url}",
        "Write https, a name, and the port unless it is 443, such as https://lab.example:8443. Nothing was changed.",
    ),
}
refuse = partial(build, CODES)
