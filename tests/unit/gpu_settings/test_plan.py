"""Settings of GPUs: what each is to have, what changes, what is refused, and what is given back."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings import plan as gpu_settings
from ansible_collections.gpulab.node.plugins.module_utils.gpu_settings.plan import (
    SettingStep,
    pending,
    plan,
    to_remember,
    wanted,
)

from unit.checks import nodes

FIRST, SECOND = "0000:19:00.0", "0000:29:00.0"
UUIDS = [f"GPU-00000000-0000-0000-0000-00000000000{index}" for index in range(2)]


def gpus(model="rtx4090x2", **readings):
    """Return a model's GPUs as NVML reads them, all with these readings changed."""
    found = nodes.healthy(model)["nvml"]["gpus"]
    for gpu in found:
        gpu.update(readings)
    return found


def settings(every=None, single=None, budget=None):
    return {"all": every or {}, "gpus": single or {}, "power_budget_watts": budget}


def refused(wish, found=None, **more):
    with pytest.raises(Refusal) as error:
        plan(wish, gpus() if found is None else found, **more)
    return error.value


def test_only_what_differs_changes():
    wish = settings({"power_limit_watts": 300, "persistence": True, "compute_mode": "default"})
    assert plan(wish, gpus()) == [
        SettingStep(FIRST, UUIDS[0], 0, "power_limit_watts", 450, 300),
        SettingStep(SECOND, UUIDS[1], 1, "power_limit_watts", 450, 300),
    ]


def test_persistence_comes_before_what_the_driver_would_forget_without_it():
    wish = settings({"power_limit_watts": 300, "persistence": False})
    assert [(step.index, step.name) for step in plan(wish, gpus())] == [
        (0, "persistence"), (1, "persistence"), (0, "power_limit_watts"), (1, "power_limit_watts"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", [UUIDS[1], "1", 1, SECOND, "00000000:29:00.0"])
def test_a_single_gpu_is_named_in_the_ways_of_nvidia_smi(name):
    wish = settings({"power_limit_watts": 300}, {name: {"power_limit_watts": 250}})
    assert [step.after for step in plan(wish, gpus())] == [300, 250]


def test_null_leaves_a_gpu_alone():
    wish = settings({"power_limit_watts": 300}, {0: {"power_limit_watts": None}})
    assert [step.gpu for step in plan(wish, gpus())] == [SECOND]


def test_a_gpu_that_is_not_there_is_refused():
    refusal = refused(settings(single={"2": {"ecc": True}}))
    assert refusal.code == "H120"
    assert FIRST in refusal.remedy


@pytest.mark.parametrize(("value", "code"), [(59, "H123"), (60, None), (450, None), (451, "H123")])
def test_a_limit_outside_the_boards_range_is_refused_with_the_range(value, code):
    wish = settings({"power_limit_watts": value})
    if code is None:
        plan(wish, gpus())
    else:
        assert (refused(wish).code, "60 to 450 W" in refused(wish).cause) == (code, True)


@pytest.mark.parametrize(("high", "code"), [(1980, None), (1981, "H123")])
def test_clocks_past_the_highest_are_refused(high, code):
    wish = settings({"locked_clocks_mhz": [210, high]})
    assert (refused(wish).code if code else plan(wish, gpus())[0].after) == (code or [210, high])


@pytest.mark.parametrize("wish", [{"ecc": True}, {"mig": False}])
def test_what_a_board_does_not_have_is_refused(wish):
    refusal = refused(settings(wish))
    assert refusal.code == "H122"
    assert "NOT_SUPPORTED" in refusal.cause


def test_what_a_board_does_not_have_may_be_left_alone_there():
    two = [*gpus("t4"), *gpus()[1:]]
    assert plan(settings({"ecc": True}, {1: {"ecc": None}}), two) == []


def test_a_setting_that_could_not_be_read_is_refused():
    assert (
        refused(settings({"compute_mode": "default"}), gpus(compute_mode={"error": "TIMEOUT", "code": 10})).code
        == "H122"
    )


def test_a_lost_gpu_does_not_keep_the_others_from_theirs():
    found = [{"index": 0, "error": "GPU_IS_LOST", "code": 15}, gpus()[1]]
    assert [step.gpu for step in plan(settings({"power_limit_watts": 300}), found)] == [SECOND]


# --- the power supply ---


def limits(budget, single=None, found=None):
    aims = wanted(settings(single=single, budget=budget), found or gpus())
    return [aim.get("power_limit_watts") for aim in aims.values()]


def test_a_budget_that_is_kept_changes_nothing():
    assert limits(900) == [None, None]


def test_a_budget_is_shared_in_proportion_to_the_defaults():
    mixed = gpus()
    mixed[1]["power_mw"] = {**mixed[1]["power_mw"], "default_limit": 150_000}
    assert limits(899) == [449, 449]
    assert limits(400, found=mixed) == [300, 100]


def test_the_share_is_the_same_once_it_is_set():
    """Of the defaults, not of what is set: a second run changes nothing."""
    found = gpus()
    for gpu in found:
        gpu["power_mw"] = {**gpu["power_mw"], "limit": 325_000, "enforced_limit": 325_000}
    assert plan(settings(budget=650), found) == []


def test_a_declared_limit_counts_first():
    assert limits(650, {0: {"power_limit_watts": 400}}) == [400, 250]


def test_a_gpu_that_is_left_alone_counts_with_what_it_has():
    assert limits(650, {0: {"power_limit_watts": None}}) == [None, 200]


def test_a_budget_below_what_the_boards_take_is_refused():
    refusal = refused(settings(budget=100))
    assert (refusal.code, "at least 60 W" in refusal.cause) == ("H121", True)


def test_what_nobody_can_add_up_is_not_shared():
    found = gpus()
    found[1]["power_mw"] = {**found[1]["power_mw"], "default_limit": {"unsupported": "NOT_SUPPORTED"}}
    assert limits(400, found=found) == [None, None]


# --- what was there before ---


def test_what_is_no_longer_wanted_is_given_back():
    known = {UUIDS[0]: {"power_limit_watts": 400}, UUIDS[1]: {"power_limit_watts": 450}}
    assert plan({}, gpus(), known) == [SettingStep(FIRST, UUIDS[0], 0, "power_limit_watts", 450, 400)]


def test_locked_clocks_are_known_from_what_gpulab_locked():
    wish, locked = settings({"locked_clocks_mhz": [210, 1200]}), {uuid: [210, 1200] for uuid in UUIDS}
    assert plan(wish, gpus(), {}, locked) == []
    assert [step.after for step in plan({}, gpus(), {UUIDS[0]: {"locked_clocks_mhz": None}}, locked)] == [None]


def test_what_a_gpu_had_first_is_remembered_and_forgotten_when_it_is_given_back():
    wish = settings({"power_limit_watts": 300})
    first = plan(wish, gpus())
    known = to_remember({}, gpus(), wish, first, first)
    assert known == {uuid: {"power_limit_watts": 450} for uuid in UUIDS}
    lower = settings({"power_limit_watts": 200})
    again = plan(lower, gpus(), known)
    assert to_remember(known, gpus(), lower, again, again) == known
    back = [SettingStep(FIRST, UUIDS[0], 0, "power_limit_watts", 300, 450)]
    assert to_remember(known, gpus(), {}, back, []) == {UUIDS[0]: {"power_limit_watts": 450}}
    assert to_remember(known, gpus(), {}, back, back) == {}


def test_a_gpu_that_is_away_keeps_its_memory():
    known = {"GPU-elsewhere": {"power_limit_watts": 250}}
    assert to_remember(known, gpus(), {}, [], []) == known


# --- what takes a boot ---


def modes(enabled, coming):
    return {"ecc": {"mode": {"enabled": enabled, "pending": coming}}}


@pytest.mark.parametrize(
    ("wish", "found", "lines"),
    [
        ({"ecc": False}, modes(enabled=True, coming=False), 1),
        ({"ecc": True}, modes(enabled=True, coming=False), 0),
        ({}, modes(enabled=True, coming=False), 0),
        ({"ecc": False}, modes(enabled=False, coming=False), 0),
    ],
    ids=["asked-for", "not-stored-yet", "somebody-elses", "done"],
)
def test_a_boot_is_due_for_what_gpulab_was_asked_for(wish, found, lines):
    assert len(pending(settings(wish), gpus("t4", **found))) == lines


def test_the_file_is_read_below_its_comment():
    assert gpu_settings.read_file('# Written by gpulab\n{"all": {"ecc": true}}\n') == {"all": {"ecc": True}}
    assert gpu_settings.read_file("") == {}
    assert gpu_settings.read_file("[1]") == {}


# --- the names of single GPUs ---


@pytest.mark.parametrize("name", [1, "1", SECOND, UUIDS[1]])
def test_a_single_gpu_is_kept_by_its_uuid_for_the_next_boot(name):
    wish = settings({"ecc": None}, {name: {"power_limit_watts": 250}}, 650)
    assert gpu_settings.resolved(wish, gpus()) == settings({"ecc": None}, {UUIDS[1]: {"power_limit_watts": 250}}, 650)


@pytest.mark.parametrize("single", [{}, {"0": {"power_limit_watts": None}, UUIDS[0]: {"persistence": True}}])
def test_what_is_kept_for_the_next_boot_means_the_same(single):
    wish = settings({"power_limit_watts": 300}, single)
    assert plan(gpu_settings.resolved(wish, gpus()), gpus()) == plan(wish, gpus())


def test_without_settings_there_are_none_to_keep():
    assert gpu_settings.resolved({}, gpus()) == {}


# --- MIG and its instances go together ---

HALVES = ["3g.20gb", "3g.20gb"]


@pytest.mark.parametrize(
    ("every", "own", "mig", "instances"),
    [
        ({"mig_instances": HALVES}, {}, True, HALVES),
        ({"mig_instances": []}, {}, True, []),
        ({"mig": True}, {}, True, None),
        ({"mig": False}, {}, False, []),
        ({"mig": False}, {"mig_instances": HALVES}, True, HALVES),
        ({"mig_instances": HALVES}, {"mig": False}, False, []),
        ({"mig_instances": HALVES}, {"mig": None}, None, None),
        ({"mig_instances": HALVES}, {"mig_instances": None}, True, None),
        ({"mig_instances": ["1g.5gb", "7g.40gb"]}, {"mig": True}, True, ["7g.40gb", "1g.5gb"]),
    ],
)
def test_what_is_said_of_mig_holds_for_its_instances(every, own, mig, instances):
    aim = wanted(settings(every, {0: own}), gpus("a100-pcie-x2"))[FIRST]
    assert (aim.get("mig"), aim.get("mig_instances")) == (mig, instances)


def test_a_driver_that_does_not_tell_profiles_while_mig_is_off_is_believed():
    steps = plan(settings({"mig_instances": ["3g.999gb"]}), gpus("a100-pcie-x2", mig_profiles=[]))
    assert {step.name for step in steps} == {"mig", "mig_instances"}


def test_profiles_that_cannot_be_read_are_no_instances():
    found = gpus("a100-pcie-x2", mig_profiles={"unsupported": "FUNCTION_NOT_FOUND"})
    assert refused(settings({"mig_instances": HALVES}), found).code == "H122"
    assert [step.name for step in plan(settings({"mig_instances": []}), found)] == ["mig", "mig"]


def test_mig_that_is_given_back_as_off_takes_instances_of_anybody_with_it():
    cut = {"mig": {"enabled": True, "pending": True}, "mig_instances": [{"name": "7g.40gb"}]}
    steps = plan({}, gpus("a100-pcie-x2", **cut), {UUIDS[0]: {"mig": False}})
    assert [(step.index, step.name, step.after) for step in steps] == [(0, "mig_instances", []), (0, "mig", False)]
