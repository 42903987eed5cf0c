"""What the plan makes of the declared settings of GPUs and of the power supply."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve

from .make import TODAY, facts

H100, A100, T4, RTX_3090, L40S, UNLISTED = (
    f"10de:{device}" for device in ("2330", "20f1", "1eb8", "2204", "26b9", "2302")
)


def planned(made=None, **given):
    return resolve(made or facts(), options.complete(given), catalog.load(), TODAY)["gpu_settings"]


def test_nothing_is_set_that_nobody_asked_for():
    plan = planned()
    assert plan["settings"] == {}
    assert plan["because"][-1] == "Nothing else is requested."


def test_what_is_declared_is_planned():
    plan = planned(facts(gpus=[H100, H100]), gpu_settings_values={"ecc": True}, gpu_settings_per_gpu={1: {"ecc": None}})
    assert plan["settings"] == {"all": {"ecc": True}, "gpus": {1: {"ecc": None}}, "power_budget_watts": None}
    assert plan["because"][-1] == "The inventory sets ecc, ecc of 1."


@pytest.mark.parametrize(
    ("given", "budget"),
    [
        ({}, 1600 * 100 // 125 - 150),
        ({"preflight_cpu_watts": 400}, 880),
        ({"preflight_power_headroom_percent": 0}, 1450),
    ],
)
def test_the_power_supply_leaves_the_gpus_what_preflight_asks_of_it(given, budget):
    """The same sum as preflight's: what is limited so is no finding there."""
    plan = planned(preflight_psu_watts=1600, **given)
    assert plan["settings"]["power_budget_watts"] == budget
    assert f"{budget} W" in plan["because"][-1]


def test_an_image_without_a_gpu_sets_none():
    made = facts(gpus=[])
    assert planned(made, gpulab_without_gpu=True, gpu_settings_values={"ecc": True})["settings"] == {}


def test_nothing_is_planned_where_the_settings_are_to_go():
    given = {"gpu_settings_values": {"power_limit": 300}, "preflight_psu_watts": 1600}
    assert planned(gpu_settings_state="absent", **given)["settings"] == {}


def refused(made, **given):
    with pytest.raises(Refusal) as caught:
        planned(made, **given)
    return caught.value


def answering(gpus, profiles):
    """Return the facts of a node whose driver runs and tells the profiles of its GPUs."""
    made = facts(gpus=gpus)
    made["nvml"] = {
        "gpus": [
            {"bus_id": device["address"], "index": index, "uuid": f"GPU-{index}", "mig_profiles": profiles}
            for index, device in enumerate(made["pci"]["gpus"])
        ]
    }
    return made


@pytest.mark.parametrize(
    ("gpus", "given", "code", "told"),
    [
        ([RTX_3090], {"gpu_settings_values": {"mig": True}}, "P093", "MIG is set for GPU 0 (GeForce RTX 3090)"),
        ([L40S], {"gpu_settings_values": {"mig_instances": ["1g.5gb"]}}, "P093", "NVIDIA L40S"),
        ([H100, T4], {"gpu_settings_values": {"mig": True}}, "P093", "gpu_settings_per_gpu: {1: {mig: null}}"),
        ([RTX_3090], {"gpu_settings_values": {"ecc": True}}, "P093", "ECC"),
        ([H100], {"gpu_settings_values": {"mig_instances": ["3g.20gb"]}}, "P094", "3g.40gb"),
        ([A100], {"gpu_settings_per_gpu": {0: {"mig_instances": ["3g.40gb"]}}}, "P094", "3g.20gb"),
        ([T4], {"gpu_settings_values": {"power_limit_watts": 3000}}, "P095", "limit of this board is 70 W"),
        ([H100, T4], {"gpu_settings_per_gpu": {1: {"power_limit_watts": 700}}}, "P095", "GPU 1 (Tesla T4)"),
        ([H100, H100], {"gpu_settings_per_gpu": {9: {"ecc": True}}}, "H120", "1 (0000:01:00.0)"),
        ([H100], {"gpu_settings_per_gpu": {"0000:0f:00.0": {"ecc": True}}}, "H120", "0000:0f:00.0"),
        ([H100], {"gpu_settings_per_gpu": {"first": {"ecc": True}}}, "H120", "first"),
    ],
)
def test_what_a_board_cannot_have_is_refused_before_it_has_a_driver(gpus, given, code, told):
    refusal = refused(facts(gpus=gpus), **given)
    assert refusal.code == code
    assert told in str(refusal)


@pytest.mark.parametrize(
    ("gpus", "given"),
    [
        ([H100], {"gpu_settings_values": {"mig_instances": ["3g.40gb", "1g.10gb+me", "1g.20gb"], "ecc": True}}),
        ([H100, T4], {"gpu_settings_values": {"mig": True}, "gpu_settings_per_gpu": {1: {"mig": None}}}),
        ([T4], {"gpu_settings_values": {"power_limit_watts": 100}}),  # its range is the driver's matter
        ([RTX_3090], {"gpu_settings_values": {"mig": None, "ecc": None}}),
        ([UNLISTED], {"gpu_settings_values": {"mig": True, "power_limit_watts": 3000, "ecc": True}}),
        ([H100], {"gpu_settings_per_gpu": {"GPU-4bf4e5a2": {"ecc": True}, "00000000:00:00.0": {"ecc": True}}}),
        ([H100], {"gpu_settings_per_gpu": {"0": {"ecc": True}}}),
    ],
)
def test_what_the_catalog_cannot_rule_out_is_left_to_the_driver(gpus, given):
    assert planned(facts(gpus=gpus), **given)["settings"]


def test_a_driver_that_runs_knows_its_profiles_and_uuids_best():
    made = answering([A100], [{"name": "3g.40gb"}])
    assert planned(made, gpu_settings_values={"mig_instances": ["3g.40gb"]})["settings"]
    assert refused(made, gpu_settings_per_gpu={"GPU-7": {"ecc": True}}).code == "H120"
    assert planned(made, gpu_settings_per_gpu={"GPU-0": {"ecc": True}})["settings"]


@pytest.mark.parametrize("name", ["mig", "ecc"])
def test_what_a_board_does_not_have_may_be_switched_off(name):
    assert planned(facts(gpus=[RTX_3090]), gpu_settings_values={name: False})["settings"]
    with pytest.raises(Refusal, match="P093"):
        planned(facts(gpus=[RTX_3090]), gpu_settings_values={name: True})
