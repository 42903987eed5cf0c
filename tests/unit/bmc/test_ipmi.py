"""OpenIPMI's ipmi_sim is asked over the network by ipmitool; no real BMC was ever asked."""

import os
import shutil
import socket
import subprocess
import time
from functools import partial

import pytest
from ansible_collections.gpulab.node.plugins.action import bmc as action
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc import boot_once, ipmi, judge, power
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.base import Address, Limits, PartError
from stubs import ipmi as stub

from .test_power import FREE, RUN

SHORT = Limits(20.0, 60.0)
pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, stub.NEEDS)), reason="ipmi_sim or ipmitool is not here (openipmi, ipmitool)"
)


@pytest.fixture
def bmc(tmp_path):
    served = stub.Ipmi(tmp_path)
    yield served
    served.close()


@pytest.fixture
def connect(bmc):
    """Return a connection to it, with what differs."""

    def made(limits=SHORT, **given):
        known = {"host": "node07", "address": bmc.address, "user": stub.USER, "password": stub.PASSWORD}
        return ipmi.Ipmi(Address(**{**known, **given}), limits)

    return made


@pytest.fixture
def reading(connect):
    def read(serial=stub.SERIAL):
        with connect() as connection:
            return connection.read(serial)

    return read


@pytest.fixture
def refused(connect):
    """Return the refusal of a reading, with what differs."""

    def code(serial=stub.SERIAL, **given):
        with pytest.raises(Refusal) as raised, connect(**given) as connection:
            connection.read(serial)
        return raised.value

    return code


@pytest.fixture
def cycle(connect):
    """Return a function that does what the action does."""

    def done(known=FREE, *, alone=True, target=""):
        noted = []
        with connect() as connection:
            reading = connection.read(stub.SERIAL)
            power.refuse_unsafe(connection, reading, known, alone=alone)
            return action.cycle(connection, reading, target, noted.append), noted

    return done


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """Wait shorter than for a real machine."""
    short = power.Waits(soft=3, hard=3, pause=0.05, start=3, look=0.1)
    monkeypatch.setattr(action.power, "cycle", partial(power.cycle, waits=short))
    monkeypatch.setattr(action.boot_once, "see_it_gone", partial(boot_once.see_it_gone, most=1.0, look=0.1))


def listened(monkeypatch):
    """Return the words of each ipmitool that is begun."""
    asked, begin = [], subprocess.Popen
    monkeypatch.setattr(ipmi.subprocess, "Popen", lambda argv, **given: asked.append(set(argv)) or begin(argv, **given))
    return asked


def test_a_machine_is_read(bmc, reading):
    bmc.record(0x08, 0x6F, 1)  # a power supply fails
    bmc.record(0x22, 0x6F, 0)  # S0/G0: working
    found = reading()
    assert (found.manufacturer, found.model, found.part_number) == ("Stand-in", "Node 8", "900-1")
    assert (found.power, found.health, found.faults) == ("On", "OK", [])
    assert [(one.name, one.version) for one in found.firmware] == [("BMC (IPMI)", "1.04")]
    assert abs(found.clock_seconds) < 5
    assert [(one.name, one.records, one.full) for one in found.logs] == [("SEL (IPMI)", 2, False)]
    told = [(one.number, one.severity, one.message) for one in found.events]
    assert told == [
        ("1", "Warning", "Power Supply #0x51 Failure detected Asserted"),
        ("2", "OK", "System ACPI Power State #0x51 S0/G0: working Asserted"),
    ]
    assert found.events[0].created.startswith(time.strftime("20%y-%m-%dT", time.gmtime()))
    assert [one.part for one in found.not_read] == ["chassis"]
    assert bmc.asked == []


@pytest.mark.parametrize(("degrees", "health", "fault"), [(0x52, "Warning", "nc"), (0x65, "Critical", "cr")])
def test_a_sensor_beyond_its_bound_makes_the_health_bad(tmp_path, degrees, health, fault):
    served = stub.Ipmi(tmp_path, degrees=degrees)
    with ipmi.Ipmi(Address("node07", served.address, stub.USER, stub.PASSWORD), SHORT) as connection:
        found = connection.read(stub.SERIAL)
    served.close()
    assert found.health == health
    assert judge.findings(found, [])[0].text.endswith(f"{health}: Inlet {degrees} degrees C ({fault})")


def test_a_bmc_without_sensors_is_not_asked_for_them(tmp_path, monkeypatch):
    served = stub.Ipmi(tmp_path, sensors=0)
    asked = listened(monkeypatch)
    with ipmi.Ipmi(Address("node07", served.address, stub.USER, stub.PASSWORD), SHORT) as connection:
        found = connection.read(stub.SERIAL)
    served.close()
    assert "sensors" in [one.part for one in found.not_read]
    assert not [words for words in asked if {"sdr", "list"} <= words]  # it would clear what the BMC lists


def test_only_the_next_boot_is_read_with_a_right_to_change(reading, monkeypatch):
    asked = listened(monkeypatch)
    reading()
    assert {(ipmi.OPERATOR in words, "0x09" in words) for words in asked} == {(False, False), (True, True)}


def test_another_machine_is_refused(refused):
    refusal = refused(serial="GPU4712B")
    assert refusal.code == "F103"
    assert stub.SERIAL in refusal.cause


@pytest.mark.parametrize("wrong", [{"password": "another-one"}, {"user": "nobody"}])
def test_a_wrong_name_or_password_is_refused_after_one_try(refused, wrong, monkeypatch):
    asked = listened(monkeypatch)
    assert refused(**wrong).code == "F102"
    tries = [suite for words in asked for suite in ipmi.SUITES if suite in words]
    assert tries == ["17", "3"]  # ipmi_sim has no suite 17, and was asked for no password before it said so


def test_a_silent_bmc_is_refused(refused):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        refusal = refused(address=f"127.0.0.1:{silent.getsockname()[1]}", limits=Limits(2.0, 10.0))
    assert refusal.code == "F100"


def test_a_controller_without_ipmitool_is_refused(refused, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refused().code == "F123"


def test_a_machine_is_shut_down_then_started_and_each_step_is_read_back(bmc, cycle):
    told, noted = cycle()
    assert bmc.asked == ["shutdown 1", "power 1"]
    assert noted == ["begun", "off", "on"]
    assert [line.partition(" after")[0] for line in told] == ["GracefulShutdown: power read Off", "On: power read On"]


def test_one_that_does_not_shut_down_is_forced(bmc, cycle):
    bmc.write("ignores", "shutdown 1")
    cycle()
    assert bmc.asked == ["shutdown 1", "power 0", "power 1"]


def test_one_that_is_off_is_only_started(bmc, cycle):
    bmc.write("power", "0")
    cycle(power.Evidence(RUN, reached=False))
    assert bmc.asked == ["power 1"]


@pytest.mark.parametrize(("ignored", "asked"), [("power 0", "ForceOff"), ("power 1", "On")])
def test_a_step_that_is_taken_and_not_done_is_refused(bmc, cycle, ignored, asked):
    bmc.write("ignores", f"shutdown 1\n{ignored}")
    with pytest.raises(Refusal) as raised:
        cycle()
    assert raised.value.code == "F116"
    assert asked in raised.value.cause


def test_nobody_can_say_who_else_is_in_the_chassis_but_the_admin(bmc, cycle):
    with pytest.raises(Refusal) as raised:
        cycle(alone=False)
    assert raised.value.code == "F112"
    assert bmc.asked == []


def test_a_node_that_is_neither_free_nor_dead_is_refused(bmc, cycle):
    with pytest.raises(Refusal) as raised:
        cycle(power.Evidence(RUN, reached=True))
    assert raised.value.code == "F113"
    assert bmc.asked == []


def test_power_that_is_neither_on_nor_off_is_refused(bmc, cycle):
    bmc.write("power", "")  # its chassis does not answer
    with pytest.raises(Refusal) as raised:
        cycle()
    assert raised.value.code == "F115"


def test_another_machine_during_the_change_is_not_turned_on(bmc, connect, monkeypatch):
    with connect() as connection:
        found = connection.read(stub.SERIAL)
        monkeypatch.setattr(connection, "_product", lambda: {"Product Serial": "ANOTHER1"})
        with pytest.raises(Refusal) as raised:
            action.power.cycle(connection, found, lambda _state: None)
    assert raised.value.code == "F116"
    assert "power 1" not in bmc.asked


def test_a_bmc_that_says_that_it_did_and_keeps_nothing_is_found_out(bmc, cycle):
    with pytest.raises(Refusal) as raised:
        cycle(target="Pxe")
    assert raised.value.code == "F118"
    assert "it reads Disabled" in raised.value.cause
    assert bmc.asked == ["boot pxe", "boot none"]  # it had taken it, and it was taken back


@pytest.fixture
def keeps(bmc, monkeypatch):
    """Let it keep the next boot, as a good BMC does."""
    monkeypatch.setenv("PATH", f"{bmc.keeps_the_boot()}:{os.environ['PATH']}")
    return bmc


@pytest.mark.parametrize(
    ("target", "flags"), [("Pxe", "a0 04 00 00 00"), ("Cd", "a0 14 00 00 00"), ("LegacyPxe", "80 04 00 00 00")]
)
def test_a_machine_boots_once_and_then_as_before(keeps, cycle, target, flags):
    told, _noted = cycle(target=target)
    assert keeps.read("at_start") == flags
    assert told[-1].startswith(f"boot once from {target}: read Disabled")


def test_what_the_bmc_forgets_while_the_machine_shuts_down_is_asked_again(keeps, cycle):
    keeps.write("forgets", "yes")
    cycle(target="Pxe")
    assert keeps.read("at_start") == "a0 04 00 00 00"


def test_what_it_then_does_not_take_again_leaves_the_machine_off(keeps, connect):
    with connect() as connection:
        found = connection.read(stub.SERIAL)

        def lost(*_boot):
            message = "it answers no"
            raise PartError(message)

        def note(state):
            if state == "off":
                keeps.write("flags", "00 00 00 00 00")
                connection.set_boot = lost

        with pytest.raises(Refusal) as raised:
            action.cycle(connection, found, "Pxe", note)
    assert raised.value.code == "F122"
    assert "power 1" not in keeps.asked


def test_what_stays_after_the_boot_is_taken_back_and_refused(keeps, cycle):
    keeps.write("stays", "yes")
    with pytest.raises(Refusal) as raised:
        cycle(target="Pxe")
    assert raised.value.code == "F119"
    assert "gpulab has taken it back" in raised.value.cause


def test_what_somebody_else_has_set_is_left(keeps, cycle):
    keeps.write("flags", "e0 04 00 00 00")
    with pytest.raises(Refusal) as raised:
        cycle()
    assert raised.value.code == "F120"
    assert "Continuous Pxe" in raised.value.cause
    assert keeps.asked == []


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("Temperature #0x30,Upper Critical going high,Asserted", "Critical"),
        ("Temperature #0x30,Upper Non-critical going high,Asserted", "Warning"),
        ("Temperature #0x30,Upper Critical going high,Deasserted", "OK"),
        ("Fan #0x30,Lower Non-recoverable going low,Asserted", "Critical"),
        ("Memory #0x02,Uncorrectable ECC,Asserted", "Warning"),
        ("OEM record d1,070605,08090a0b0c0d", "Warning"),
        ("Event Logging Disabled #0x09,Log area reset/cleared,Asserted", "OK"),
    ],
)
def test_a_record_that_is_not_known_to_be_ordinary_is_worth_a_look(line, severity):
    found = ipmi.event(f"1f,11/29/26,15:36:04 UTC,{line}")
    assert (found.number, found.severity) == ("1f", severity)


@pytest.mark.parametrize(
    ("told", "created"),
    [
        ("11/29/26,15:36:04 UTC", "2026-11-29T15:36:04Z"),
        ("11/29/2026,15:36:04", "2026-11-29T15:36:04Z"),  # ipmitool 1.8.18
        (" Pre-Init ,0000014832", "1970-01-01T04:07:12Z"),
        ("Unspecified,Unspecified", ""),
    ],
)
def test_a_record_has_the_time_of_the_bmc(told, created):
    assert ipmi.event(f"1,{told},Fan #0x30,Failure,Asserted").created == created


@pytest.mark.parametrize(
    "line", ["", "Get HPM.x Capabilities request failed, compcode = d4", "SEL has no entries", "a,b"]
)
def test_another_line_is_no_record(line):
    assert ipmi.event(line) is None
