"""Runs to report on, as the report action collects them from the hosts of a play."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import line
from ansible_collections.gpulab.node.plugins.plugin_utils.proof import judge
from ansible_collections.gpulab.node.plugins.plugin_utils.report import document
from ansible_collections.gpulab.node.plugins.plugin_utils.report.noted import NOBODY_LOOKED

from unit.checks import nodes
from unit.checks.test_faults import FAULTS

CREATED = "2026-11-21T01:00:00Z"
HOSTILE = "<script>document.title='pwned'</script>&\"'\x1b"
NOTHING = {
    "groups": ["gpu-nodes"],
    "facts": None,
    "plan": None,
    "results": [],
    "not_for_this_machine": [],
    "verify": {},
    "reading": {},
    "run": NOBODY_LOOKED,
}
UNREACHABLE = {**NOTHING, "reading": {"unreachable": True, "msg": "Connection refused"}}


def judged(facts: dict[str, Any]) -> dict[str, Any]:
    """Return a host whose facts were read and judged."""
    results, not_for_this_machine = judge(facts, None, {})
    return {**NOTHING, "facts": facts, "results": results, "not_for_this_machine": not_for_this_machine}


def faulty(*names: str) -> dict[str, Any]:
    """Return a host with these faults."""
    faults = [next(fault for fault in FAULTS if fault.name == name) for name in names]
    facts = nodes.healthy(faults[0].model)
    for fault in faults:
        fault.inject(facts)
    return judged(facts)


def fleet(number: int) -> dict[str, dict[str, Any]]:
    """Return so many hosts of three kinds; every fifth has a finding, every fiftieth cannot be reached."""
    kinds = [
        ("training_servers", judged(nodes.healthy("h100x8"))),
        ("training_servers", judged(nodes.healthy("h200x8"))),
        ("workstations", judged(nodes.healthy("rtx4090x2"))),
    ]
    faults = [
        ("training_servers", faulty("XID 79", "power limit lowered")),
        ("training_servers", faulty("persistence mode off")),
        ("training_servers", faulty("two NVLinks down", "row remap failed, and pending too")),
    ]
    hosts = {}
    for at in range(1, number + 1):
        group, host = faults[at // 5 % 3] if at % 5 == 0 else kinds[at % 3]
        host = UNREACHABLE if at % 50 == 0 else host
        run = {
            "changed": ["nvidia_driver : Install the driver"] if at % 7 == 0 else [],
            "seconds": 12.5 + at,
            "roles": {"verify": 2.5},
        }
        hosts[f"node{at:03d}"] = {**host, "groups": ["gpu-nodes", group, f"rack{at % 4}"], "run": run}
    return hosts


def compared(report: dict[str, Any], *earlier: dict[str, Any]) -> dict[str, Any]:
    """Return a document that knows earlier ones, the latest last."""
    lines: dict[str, list[Any]] = {}
    for before in earlier:
        for host in before["hosts"]:
            lines.setdefault(host["name"], []).append(line(before, host))
    return document.with_history(report, lambda name: lines.get(name, []))


def simulated() -> dict[str, Any]:
    """Return a host whose GPUs are simulated."""
    facts = nodes.healthy("rtx4090x2")
    facts["simulated"] = "gpulab simulated NVML"
    return judged(facts)


def hostile() -> dict[str, Any]:
    """Return a host on which every text wants to be markup."""
    facts = nodes.healthy("h100x8")
    facts["system"].update(name=HOSTILE, kernel=HOSTILE)
    for gpu in facts["nvml"]["gpus"]:
        gpu.update(name=HOSTILE, uuid=HOSTILE, serial=HOSTILE, vbios=HOSTILE)
    facts["simulated"] = HOSTILE
    facts["nvml"]["gpus"][0]["vbios"] = f"other {HOSTILE}"
    return judged(facts)


def mixed() -> dict[str, Any]:
    """Return a document of healthy, failing, simulated, unreachable and unjudged hosts."""
    failed = {**NOTHING, "verify": {"failed": True, "msg": "GPULAB-V002 ..."}}
    hosts = {
        "good": judged(nodes.healthy("h100x8")),
        "bad": faulty("GPU lost", "XID 79"),
        "lab": simulated(),
        "away": UNREACHABLE,
        "early": NOTHING,
        "failed": failed,
    }
    return document.build(hosts, CREATED)
