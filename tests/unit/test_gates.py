"""Which gates make test has, and which ones a change concerns."""

from math import inf

import gates
import pytest
import yaml

COMMITS = [f"{number:08x}{'0' * 32}" for number in range(60)]
ORDINARY = set(gates.scenarios()) - gates.FULL_ONLY - set(gates.IN_TURN)


def of_scenarios(chosen):
    return {gate.name: gate for gate in chosen if gate.target == "molecule"}


def test_what_the_choices_name_is_there():
    assert (gates.FULL_ONLY | set(gates.IN_TURN) | set(gates.ONE_NODE)) <= set(gates.scenarios())
    assert set(gates.LONGEST) <= {gate.name for gate in gates.of_full()}


@pytest.mark.parametrize("commit", COMMITS[:6])
def test_make_test_has_half_of_the_ordinary_scenarios_and_a_slow_one_at_the_end(commit):
    chosen = gates.of_test(commit)
    assert {"lab-test", "unit-slow"} <= {gate.name for gate in chosen}
    names = set(of_scenarios(chosen[:-1]))
    assert gates.ALWAYS <= names <= ORDINARY
    assert len(ORDINARY) <= len(names) * 2 - len(gates.ALWAYS) <= len(ORDINARY) + 1
    assert min(chosen, key=lambda gate: gate.latest) is chosen[-1]
    assert {gate.name for gate in chosen if gate.latest == inf} == {"lab-test", "unit-slow"} | gates.ALWAYS


def test_a_scenario_that_one_make_test_leaves_out_comes_with_others():
    came = [set(of_scenarios(gates.of_test(commit))) for commit in COMMITS]
    assert all(sum(name in names for names in came) >= len(COMMITS) // 3 for name in ORDINARY)


def test_no_scenario_is_always_the_last():
    last = {gates.of_test(commit)[-2].name for commit in COMMITS}
    assert len(last) > 3


def test_each_slow_scenario_has_its_turn_whole():
    last = [gates.of_test(commit)[-1] for commit in COMMITS]
    assert {gate.name for gate in last} == set(gates.IN_TURN)
    assert all(gate.arguments == (f"SCENARIO=-s {gate.name}",) for gate in last)


def test_each_ordinary_scenario_has_check_mode_and_a_second_run_in_turn():
    whole = [
        {name for name, gate in of_scenarios(gates.of_test(commit)).items() if gates.SHORT not in gate.arguments}
        for commit in COMMITS
    ]
    assert all((names & ORDINARY) < ORDINARY for names in whole)
    assert set().union(*whole) >= ORDINARY


def test_the_life_has_a_node_of_each_host_type_and_make_test_one_of_them_in_turn():
    nodes = yaml.safe_load((gates.ROOT / "molecule/life/nodes.yml").read_text())["lab_nodes"]
    known = yaml.safe_load((gates.ROOT / "catalog/host_types.yml").read_text())["host_types"]
    assert {group for node in nodes for group in node["groups"]} == {record["name"] for record in known}
    chosen = [of_scenarios(gates.of_test(commit))["life"].arguments[1:] for commit in COMMITS]
    assert {argument for (argument,) in chosen} == {f"LAB_NODES={node['name']}" for node in nodes}


def test_make_test_full_has_every_scenario_whole_on_all_nodes():
    scenarios = of_scenarios(gates.of_full())
    assert set(scenarios) == set(gates.scenarios())
    assert all(gate.arguments == (f"SCENARIO=-s {name}",) and gate.latest == inf for name, gate in scenarios.items())


@pytest.mark.parametrize(
    ("path", "concerned"),
    [
        ("roles/nccl/tasks/main.yml", {"nccl", "across_nodes"}),
        ("molecule/conda/test_conda.py", {"conda"}),
        ("tests/stubs/conda_channel.py", {"conda"}),
        ("tests/stubs/toolkit/podman", {"container_toolkit"}),
        ("tests/stubs/served_life.py", {"life"}),
        ("tests/stubs/nvidia_repository.py", {"life", "cuda", "monitoring", "nvidia_repository"}),
        ("molecule/resources/fresh.py", {"life", "rebuild"}),
        ("playbooks/rebuild.yml", {"life", "lab-test"}),
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
