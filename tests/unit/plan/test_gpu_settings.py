"""What the plan makes of the declared settings of GPUs and of the power supply."""

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, wishes
from ansible_collections.gpulab.node.plugins.plugin_utils.resolver import resolve

from .make import TODAY, facts


def planned(made=None, **given):
    return resolve(made or facts(), wishes.complete(given), catalog.load(), TODAY)["gpu_settings"]


def test_nothing_is_set_that_nobody_asked_for():
    plan = planned()
    assert plan["settings"] == {}
    assert plan["because"][-1] == "Nothing else is set: nobody asked."


def test_what_is_declared_is_planned():
    plan = planned(gpu_settings_values={"ecc": True}, gpu_settings_per_gpu={1: {"ecc": None}})
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
