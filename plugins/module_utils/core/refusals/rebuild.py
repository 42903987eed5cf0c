# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refusals about the rebuild of a node."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build

CODES = {
    "R040": (
        "{host} now runs {found}, but its capture {capture} was taken with {captured}",
        "Add release to rebuild_allow. Captured files then come back, and what they replace is kept beside them.",
    ),
    "R041": (
        "the accounts of {host} cannot get their numbers again: {detail}",
        "Remove accounts of the new system that nobody needs, then run again. Nothing was changed.",
    ),
    "R042": (
        "the content of {path} did not arrive whole on {host}",
        "Free space in /var/lib/gpulab there, then run again.",
    ),
    "R043": (
        "{host} does not answer after its captured network settings were tried, and not {minutes} minutes later either",
        "Look at its console: /var/lib/gpulab/restore/network/back brings back the settings of its installation.",
    ),
    "R060": (
        "no package source of the node answers: {detail}",
        "Check the node's network, its proxy and /etc/apt; then run again.",
    ),
    "R061": (
        "the packages of the capture could not be installed: {line}",
        "Read {log} on the node. Once the cause is gone, run again: it goes on where it stopped.",
    ),
    "R062": (
        "{host} was not reinstalled since the capture {capture}",
        (
            "A rebuild would put the files of the capture over newer ones. To do that all the same, name the capture:"
            " -e rebuild_capture={capture}. Nothing was changed."
        ),
    ),
    "R068": (
        "nobody has proven {host} in this run, so its jobs do not start",
        "Run it again without --tags, --skip-tags and verify_hosts. It goes on where it stopped.",
    ),
}
refuse = partial(build, CODES)
