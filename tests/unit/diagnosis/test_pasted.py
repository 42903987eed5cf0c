"""Which finding stands first of a pasted text, and which texts say nothing."""

from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import REMEDIES
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import asked
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose, model, pasted

from unit.checks import nodes

from . import cases, threads

KNOWN = catalog.load()
CASES = yaml.safe_load(Path(__file__).with_name("pasted.yml").read_text(encoding="utf-8"))
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
FOR_MORE = "Search for `cudaErrorIllegalAddress' in https://docs.nvidia.com/cuda/group__CUDART__TYPES.html for more."
ERRNO_97 = "[c10d] The client socket cannot be initialized to connect to [localhost]:29500 (errno: 97 - not supported)."
PEER_CLOSED = "NCCL WARN socketProgress: Connection closed by remote peer node1<40116>"
TENSORRT = "Could not load dynamic library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open shared object file"


def ids(text):
    return [one.id for one in pasted.errors(KNOWN, text)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["text"][:30])
def test_what_stands_first_on_a_node_without_internet(case):
    told = [one.id for one in threads.findings(case["text"]) if one.cost]
    assert told[:1] == ([f"error-{case['first']}"] if case["first"] else [])


def test_a_cause_stands_before_what_follows_wherever_it_is():
    wanted = ["error-torch-out-of-memory", "error-nccl-peer-closed"]
    assert ids(f"{PEER_CLOSED}\n{OOM}") == ids(f"{OOM}\n{PEER_CLOSED}") == wanted


def test_what_is_harmless_stands_last_and_costs_nothing():
    found = list(pasted.errors(KNOWN, f"{TENSORRT}\n{PEER_CLOSED}\n{OOM}"))
    assert [one.id for one in found][-1] == "error-tf-tensorrt"
    assert found[-1].cost == 0


def test_what_is_harmless_stands_behind_what_the_node_shows():
    found = cases.evidence(facts := nodes.healthy("h100x8"), load=dict.fromkeys(("1m", "5m", "15m"), 500.0))
    told = diagnose.findings(cases.case(facts, found, symptom="slow", error=TENSORRT))
    assert told[-1].id == "error-tf-tensorrt"


def test_a_retry_that_did_not_help_is_told():
    text = f"WARNING: CUDA out of memory. Tried to allocate 2.00 GiB. Retrying with batch size 8\nTraceback:\n{OOM}"
    assert ids(text) == ["error-torch-out-of-memory"]


def test_lines_with_an_xid_are_answered_as_the_proof_does():
    first, second = pasted.errors(
        KNOWN,
        "NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149\n"
        "NVRM: Xid (PCI:0000:dc:00): 149, NETIR_LINK_EVT",
    )
    assert (first.id, second.id) == ("error-xid-149", "error-xid-45")
    assert first.remedy in REMEDIES.values()
    assert first.cost > second.cost


def test_an_xid_that_is_only_named_as_the_cause_is_answered():
    text = "NVRM: Xid (PCI:0000:dc:00): 45, pid=1, name=python3, Ch 00000001 caused by previous Xid 149"
    assert ids(text)[0] == "error-xid-149"


@pytest.mark.parametrize("text", [f"{OOM} (https://pytorch.org/docs)", f"{ILLEGAL}\n{FOR_MORE}", PEER_CLOSED, ERRNO_97])
def test_what_is_only_mentioned_was_not_needed(text):
    assert asked.addresses(text) == []
    assert asked.names(text) == []


def test_only_what_was_measured_has_a_cost():
    """The place of a text is no measurement, and a page must not show it as one."""
    text = diagnose.findings(cases.case(nodes.healthy("h100x8"), cases.evidence(nodes.healthy("h100x8")), error=OOM))
    assert [model.as_record(one)["cost"] for one in text] == [None]
