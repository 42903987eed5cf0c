"""Boards that nobody described: what the list says of their class, and what the node itself shows, before any guess."""

from __future__ import annotations

from copy import deepcopy

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks import runner

from . import nodes

H800, A800, UNLISTED = "10de:2324", "10de:20f3", "10de:23ef"


def found(facts, check, **declared):
    """Return the results of one check."""
    return [result for result in runner.verify(nodes.node(facts, **declared)) if result.id == check]


def switched(device, *, links=8, switches=4, down=()):
    """Return eight boards behind NVSwitches; down are the NVLinks that are inactive on the first one."""
    facts = deepcopy(nodes.healthy("h100x8"))
    facts["pci"]["nvswitches"] = facts["pci"]["nvswitches"][:switches]
    for gpu in (*facts["pci"]["gpus"], *facts["nvml"]["gpus"]):
        gpu["device"] = device
    for index, gpu in enumerate(facts["nvml"]["gpus"]):
        gpu["nvlink"] = {
            "count": links,
            "links": [{**gpu["nvlink"]["links"][n], "active": index > 0 or n not in down} for n in range(links)],
        }
    return facts


def without_ecc(model, device, default, *numbers):
    """Return a node whose boards, or those with these numbers, have ECC off; default is what NVML says is theirs."""
    facts = deepcopy(nodes.healthy(model))
    for index, gpu in enumerate(facts["nvml"]["gpus"]):
        gpu["device"] = device
        gpu["ecc"]["default"] = default
        if not numbers or index in numbers:
            gpu["ecc"]["mode"] = {"enabled": False, "pending": False}
    return facts


@pytest.mark.parametrize("device", [H800, A800, UNLISTED])
def test_a_link_that_is_lost_behind_nvswitches_is_a_fault_and_no_bridge(device):
    results = found(switched(device, down=(1, 4, 6)), "nvlink")
    (wrong,) = [result for result in results if result.severity != "ok"]
    assert (wrong.severity, wrong.observed, wrong.expected) == ("fail", 5, 8)
    assert wrong.remediation in ("reset_gpu", "contact_support")
    assert "bridge" not in f"{wrong.summary} {wrong.reason}"
    assert wrong.gpu["index"] == 0


@pytest.mark.parametrize("device", [H800, A800, UNLISTED])
def test_links_that_are_all_down_behind_nvswitches_are_a_fault(device):
    facts = switched(device)
    for gpu in facts["nvml"]["gpus"]:
        for link in gpu["nvlink"]["links"]:
            link["active"] = False
    assert {result.severity for result in found(facts, "nvlink")} == {"fail"}


@pytest.mark.parametrize("device", [H800, A800, UNLISTED])
def test_links_that_are_all_up_are_fine(device):
    assert {result.severity for result in found(switched(device), "nvlink")} == {"ok"}


def test_a_module_is_made_with_its_links_where_no_switch_is_seen_either():
    """In a virtual machine, and on boards of four whose GPUs are joined directly."""
    (wrong,) = [one for one in found(switched(A800, switches=0, down=(2,)), "nvlink") if one.severity != "ok"]
    assert (wrong.severity, wrong.remediation) == ("fail", "reset_gpu")


def test_cards_without_a_bridge_use_no_link():
    facts = deepcopy(nodes.healthy("a100-pcie-x2"))
    for gpu in facts["nvml"]["gpus"]:
        gpu["device"] = "10de:20f5"  # A800 80GB PCIe
    assert {result.severity for result in found(facts, "nvlink")} == {"ok"}


def test_a_bridge_that_is_not_seated_is_still_said():
    facts = deepcopy(nodes.healthy("a100-pcie-bridged"))
    for gpu in facts["nvml"]["gpus"]:
        gpu["device"] = "10de:20f5"
    facts["nvml"]["gpus"][0]["nvlink"]["links"][0]["active"] = False
    (wrong,) = [one for one in found(facts, "nvlink") if one.severity != "ok"]
    assert (wrong.remediation, "bridge" in wrong.reason) == ("check_seating", True)


def test_a_board_that_no_list_has_and_that_joins_more_than_four_has_no_bridge():
    (wrong,) = [one for one in found(switched(UNLISTED, switches=0, down=(2,)), "nvlink") if one.severity != "ok"]
    assert "bridge" not in f"{wrong.summary} {wrong.reason}"


def test_a_fabric_that_is_not_there_is_a_fault_on_modules_that_nobody_described():
    facts = switched(H800)
    facts["nvml"]["gpus"][0]["fabric"] = nodes.ABSENT
    assert [one.severity for one in found(facts, "fabric") if one.severity not in ("ok", "inapplicable")] == ["fail"]


@pytest.mark.parametrize(
    ("model", "device", "default", "severity"),
    [
        ("l40s", "10de:26b5", True, "fail"),  # L40
        ("l40s", "10de:26b5", nodes.ABSENT, "fail"),  # by its class alone
        ("l40s", "10de:2231", True, "warn"),  # RTX A5000, somebody turned it off
        ("l40s", "10de:2231", False, "ok"),
        ("l40s", "10de:2231", nodes.ABSENT, "ok"),
        ("l40s", "10de:13f2", False, "ok"),  # Tesla M60, which is sold with ECC off
        ("l40s", "10de:3fff", True, "warn"),  # no list has it
    ],
)
def test_ecc_that_is_off_is_judged_by_what_the_board_calls_its_default(model, device, default, severity):
    (result,) = found(without_ecc(model, device, default), "ecc-enabled")
    assert result.severity == severity
    assert "this model allows" not in result.summary


def test_ecc_that_is_off_on_one_board_of_several_is_told():
    results = found(without_ecc("a100-pcie-x2", "10de:3fff", nodes.ABSENT, 0), "ecc-enabled")
    assert [result.severity for result in results] == ["warn", "ok"]


def power(device, model="rtx4090x2", **milliwatts):
    facts = deepcopy(nodes.healthy(model))
    for gpu in facts["nvml"]["gpus"]:
        gpu["device"] = device
        gpu["power_mw"].update(milliwatts)
    return {result.severity for result in found(facts, "power-limit")}


def test_a_module_that_shares_its_power_with_its_processor_may_get_less_than_its_limit():
    of_module = {"limit": 900_000, "default_limit": 900_000, "enforced_limit": 700_000}
    assert power("10de:2342", **of_module) == {"ok"}
    assert power("10de:2345", model="gb200x4", **of_module) == {"ok"}  # by NVLink-C2C, which NVML tells
    assert power("10de:2330", **of_module) == {"warn"}


def test_a_limit_that_somebody_lowered_is_told_on_a_module_too():
    assert power("10de:2342", limit=600_000, default_limit=900_000, enforced_limit=600_000) == {"warn"}


@pytest.mark.parametrize("device", ["10de:2231", H800])
def test_a_board_of_the_lists_is_judged_by_its_name(device):
    facts = deepcopy(nodes.healthy("l40s"))
    facts["nvml"]["gpus"][0]["device"] = device
    (result,) = found(facts, "board-known")
    assert result.severity == "ok"
    assert nodes.CATALOG["gpus"][device]["name"] in result.summary


def test_expected_values_of_the_operator_hold_for_a_board_that_nobody_described_too():
    facts = deepcopy(nodes.healthy("unknown-narrow"))
    (result,) = found(facts, "pcie-width", profile={"pcie_width": 16})
    assert result.severity == "fail"


def test_fewer_lanes_than_the_connector_are_no_fault_of_a_board_whose_lanes_nobody_described():
    facts = deepcopy(nodes.healthy("unknown-narrow"))
    for gpu in (*facts["pci"]["gpus"], *facts["nvml"]["gpus"]):
        gpu["device"] = "10de:24b8"  # RTX A3000 Laptop GPU
    (result,) = found(facts, "pcie-width")
    assert result.severity == "info"


def test_a_branch_that_no_bulletin_names_gets_fixes_until_its_life_ends():
    def judged(version):
        facts = deepcopy(nodes.healthy("l40s"))
        facts["nvml"]["driver_version"] = facts["driver"]["library"] = version
        return [result.severity for result in found(facts, "driver-security")]

    assert judged("620.70.06") == ["ok"]
    assert judged("590.48.01") == ["warn"]
