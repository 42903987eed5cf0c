# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that Slurm knows the node as it is, and gives it jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import (
    check,
    fail,
    inapplicable,
    info,
    ok,
    skipped,
    unknown,
    warn,
)
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node, Result

STATES = "https://slurm.schedmd.com/sinfo.html"
GRES = "https://slurm.schedmd.com/gres.html"
MUNGE = "https://github.com/dun/munge/wiki/Installation-Guide"
DEVICES = "https://www.freedesktop.org/software/systemd/man/latest/systemd.resource-control.html#DevicePolicy="
ACCOUNTING = "https://slurm.schedmd.com/accounting.html"
NO_DAEMON = "Slurm's daemon is not installed"
UNKNOWN_NODE = "the controller does not tell of this node (see slurm-node)"
GONE = {"DOWN", "FAIL", "NOT_RESPONDING", "INVALID_REG", "UNKNOWN", "FUTURE"}


@check("slurm-munge", proves="MUNGE makes and reads credentials", source=MUNGE)
def slurm_munge(node: Node) -> Iterator[Result]:
    """Take one that the node made itself; the controller's answer proves that the keys are the same."""
    found = node.facts.optional("slurm")
    if found is None:
        yield inapplicable(NO_DAEMON)
    elif not found["munge"]:
        yield fail("MUNGE makes no credential", "start_service", observed=False, expected=True, reason="munge.service")
    else:
        yield ok("MUNGE works")


@check("slurm-node", proves="Slurm's controller knows the node and gives it jobs", source=STATES)
def slurm_node(node: Node) -> Iterator[Result]:
    """Tell a node that is gone from one that somebody drained, with the reason."""
    found = node.facts.optional("slurm")
    if found is None:
        yield inapplicable(NO_DAEMON)
    elif not found["answers"]:
        reason = "scontrol ping; where the key or the clock differs: journalctl -u munge"
        yield fail("Slurm's controller does not answer", "set_up_slurm", observed="no answer", reason=reason)
    elif found.optional("node") is None:
        yield fail("Slurm's controller does not know this node", "set_up_slurm", observed="unknown")
    else:
        states, reason = found["node.states"], found["node.reason"]
        shown = "+".join(states).lower()
        if GONE & set(states):
            yield fail(
                f"Slurm takes the node for {shown}", "start_service", observed=shown, reason=reason or "slurmd.service"
            )
        elif "DRAIN" in states:
            yield warn(f"the node is drained: {reason or 'without a reason'}", "resume_node", observed=shown)
        else:
            yield ok(f"the node is {shown}", shown)


@check("slurm-gpus", proves="Slurm knows as many GPUs as the node has", source=GRES)
def slurm_gpus(node: Node) -> Iterator[Result]:
    """Compare what the controller gives to jobs with the PCI bus."""
    found = node.facts.optional("slurm")
    if found is None:
        yield inapplicable(NO_DAEMON)
    elif found.optional("node") is None:
        yield skipped(UNKNOWN_NODE)
    else:
        known, there = found["node.gpus"], len(node.pci_gpus)
        told = f"Slurm knows {known} of {there} GPUs"
        if known != there:
            yield fail(told, "set_up_slurm", observed=known, expected=there, unit="GPUs")
        else:
            yield ok(told, known)


@check("slurm-door", proves="Nobody opens a GPU without a job of Slurm", source=DEVICES)
def slurm_door(node: Node) -> Iterator[Result]:
    """Take what a user without rights met in a slice of his own; what starts programs outside of slices is named."""
    found = node.facts.optional("slurm")
    door = found and found.optional("door")
    accounts = node.facts.optional("accounts")
    people = accounts["people"] if accounts else 0
    if found is None and people > 1 and node.pci_gpus:
        yield info(f"{counted(people, 'account')} share the GPUs by manners: nothing gives them out (slurm_state)")
    elif found is None:
        yield inapplicable(NO_DAEMON)
    elif door is None:
        yield info("the door is open: whoever logs in opens every GPU without a job (slurm_door)")
    elif door["opens"]:
        told = f"a login that is no job opens {door['why']}"
        yield fail(told, "close_door", observed="opens", expected="not permitted")
    else:
        yield from _ways_round(door)


def _ways_round(door: Facts) -> Iterator[Result]:
    beside, as_root = door["beside"], door["as_root"]
    if beside:
        told = f"{', '.join(beside)} may start people's programs outside of their slices, where these open every GPU"
        yield warn(told, "close_door", observed=beside)
    if as_root:
        told = f"a container's daemon opens every GPU for members of its group: {', '.join(as_root)}"
        yield warn(told, "close_door", observed=as_root)
    if door.optional("opens") is None:
        yield unknown(door["why"])
    elif not beside and not as_root:
        yield ok("without a job, no GPU opens")


@check("slurm-accounting", proves="Slurm's accounting answers", source=ACCOUNTING)
def slurm_accounting(node: Node) -> Iterator[Result]:
    """Warn only: jobs go on, and the controller keeps what is to be written until the database is back."""
    found = node.facts.optional("slurm")
    if found is None:
        yield inapplicable(NO_DAEMON)
    elif found.optional("accounting") is None:
        yield inapplicable("the cluster keeps no accounting")
    elif not found["accounting"]:
        yield warn(
            "the database of Slurm's accounting does not answer; jobs go on",
            "start_service",
            observed="no answer",
            reason="slurmdbd.service and mariadb.service on the controller",
        )
    else:
        yield ok("the accounting answers")
