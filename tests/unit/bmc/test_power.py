"""A stand-in's power is turned off and on, each step read back; the uncertain is refused before the first one."""

import time
from dataclasses import asdict, replace

import pytest
from ansible_collections.gpulab.node.plugins.action import bmc as action
from ansible_collections.gpulab.node.plugins.module_utils.core import records
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc import judge, power
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.base import PartError
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.redfish import Redfish
from stubs import bmc as stub

WAITS = power.Waits(soft=0.4, hard=0.4, pause=0.05, start=0.4, look=0.02)
RUN = "ada on desk"
FENCE = {
    "run": RUN,
    "since": "2026-11-29T10:00:00Z",
    "by": RUN,
    "reason": "it hangs",
    "until": None,
    "engine": "none",
    "held": False,
    "before": {},
}
FREE = power.Evidence(RUN, reached=True, fence=FENCE)
DEAD = power.Evidence(RUN, reached=False, named=True, names=["node07"])
LOST = power.Evidence(RUN, reached=False, fence=FENCE, lost=True, names=["node07"])
DOWN = "NodeName=node07 NodeHostName=node07 State=DOWN*+DRAIN Reason=Not responding [slurm@2026-11-29T10:00:00]"


@pytest.fixture
def cycle(connect):
    """Return a function that does what the action does, and returns the steps that were seen and written down."""

    def done(known=FREE):
        noted = []
        with connect() as connection:
            reading = connection.read(stub.SERIAL)
            power.refuse_unsafe(connection, reading, known)
            return power.cycle(connection, reading, noted.append, WAITS), noted

    return done


@pytest.fixture
def refused(cycle):
    def code(known=FREE):
        with pytest.raises(Refusal) as raised:
            cycle(known)
        return raised.value

    return code


def resets(bmc):
    return [body["ResetType"] for _method, path, body in bmc.asked if path.endswith("ComputerSystem.Reset")]


def allow(bmc, *values):
    reset = bmc.documents["Systems/1"]["Actions"]["#ComputerSystem.Reset"]
    reset["ResetType@Redfish.AllowableValues"] = list(values)


def test_a_machine_is_shut_down_then_started_and_each_step_is_read_back(bmc, cycle):
    bmc.delay = 0.1
    told, noted = cycle()
    assert resets(bmc) == ["GracefulShutdown", "On"]
    assert noted == ["begun", "off", "on"]
    assert [line.partition(" after")[0] for line in told] == ["GracefulShutdown: power read Off", "On: power read On"]
    assert bmc.power == "On"


def test_one_that_does_not_shut_down_is_forced(bmc, cycle):
    bmc.ignores = {"GracefulShutdown"}
    cycle()
    assert resets(bmc) == ["GracefulShutdown", "ForceOff", "On"]


def test_a_bmc_without_soft_off_is_forced_at_once(bmc, cycle):
    allow(bmc, "On", "ForceOff")
    cycle()
    assert resets(bmc) == ["ForceOff", "On"]


def test_one_that_is_off_is_only_started_whoever_might_use_it(bmc, cycle):
    bmc.power = "Off"
    told, noted = cycle(power.Evidence(RUN, reached=False))
    assert resets(bmc) == ["On"]
    assert noted == ["begun", "off", "on"]
    assert len(told) == 1


@pytest.mark.parametrize("kind", ["ForceOff", "On"])
def test_a_step_that_is_accepted_and_not_done_is_refused_and_noted(bmc, refused, kind):
    bmc.ignores = {"GracefulShutdown", kind}
    refusal = refused()
    assert refusal.code == "F116"
    assert kind in refusal.cause
    assert resets(bmc)[-1] == kind


def test_a_bmc_that_is_silent_during_the_change_is_asked_again(cycle, monkeypatch):
    looks = []
    known = Redfish.power

    def sometimes(connection, reading):
        looks.append(reading)
        if len(looks) == 1:
            raise PartError
        if len(looks) == 2:
            raise Refusal("F100", "silent.", "")
        return known(connection, reading)

    monkeypatch.setattr(Redfish, "power", sometimes)
    cycle()
    assert len(looks) > 2


def test_a_password_that_is_no_longer_taken_ends_it(bmc, refused, monkeypatch):
    def no_longer(*_place):
        raise Refusal("F102", "no.", "")

    monkeypatch.setattr(Redfish, "power", no_longer)
    assert refused().code == "F102"
    assert resets(bmc) == ["GracefulShutdown"]


def test_a_bmc_that_does_not_take_the_step_is_refused(bmc, refused):
    bmc.statuses["Systems/1/Actions/ComputerSystem.Reset"] = 400
    refusal = refused()
    assert refusal.code == "F114"
    assert "400" in refusal.cause


def test_another_machine_during_the_change_is_not_turned_on(bmc, connect):
    with connect() as connection:
        reading = connection.read(stub.SERIAL)
        bmc.documents["Systems/1"]["SerialNumber"] = "ANOTHER1"
        with pytest.raises(Refusal) as raised:
            power.cycle(connection, reading, lambda _state: None, WAITS)
    assert raised.value.code == "F116"
    assert "On" not in resets(bmc)


def shared(bmc):
    bmc.documents["Chassis/1"]["Links"]["ComputerSystems"].append(stub.link("Systems/other"))


def chassis_not_read(bmc):
    bmc.statuses["Chassis/1"] = 503


def chassis_not_told(bmc):
    del bmc.documents["Systems/1"]["Links"]["Chassis"]


def no_off(bmc):
    allow(bmc, "On", "ForceRestart")


def no_on(bmc):
    allow(bmc, "ForceOff", "PowerCycle")


def resets_not_told(bmc):
    del bmc.documents["Systems/1"]["Actions"]["#ComputerSystem.Reset"]["ResetType@Redfish.AllowableValues"]


def target_of_another(bmc):
    reset = bmc.documents["Systems/1"]["Actions"]["#ComputerSystem.Reset"]
    reset["target"] = "/redfish/v1/Systems/other/Actions/ComputerSystem.Reset"


def powering(bmc):
    bmc.power = "PoweringOn"


def power_not_told(bmc):
    bmc.power = None


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (shared, "F112"),
        (chassis_not_read, "F112"),
        (chassis_not_told, "F112"),
        (no_off, "F114"),
        (no_on, "F114"),
        (resets_not_told, "F114"),
        (target_of_another, "F114"),
        (powering, "F115"),
        (power_not_told, "F115"),
    ],
)
def test_what_is_uncertain_is_refused_before_the_first_step(bmc, refused, fault, code):
    fault(bmc)
    assert refused().code == code
    assert resets(bmc) == []


def test_what_the_reset_takes_may_stand_in_a_resource_of_its_own(bmc, connect):
    reset = bmc.documents["Systems/1"]["Actions"]["#ComputerSystem.Reset"]
    del reset["ResetType@Redfish.AllowableValues"]
    reset["@Redfish.ActionInfo"] = "/redfish/v1/ResetInfo"
    parameters = [{"Name": "Other"}, {"Name": "ResetType", "AllowableValues": ["On", "ForceOff"]}]
    bmc.documents["ResetInfo"] = {"Parameters": parameters}
    with connect() as connection:
        assert connection.read(stub.SERIAL).resets == ["On", "ForceOff"]


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (power.Evidence(RUN, reached=True), "no fence"),
        (replace(LOST, reached=True), "it answers again"),
        (replace(LOST, fence=None), "not behind the fence of this run"),
        (replace(LOST, run="eve on desk"), "not behind the fence of this run"),
        (replace(LOST, ssh=True), "SSH answers"),
        (replace(LOST, slurm=""), "Slurm does not say"),
        (replace(LOST, slurm=DOWN.replace("DOWN*", "IDLE*")), "Slurm says that it is IDLE+DRAIN"),
        (power.Evidence("eve on desk", reached=True, fence=FENCE), "fence is that of ada"),
        (power.Evidence(RUN, reached=True, fence=FENCE, users="job 7 of bob"), "job 7 of bob"),
        (power.Evidence(RUN, reached=False, names=["node07"]), "bmc_dead does not name it"),
        (power.Evidence(RUN, reached=False, named=True, ssh=True), "SSH answers"),
        (power.Evidence(RUN, reached=False, named=True, slurm=""), "Slurm does not say"),
        (
            power.Evidence(RUN, reached=False, named=True, names=["node07"], slurm=DOWN.replace("DOWN*", "IDLE*")),
            "Slurm says that it is IDLE+DRAIN",
        ),
        (
            power.Evidence(RUN, reached=False, named=True, names=["node07"], slurm=DOWN.replace("DOWN*", "ALLOCATED")),
            "ALLOCATED",
        ),
    ],
)
def test_a_node_that_is_neither_free_nor_proven_dead_is_refused(bmc, refused, known, why):
    refusal = refused(known)
    assert refusal.code == "F113"
    assert why in refusal.cause
    assert resets(bmc) == []


@pytest.mark.parametrize(
    "known",
    [
        FREE,
        DEAD,
        LOST,
        replace(LOST, slurm=DOWN),
        power.Evidence(RUN, reached=False, named=True, names=["node07.lab", "node07"], slurm=DOWN),
        power.Evidence(RUN, reached=False, named=True, names=["desk9"], slurm=DOWN),
    ],
)
def test_a_node_that_is_free_or_proven_dead_is_not(known):
    assert power.obstacle(known) == ""


@pytest.fixture
def evidence(monkeypatch):
    """Return what the action makes of the answers of the module fence, for a node whose SSH does not greet."""
    task = action.ActionModule.__new__(action.ActionModule)
    monkeypatch.setattr(task, "_greets", lambda _host: False)

    def known(fence, *, reached=True, **given):
        args = {"run": RUN, "fence": fence, "dead": None, "slurm": None, "lost": False, "held": None, **given}
        return task.evidence(args, {"inventory_hostname": "node07"}, reached=reached)

    return known


def test_a_node_that_is_fenced_and_free_may_be_cut(evidence):
    assert power.obstacle(evidence({"fence": FENCE, "users": ""})) == ""


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"unreachable": True},
        {"fence": FENCE},
        {"fence": FENCE, "users": None},
        {"fence": FENCE, "users": "anna (1 process)"},
        {"fence": None, "users": ""},
        {"fence": {"run": RUN}, "users": ""},
        {"fence": {**FENCE, "run": ["x"]}, "users": ""},
        {"fence": {**FENCE, "run": "eve on desk"}, "users": ""},
    ],
)
def test_a_node_that_answers_anything_else_may_not_even_where_it_is_named_as_dead(evidence, answer):
    assert power.obstacle(evidence(answer, dead="node07")) != ""


def test_only_the_named_node_is_taken_for_dead(evidence):
    assert power.obstacle(evidence({"unreachable": True}, reached=False, dead="node07")) == ""
    assert power.obstacle(evidence({"unreachable": True}, reached=False, dead="node08")) != ""


def test_a_node_that_is_lost_had_the_fence_of_this_run_in_the_facts_before_its_reboot(evidence):
    gone = {"unreachable": True}
    assert power.obstacle(evidence(gone, reached=False, lost=True, held={**FENCE, "overdue": False})) == ""
    for held in (None, {}, {"run": RUN}, {**FENCE, "run": "eve on desk"}):
        assert power.obstacle(evidence(gone, reached=False, lost=True, held=held)) != ""
    assert power.obstacle(evidence({"fence": FENCE, "users": ""}, lost=True, held=FENCE)) != ""


@pytest.fixture
def begin(tmp_path):
    """Return a function that begins a power cycle of a host that a run has lost, and keeps it as a killed run would."""

    def begun(host, run=RUN, most=1, at="2026-11-29T10:00:00Z"):
        path = tmp_path / f"{host}.json"
        record = records.read(path, judge.Record, None, "") or judge.Record(host, stub.SERIAL, at)

        def note(state):
            record.cycles.append(judge.Cycle(at, run, state, run))
            records.write(path, asdict(record))

        action._begin_alone(path, host, run, most, note)  # noqa: SLF001 - the lock and the records of all hosts
        return record.cycles[-1].state

    return begun


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def test_a_run_that_was_killed_turns_no_node_off_and_on_twice(begin):
    assert begin("node07", at=now()) == "begun"
    with pytest.raises(Refusal) as raised:
        begin("node07", most=9)
    assert raised.value.code == "F124"


def test_a_run_turns_no_more_nodes_off_and_on_than_it_may(begin):
    begin("node07", most=2, at=now())
    begin("node08", most=2, at=now())
    with pytest.raises(Refusal) as raised:
        begin("node09", most=2)
    assert raised.value.code == "F111"
    assert "3 nodes" in raised.value.cause


def test_other_runs_and_those_of_yesterday_do_not_count(begin):
    begin("node07", run="eve on desk", at=now())
    begin("node07", at="2026-11-20T10:00:00Z")
    assert begin("node07") == "begun"
