"""Which gates make test has, and which ones a change concerns."""

from datetime import date, timedelta

import gates
import pytest
import yaml

DAYS = range(20_000, 20_060)
ORDINARY = set(gates.scenarios()) - gates.FULL_ONLY
SMALL = {"vm-boot_once", "vm-disks"}


def of_scenarios(chosen):
    return {gate.name: gate for gate in chosen if gate.target == "molecule"}


def test_what_the_choices_name_is_there():
    assert (gates.FULL_ONLY | set(gates.ONE_NODE)) <= set(gates.scenarios())
    assert set(gates.MINUTES) <= {gate.name for gate in gates.of_full()}


@pytest.mark.parametrize("day", DAYS[:6])
def test_make_test_has_every_scenario_that_is_not_too_long_and_begins_with_what_it_always_has(day):
    names = [gate.name for gate in gates.of_test(day)]
    assert sorted(names) == sorted({*ORDINARY, *SMALL, "offline-test", "rollout-test", "site", *gates.ALWAYS})
    assert set(gates.ALWAYS) < set(names[: len(gates.ALWAYS) + 1])


def test_each_has_its_turn_among_the_first_within_a_week():
    days = -(-(len(gates.of_test(DAYS[0])) - len(gates.ALWAYS)) // gates.A_DAY)
    assert days <= 7
    first = [{gate.name for gate in gates.of_test(day)[: len(gates.ALWAYS) + gates.A_DAY]} for day in DAYS]
    for start in range(len(DAYS) - days):
        assert set().union(*first[start : start + days]) == {gate.name for gate in gates.of_test(DAYS[0])}


def test_the_longest_of_those_is_begun_before_the_others():
    for day in DAYS:
        turn = [gate for gate in gates.of_test(day) if gate.name not in gates.ALWAYS][: gates.A_DAY]
        assert turn == gates.longest_first(turn)


def test_each_scenario_has_check_mode_and_a_second_run_in_turn():
    whole = [
        {name for name, gate in of_scenarios(gates.of_test(day)).items() if gates.SHORT not in gate.arguments}
        for day in DAYS[:3]
    ]
    assert all(names < ORDINARY for names in whole)
    assert set().union(*whole) == ORDINARY


def test_the_life_has_a_node_of_each_host_type_and_make_test_one_of_them_in_turn():
    nodes = yaml.safe_load((gates.ROOT / "molecule/life/nodes.yml").read_text())["lab_nodes"]
    known = yaml.safe_load((gates.ROOT / "catalog/host_types.yml").read_text())["host_types"]
    assert {group for node in nodes for group in node["groups"]} == {record["name"] for record in known}
    chosen = [of_scenarios(gates.of_test(day))["life"].arguments[1:] for day in DAYS[:4]]
    assert {argument for (argument,) in chosen} == {f"LAB_NODES={node['name']}" for node in nodes}


def test_a_day_is_that_of_the_commit():
    commit = gates.git("rev-parse", "HEAD").strip()
    day = date(1970, 1, 1) + timedelta(days=gates.day_of(commit))
    assert day.isoformat() == gates.git("show", "-s", "--date=format-local:%Y-%m-%d", "--format=%cd", commit).strip()


def test_make_test_full_has_every_scenario_whole_on_all_nodes():
    scenarios = of_scenarios(gates.of_full())
    assert set(scenarios) == set(gates.scenarios())
    assert all(gate.arguments == (f"SCENARIO=-s {name}",) for name, gate in scenarios.items())


def test_each_machine_is_a_gate_of_its_own_whose_minutes_are_known_and_make_test_has_the_small_ones():
    files = {path.stem.removeprefix("test_") for path in (gates.ROOT / "tests/vm").glob("test_*.py")}
    machines = {gate.name: gate for gate in gates.of_full() if gate.target == "test-vm"}
    assert set(machines) == {f"vm-{name}" for name in files}
    assert set(machines) <= set(gates.MINUTES)
    assert all(gate.arguments == (f"MACHINE={name.removeprefix('vm-')}",) for name, gate in machines.items())
    assert {gate.name for gate in gates.of_test(DAYS[0]) if gate.target == "test-vm"} == SMALL


@pytest.mark.parametrize(
    ("path", "concerned"),
    [
        ("roles/nccl/tasks/main.yml", {"nccl", "across_nodes"}),
        ("tests/vm/test_disks.py", {"vm-disks"}),
        ("molecule/conda/test_conda.py", {"conda"}),
        ("tests/stubs/conda_channel.py", {"conda"}),
        ("tests/stubs/toolkit/podman", {"container_toolkit"}),
        ("tests/stubs/served_life.py", {"life"}),
        ("tests/stubs/nvidia_repository.py", {"life", "cuda", "monitoring", "nvidia_repository"}),
        ("molecule/resources/fresh.py", {"life", "rebuild"}),
        ("playbooks/rebuild.yml", {"life", "lab-test", "offline-test"}),
        ("plugins/action/bundle.py", {"offline-test", "unit-slow"}),
        ("plugins/module_utils/capture/walk.py", {"life", "capture"}),
        ("molecule/resources/nvidia_repository.yml", {"cuda", "monitoring", "nvidia_repository", "lab-test"}),
        ("playbooks/remove.yml", {"life", "lab-test", "unit-slow"}),
        ("roles/reboot/tasks/main.yml", {"lab-test", "gpu_settings", "monitoring"}),
        ("roles/fence/tasks/main.yml", {"rollout-test"}),
        ("plugins/plugin_utils/rollout/order.py", {"rollout-test"}),
        ("playbooks/rollout.yml", {"rollout-test"}),
        ("tests/lab/test_rollout.py", {"rollout-test"}),
        ("plugins/modules/jupyter_kernels.py", {"environments", "unit-slow"}),
        ("roles/plan/tasks/main.yml", ORDINARY | {"lab-test"}),
        ("plugins/modules/gpu_facts.py", ORDINARY | {"lab-test", "unit-slow"}),
        ("lab/up.yml", ORDINARY | {"lab-test"}),
        ("tests/sim/build.py", ORDINARY | {"lab-test", "unit-slow"}),
    ],
)
def test_a_change_concerns_what_makes_use_of_it(path, concerned):
    assert concerned <= set(gates.touched([path]))


@pytest.mark.parametrize(
    ("path", "concerned"),
    [
        ("docs/support.md", set()),
        ("tests/unit/test_gates.py", set()),
        ("roles/nccl/tasks/main.yml", {"nccl", "across_nodes"}),
        ("molecule/network/prepare.yml", {"network"}),
    ],
)
def test_and_nothing_else(path, concerned):
    assert set(gates.touched([path])) == concerned
