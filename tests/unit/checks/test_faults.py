"""Every fault is found by the right check, with the right remedy, and by no check that has nothing to do with it."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import checks, verify

from . import nodes
from .cuda_faults import CUDA_FAULTS
from .driver_faults import DRIVER
from .environment_faults import ENVIRONMENT_FAULTS
from .gpu_faults import BOARD, MEMORY, THERMAL, XIDS
from .host_faults import CONTAINERS as ENGINES
from .host_faults import HOST, export, tier
from .link_faults import INFINIBAND, LINKS
from .load_faults import CUDA, LONG, NODE, RATES
from .nccl_faults import GROUP, NCCL, NCCL_FILES, WAYS
from .presence_faults import PRESENCE
from .roce_faults import BETWEEN_NODES, ROCE_FAULTS
from .settings_faults import SETTINGS
from .software_faults import CONTAINERS, DRIFT, LIBRARIES, LIMITS, MONITORING, PEOPLE
from .together_faults import BETWEEN, NODES

HARDWARE = LINKS + MEMORY + THERMAL + SETTINGS + BOARD + XIDS + HOST + ENGINES + INFINIBAND + ROCE_FAULTS
SOFTWARE = DRIFT + LIBRARIES + CONTAINERS + MONITORING + GROUP + NCCL + NCCL_FILES + LIMITS + WAYS + PEOPLE
LOAD = CUDA + RATES + BETWEEN + NODES + NODE + LONG + BETWEEN_NODES
FAULTS = PRESENCE + DRIVER + CUDA_FAULTS + HARDWARE + SOFTWARE + ENVIRONMENT_FAULTS + LOAD


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_found_by_its_check_with_its_remedy(fault):
    results = verify(nodes.node(fault.facts(), fault.plan, **fault.declared))
    grave = [r for r in results if r.severity in ("warn", "fail")]
    found = {(r.id, r.severity, r.remediation) for r in results}
    assert (fault.check, fault.severity, fault.remediation) in found
    assert {r.id for r in grave} == ({fault.check, *fault.also} if fault.severity != "info" else set())
    assert any(fault.says in f"{r.summary} {r.reason}" for r in results if r.id == fault.check)


def test_faults_are_distinct_and_cover_every_check():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert {check.id for check in checks()} == {fault.check for fault in FAULTS}


def test_the_finding_names_its_gpu():
    facts = nodes.healthy("rtx4090x2")
    facts["nvml"]["gpus"][1]["persistence"] = False
    (finding,) = [r for r in verify(nodes.node(facts)) if r.severity == "warn"]
    assert finding.gpu == {"index": 1, "uuid": "GPU-00000000-0000-0000-0000-000000000001", "bus_id": "0000:29:00.0"}


def test_a_tier_that_is_declared_read_only_is_no_finding():
    facts = nodes.healthy("l40s")
    tier(mount="/")(facts)
    facts["filesystems"][0]["read_only"] = True
    results = verify(nodes.node(facts), ["host", "storage"])
    assert {r.severity for r in results if r.id in ("disks", "storage-mounts", "storage-options")} == {"ok"}


def test_a_tier_that_is_offered_to_its_clients_is_no_finding():
    facts = nodes.healthy("l40s")
    export()(facts)
    (result,) = [one for one in verify(nodes.node(facts), ["storage"]) if one.id == "storage-exports"]
    assert result.severity == "ok"


def test_a_tier_that_an_automount_holds_is_offered():
    facts = nodes.healthy("l40s")
    export()(facts)
    facts["storage"][0].update(mounted=None, waits=True)
    (result,) = [one for one in verify(nodes.node(facts), ["storage"]) if one.id == "storage-exports"]
    assert result.severity == "ok"


def test_nothing_is_offered_where_nothing_is_mounted():
    facts = nodes.healthy("l40s")
    export()(facts)
    facts["storage"][0]["mounted"] = None
    (result,) = [one for one in verify(nodes.node(facts), ["storage"]) if one.id == "storage-exports"]
    assert result.severity == "fail"
