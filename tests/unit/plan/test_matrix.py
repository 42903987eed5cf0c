"""Every GPU of the catalog on every platform, and made-up nodes: a plan that obeys the rules, or a refusal."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import reasons, resolve
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import CODES
from hypothesis import given, settings
from hypothesis import strategies as st

from .invariants import PRE_TURING, TURING_TO_HOPPER, violations
from .make import SYSTEMS, TODAY, facts
from .strategies import UNLISTED, WISHES, nodes

CATALOG = catalog.load()
# One board of each kind that a plan can tell apart
BOARDS = {
    (gpu["chip"], gpu["class"], gpu["form"], str(gpu.get("first_driver")), gpu["fabric_manager"]): (pci_id, gpu)
    for pci_id, gpu in CATALOG.gpus.items()
}.values()


def kinds(node):
    unlisted = {pci_id: {"architecture": name, "form": None} for pci_id, name in UNLISTED.items()}
    records = [{**CATALOG.gpus, **unlisted}[device["device"]] for device in node["pci"]["gpus"]]
    return [(record["architecture"], record["form"] == "superchip") for record in records]


def outcome(node, requested):
    """Return (plan, None) or (None, refusal)."""
    try:
        return resolve(node, requested, CATALOG, TODAY), None
    except Refusal as refusal:
        return None, refusal


def expected_refusal(gpu, platform):
    if gpu["architecture"] == "Kepler":
        return "P014"  # its last branch is 470, which no source has
    if platform in {"debian-13", "ubuntu-26.04"} and gpu["architecture"] in PRE_TURING:
        return "P014"  # NVIDIA's repositories for these start above 580
    return None


@pytest.mark.parametrize("platform", SYSTEMS)
@pytest.mark.parametrize(("pci_id", "gpu"), BOARDS, ids=[f"{gpu['chip']}-{pci_id[5:]}" for pci_id, gpu in BOARDS])
def test_gpu_on_platform(pci_id, gpu, platform):
    node = facts(platform, [pci_id], architecture="aarch64" if gpu["form"] == "superchip" else "x86_64")
    requested = options.complete({})
    plan, refusal = outcome(node, requested)
    code = expected_refusal(gpu, platform)
    if code:
        assert refusal.code == code
        return
    assert violations(plan, node, requested, kinds(node)) == []
    if gpu["architecture"] in TURING_TO_HOPPER:
        assert plan["driver"]["kernel_modules"] == "open"


@settings(max_examples=400)
@given(node=nodes(), given_wishes=WISHES)
def test_plan_obeys_or_is_refused(node, given_wishes):
    requested = options.complete(given_wishes)
    plan, refusal = outcome(node, requested)
    if refusal:
        assert refusal.code in CODES
        assert "{" not in str(refusal)
        return
    assert violations(plan, node, requested, kinds(node)) == []
    assert outcome(node, requested)[0] == plan
    assert all(line.endswith(".") for line in [*reasons(plan), *plan["warnings"]])


@settings(max_examples=300)
@given(device=st.integers(min_value=0, max_value=0xFFFF))
def test_any_pci_id_is_planned_or_refused(device):
    plan, refusal = outcome(facts("ubuntu-24.04", [f"10de:{device:04x}"]), options.complete({}))
    if refusal:
        # Its architecture cannot be read, it is too old for the repository, or too new for every release that is known.
        assert refusal.code in {"P003", "P014", "P092"}
    else:
        assert plan["driver"]["branch"] in {"580", "595", "620"}  # Rubin begins with 620
