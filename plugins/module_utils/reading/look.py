# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at a node, by the module gpu_facts or by the program that it has left there: facts, receipts, last trial."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.checks.reboot import judged
from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, run_lock
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import plain_values
from ansible_collections.gpulab.node.plugins.module_utils.facts import own_files
from ansible_collections.gpulab.node.plugins.module_utils.facts.collect import collect
from ansible_collections.gpulab.node.plugins.module_utils.reading import program
from ansible_collections.gpulab.node.plugins.module_utils.receipts import trial
from ansible_collections.gpulab.node.plugins.module_utils.receipts.store import NodeReceipts

if TYPE_CHECKING:
    from collections.abc import Mapping

# What a run of site.yml, or a proof, reads the node for: they find what the last one left there, and leave it.
KEEPS = (run_lock.LOOK, run_lock.END)


def look(asked: Mapping[str, Any], *, check_mode: bool) -> dict[str, Any]:
    """Return the result of a module: the facts, or a refusal with its holder; asked are the options of gpu_facts."""
    try:
        writes = not check_mode and os.geteuid() == 0
        found = _found(asked, writes=writes)
        if writes and asked["work"] in KEEPS and asked["program"]:
            program.keep(asked["program"])
    except Refusal as refusal:  # another run works on the node, or a record of gpulab there is damaged
        holder = run_lock.holder() if refusal.code == "S010" else None
        return {"failed": True, "msg": str(refusal), "refusal": asdict(refusal), "holder": holder}
    facts = {**found, "gpulab_check_mode": check_mode}
    return {"changed": False, "ansible_facts": facts, "clock": time.time()}


def _found(asked: Mapping[str, Any], *, writes: bool) -> dict[str, Any]:
    work = asked["work"]
    if writes and asked["run"] and run_lock.hold(asked["run"], work, asked["dead"]):
        evidence.take()
    node = Node()
    receipts = NodeReceipts(node)
    last = trial.last(node) if work in KEEPS else None
    watch = trial.Watch(node, last.asked) if last else None
    facts = judged(collect(node, asked["timeout"], kernel_values=asked["kernel_values"]))
    if writes and work == run_lock.END:
        receipts.seal(facts)
    facts = plain_values({**facts, "receipts": receipts.facts(facts)})
    holds = last and watch and watch.digest(trial.of_facts(facts)) == last.watched
    trials = {"gpulab_software_trial": asdict(last)} if last and holds else {}
    return {"gpulab": facts, "gpulab_missing": own_files.missing(node, asked["own_paths"]), **trials}
