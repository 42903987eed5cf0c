# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Diagnose a case: every rule about the symptom, what is known of the error, and the proof's checks, ranked by cost."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks import runner
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.records import typed
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import counted, for_people_all
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import (
    hang,
    imports,
    known,
    memory,
    mismatch,
    mismatch_python,
    network,
    pasted,
    recorded,
    slow,
    watched,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.estimate import estimate
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import (
    ALL,
    HANG,
    MEMORY,
    RULES,
    Diagnosis,
    Estimate,
    Finding,
    as_record,
    listed,
)
from ansible_collections.gpulab.node.plugins.plugin_utils.proof import catalog

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis.model import Case

SCHEMA = 1
# Importing them fills the registry.
SYMPTOMS_OF_RULES = (memory, hang, recorded, mismatch, mismatch_python, slow, imports, network, watched)


def findings(case: Case) -> list[Finding]:
    """Return the findings, the dearest first; of the same cost, what was seen on the node goes before what is known."""
    symptom = case.asked.symptom
    found = [
        replace(one, id=rule.id, symptom=rule.symptom, source=one.source or rule.source)
        for rule in RULES.values()
        if symptom in (ALL, rule.symptom)
        for one in rule.find(case)
    ]
    found += pasted.errors(case.catalog, case.asked.error or "")
    results = runner.verify(Node(case.facts, None, catalog()))
    found += known.checks(results, symptom)
    return sorted(dict.fromkeys(found), key=lambda one: -one.cost)


def diagnosis(case: Case, host: str, created: str) -> Diagnosis:
    """Return the whole diagnosis, as people may see it."""
    asked = case.asked
    whole = Diagnosis(
        schema=SCHEMA,
        host=host,
        created=created,
        simulated=case.facts.get("simulated", False),
        asked=asked,
        findings=[as_record(one) for one in findings(case)],
        memory=memory.table(case),
        estimates=_estimates(case) if asked.symptom in (ALL, MEMORY) else [],
        ranks=hang.told(case),
        dumps=case.evidence.dumps if asked.symptom in (ALL, HANG) else [],
        late=case.evidence.late,
    )
    return typed(for_people_all(asdict(whole)), Diagnosis)


def _estimates(case: Case) -> list[Estimate]:
    if not case.parameters:
        return []
    gpus = {gpu.index: gpu.total_mib / 1024 for gpu in case.evidence.gpus if gpu.total_mib}
    return [
        Estimate(use.name, round(use.gib, 1), use.formula, [one for one, total in gpus.items() if use.gib <= total])
        for use in estimate(case.parameters, case.dtype, case.optimizer)
    ]


def lines(document: Diagnosis) -> list[str]:
    """Return a diagnosis as people read it in a terminal."""
    found, simulated = document.findings, " (SIMULATED GPUs)" if document.simulated else ""
    count = counted(len(found), "finding") if found else "no cause found on this node"
    told = [f"{document.host}{simulated}: {count}", *listed(found)]
    for gpu in document.memory:
        if gpu.used_mib is not None and gpu.holders:
            told.append(f"GPU {gpu.index}: {gpu.used_mib} of {gpu.total_mib} MiB")
            told += [
                f"     {holder.memory_mib} MiB  {holder.command} (PID {holder.pid}, user {holder.user}"
                f"{', container ' + holder.container if holder.container else ''}"
                f"{', job ' + holder.job if holder.job else ''}) since {holder.since}"
                f"{', grows ' + str(holder.grows_mib_s) + ' MiB/s' if holder.grows_mib_s else ''}"
                for holder in gpu.holders
            ]
    for estimated in document.estimates:
        fits = ", ".join(map(str, estimated.fits))
        told.append(
            f"{estimated.use}: {estimated.gib} GiB without activations = {estimated.formula}; "
            + (f"fits GPU {fits}" if fits else "fits no single GPU here")
        )
    if document.late:
        told.append(f"not read in time: {', '.join(document.late)}")
    return told
