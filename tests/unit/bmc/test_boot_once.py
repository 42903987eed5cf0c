"""A machine boots once from elsewhere; a BMC that keeps what was to be once is found out before and after."""

from functools import partial

import pytest
from ansible_collections.gpulab.node.plugins.action import bmc as action
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc import boot_once, power
from stubs import bmc as stub

from .test_power import FREE, WAITS, resets


@pytest.fixture
def boot(connect, monkeypatch):
    """Return a function that does what the action does."""
    monkeypatch.setattr(action.power, "cycle", partial(power.cycle, waits=WAITS))
    monkeypatch.setattr(action.boot_once, "see_it_gone", partial(boot_once.see_it_gone, most=0.3, look=0.02))

    def done(target="Pxe"):
        with connect() as connection:
            reading = connection.read(stub.SERIAL)
            power.refuse_unsafe(connection, reading, FREE)
            return action.cycle(connection, reading, target, lambda _state: None)[-1]

    return done


@pytest.fixture
def refused(boot):
    def code(**given):
        with pytest.raises(Refusal) as raised:
            boot(**given)
        return raised.value

    return code


def patches(bmc):
    return [body["Boot"] for method, _path, body in bmc.asked if method == "PATCH"]


def state(bmc):
    return bmc.documents["Systems/1"]["Boot"]["BootSourceOverrideEnabled"]


def test_a_machine_boots_once_and_then_as_before(bmc, boot):
    assert "read Disabled" in boot()
    assert patches(bmc) == [{"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}]
    assert state(bmc) == "Disabled"


def test_the_mode_goes_with_it_where_the_bmc_tells_one(bmc, boot):
    bmc.documents["Systems/1"]["Boot"]["BootSourceOverrideMode"] = "UEFI"
    boot()
    assert patches(bmc)[0]["BootSourceOverrideMode"] == "UEFI"


def test_it_goes_without_the_mode_where_the_bmc_does_not_take_it(bmc, boot):
    bmc.documents["Systems/1"]["Boot"]["BootSourceOverrideMode"] = "UEFI"
    bmc.not_taken = {"BootSourceOverrideMode"}
    boot()
    assert ["BootSourceOverrideMode" in one for one in patches(bmc)] == [True, False]


def test_a_bmc_that_wants_the_tag_of_what_is_changed_gets_it(bmc, boot):
    bmc.tag = '"7"'
    boot()
    assert [one["BootSourceOverrideEnabled"] for one in patches(bmc)] == ["Once", "Once"]


@pytest.mark.parametrize("target", ["UefiHttp", "Sd"])
def test_a_target_that_the_bmc_does_not_name_is_refused_before_anything_is_changed(bmc, refused, target):
    refusal = refused(target=target)
    assert refusal.code == "F118"
    assert "Pxe" in refusal.cause
    assert patches(bmc) == resets(bmc) == []


@pytest.mark.parametrize("enabled", ["Once", "Continuous"])
@pytest.mark.parametrize("target", ["Pxe", ""])
def test_what_somebody_else_has_set_is_left_and_the_machine_is_not_turned_off(bmc, refused, enabled, target):
    bmc.documents["Systems/1"]["Boot"] |= {"BootSourceOverrideEnabled": enabled, "BootSourceOverrideTarget": "Cd"}
    assert refused(target=target).code == "F120"
    assert patches(bmc) == resets(bmc) == []


def test_a_machine_that_boots_from_its_disk_by_an_override_is_as_ever(bmc, boot):
    bmc.documents["Systems/1"]["Boot"] |= {"BootSourceOverrideEnabled": "Continuous", "BootSourceOverrideTarget": "Hdd"}
    boot(target="")
    assert resets(bmc) == ["GracefulShutdown", "On"]


def test_what_was_asked_is_taken_back_where_the_machine_is_not_turned_off(bmc, refused):
    bmc.ignores = {"GracefulShutdown", "ForceOff"}
    assert refused().code == "F116"
    assert state(bmc) == "Disabled"


def test_check_mode_says_what_would_be_asked(bmc, connect):
    with connect() as connection:
        reading = connection.read(stub.SERIAL)
        assert action.cycle(connection, reading, "Pxe", None)[0].startswith("would ask: boot once from Pxe, Graceful")
    assert patches(bmc) == []


def test_a_bmc_that_takes_once_and_keeps_continuous_is_found_out_before_the_machine_is_turned_off(bmc, refused):
    bmc.once_becomes = "Continuous"  # as sushy-tools does
    refusal = refused()
    assert refusal.code == "F118"
    assert "it reads Continuous Pxe" in refusal.cause
    assert resets(bmc) == []
    assert state(bmc) == "Disabled"


def like_sushy_tools(bmc):
    """Let it keep Once as Continuous, take no Disabled, and boot from its disk each time until then."""
    bmc.once_becomes, bmc.states_not_taken = "Continuous", {"Disabled"}
    bmc.documents["Systems/1"]["Boot"] |= {"BootSourceOverrideEnabled": "Continuous", "BootSourceOverrideTarget": "Hdd"}


def test_a_bmc_that_takes_no_disabled_gets_back_what_it_had(bmc, refused):
    like_sushy_tools(bmc)
    assert refused().code == "F118"
    assert bmc.documents["Systems/1"]["Boot"]["BootSourceOverrideTarget"] == "Hdd"
    assert resets(bmc) == []


def test_what_cannot_be_taken_back_is_said_before_anybody_turns_the_machine_off(bmc, refused):
    like_sushy_tools(bmc)
    bmc.states_not_taken = {"Disabled", "Continuous"}
    refusal = refused()
    assert refusal.code == "F121"
    assert "it reads Continuous Pxe, and to take it back: it answers 400" in refusal.cause
    assert resets(bmc) == []


def test_a_bmc_that_takes_no_change_is_refused(bmc, refused):
    bmc.states_not_taken = {"Once"}
    assert refused().code == "F118"
    assert resets(bmc) == []


def test_what_stays_after_the_boot_is_set_back_and_refused(bmc, refused):
    bmc.boot_returns = False
    refusal = refused()
    assert refusal.code == "F119"
    assert "it stayed Once Pxe, and gpulab has taken it back" in refusal.cause
    assert state(bmc) == "Disabled"


def test_what_stays_and_cannot_be_set_back_is_said(bmc, refused, monkeypatch):
    bmc.boot_returns = False
    monkeypatch.setattr(bmc, "after_boot_not_taken", {"BootSourceOverrideEnabled"}, raising=False)
    refusal = refused()
    assert refusal.code == "F119"
    assert "could not be taken back: it answers 400" in refusal.cause
