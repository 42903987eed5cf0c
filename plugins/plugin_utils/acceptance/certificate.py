# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The certificate of an acceptance: what was measured of which nodes, by what it was judged, and what is not known.

certificate.json is canonical: the same content is the same octets, which are signed. It names the last certificate of
the same boards by its digest, and compares each number with it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.core import signatures
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.acceptance.ladder import FAILED, PASSED, UNTESTED, Verdict
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from ansible_collections.gpulab.node.plugins.plugin_utils.acceptance.ladder import Verdicts
    from ansible_collections.gpulab.node.plugins.plugin_utils.acceptance.state import Acceptance, Measured

FILE, PAGE = "certificate.json", "certificate.html"
PURPOSE = "gpulab-acceptance"
SCHEMA = 1
EFFECT = 0.05  # a smaller difference from the last certificate is not told
MEMBERS = {"schema": int, "purpose": str, "run": str, "accepted": bool, "nodes": dict, "numbers": list, "ended": str}


def canonical(certificate: Mapping[str, Any]) -> bytes:
    """Return the octets of a certificate; the same content has the same ones."""
    return (json.dumps(certificate, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n").encode()


def digest(data: bytes) -> str:
    """Return the SHA-256 of a certificate."""
    return hashlib.sha256(data).hexdigest()


def make(
    acceptance: Acceptance,
    verdicts: Verdicts,
    *,
    version: str,
    last: tuple[dict[str, Any], str] | None,
) -> dict[str, Any]:
    """Return the certificate of an acceptance that has ended.

    last is the last certificate and its digest. A node that is not tested is no acceptance, unless it need not be, and
    neither is a finding between nodes.
    """
    nodes = {}
    for name, node in acceptance.nodes.items():
        before = Verdict(FAILED, node.failed) if node.failed else Verdict(UNTESTED, node.untested)
        verdict = verdicts.nodes.get(name, before)
        nodes[name] = {
            "verdict": verdict.verdict,
            "why": verdict.why,
            "domain": node.domain,
            "boards": node.boards,
            "serial": node.serial,
            "gpu_serials": node.serials,
            "boot": node.boot,
            "versions": node.versions,
        }
    numbers = [_number(measured) for measured in acceptance.results]
    bad = [
        name
        for name, node in nodes.items()
        if node["verdict"] == FAILED or (node["verdict"] == UNTESTED and name not in acceptance.allowed)
    ]
    tested = any(number["gbs"] is not None for number in numbers)
    return {
        "schema": SCHEMA,
        "purpose": PURPOSE,
        "gpulab": version,
        "run": acceptance.run,
        "reason": acceptance.reason,
        "began": acceptance.began,
        "ended": acceptance.ended,
        "measured_seconds": round(acceptance.seconds, 1),
        "accepted": tested and not (bad or verdicts.boundaries or verdicts.failure),
        "failure": verdicts.failure,
        "nodes": nodes,
        "boundaries": [asdict(bound) for bound in verdicts.boundaries],
        "remarks": verdicts.remarks,
        "floor": {**asdict(acceptance.floor), "value": verdicts.floor},
        "numbers": numbers,
        "left_out": acceptance.left_out,
        "untested_allowed": sorted(acceptance.allowed),
        "last": {"run": last[0]["run"], "sha256": last[1]} if last else None,
        "compared": list(compared(last[0]["numbers"], numbers)) if last else [],
    }


def _number(measured: Measured) -> dict[str, Any]:
    return {
        "step": measured.step,
        "nodes": measured.nodes,
        "gbs": measured.rate,
        "lowest": measured.lowest,
        "highest": measured.highest,
        "why": measured.why,
        "transport": measured.transport,
        "at": measured.at,
        "seconds": measured.seconds,
    }


def compared(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the groups whose number is another one than in the last certificate, the last of each counts.

    A difference is one above EFFECT, and outside what the runs of both spread over.
    """
    old = {frozenset(number["nodes"]): number for number in before if number["gbs"]}
    for group, number in {frozenset(number["nodes"]): number for number in now if number["gbs"]}.items():
        was = old.get(group)
        if was is None or was["transport"] != number["transport"]:
            continue
        change = number["gbs"] / was["gbs"] - 1
        apart = number["highest"] < was["lowest"] or number["lowest"] > was["highest"]
        if abs(change) > EFFECT and apart:
            told = {"nodes": number["nodes"], "before": was["gbs"], "now": number["gbs"]}
            yield {**told, "percent": round(100 * change, 1)}


def verified(path: Path, signers: str) -> dict[str, Any]:
    """Return a certificate that one of these signers has signed.

    signers is a text of the form of allowed_signers. Raises Refusal F145.
    """
    try:
        data = path.read_bytes()
        signature = path.with_name(path.name + signatures.SUFFIX).read_bytes()
    except OSError as error:
        raise refuse("F145", path=path, detail=f"{error.filename}: {error.strerror}") from error
    detail = "acceptance_signers names no file that says who may" if not signers.strip() else ""
    detail = detail or signatures.fault(data, signature, signers, PURPOSE)
    if detail:
        raise refuse("F145", path=path, detail=detail)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise refuse("F145", path=path, detail=f"it is no JSON: {error}") from error
    whole = isinstance(found, dict) and all(isinstance(found.get(key), kind) for key, kind in MEMBERS.items())
    if not whole or found["purpose"] != PURPOSE or found["schema"] != SCHEMA or canonical(found) != data:
        raise refuse("F145", path=path, detail="it is no certificate of this gpulab's form")
    return dict(found)


def last(directory: Path, boards: str, names: Collection[str], signers: str) -> tuple[dict[str, Any], str] | None:
    """Return the newest certificate of these boards with at least two of these nodes, and its digest.

    One that nobody of the signers has signed is as if it were not there.
    """
    for path in sorted(directory.glob(f"*/{FILE}"), reverse=True):
        try:
            found = verified(path, signers)
        except Refusal:
            continue
        shared = [name for name, node in found["nodes"].items() if name in names and node["boards"] == boards]
        if len(shared) > 1 and any(number["gbs"] for number in found["numbers"]):
            return found, digest(path.read_bytes())
    return None


def lines(certificate: Mapping[str, Any]) -> Iterator[str]:
    """Yield the verdict for a terminal."""
    nodes, floor = certificate["nodes"], certificate["floor"]
    yield f"acceptance {certificate['run']}: {'accepted' if certificate['accepted'] else 'NOT accepted'}"
    value = "none" if floor["value"] is None else f"{floor['value']:g} GB/s"
    yield f"  floor {value} ({floor['source']})"
    passed = [name for name, node in nodes.items() if node["verdict"] == PASSED]
    if passed:
        yield f"  passed: {', '.join(passed)}"
    yield from (f"  {fault}" for fault in faults(certificate))
    yield from (f"  {remark}" for remark in certificate["remarks"])
    for change in certificate["compared"]:
        figures = f"{change['before']:g} -> {change['now']:g} GB/s ({change['percent']:+g} %)"
        yield f"  since the last certificate: {', '.join(change['nodes'])}: {figures}"
    yield from (f"  left out: {what}" for what in certificate["left_out"])


def faults(certificate: Mapping[str, Any]) -> Iterator[str]:
    """Yield what keeps nodes from being accepted, a line each."""
    if certificate["failure"]:
        yield f"the run failed, nothing is said of the nodes: {certificate['failure']}"
    for name, node in certificate["nodes"].items():
        if node["verdict"] != PASSED:
            yield f"{node['verdict']}: {name}: {node['why']}"
    for bound in certificate["boundaries"]:
        yield f"between {', '.join(bound['one'])} and {', '.join(bound['other'])}: {bound['why']}"
