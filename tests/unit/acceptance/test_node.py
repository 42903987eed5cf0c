"""Whether the nodes of one acceptance are made alike."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.acceptance import node

from unit import machines

GPU = {
    "name": "NVIDIA H200",
    "uuid": "GPU-1",
    "serial": "165",
    "vbios": "96.00",
    "pcie": {"width": 16, "max_width": 16},
}


def facts(count=8, **gpu):
    return machines.machine({"nvml": {"gpus": [{**GPU, **gpu}] * count}})


def test_a_node_with_fewer_gpus_than_the_others_is_named():
    nodes = {f"n{number}": node.compared(facts(7 if number == 2 else 8)) for number in range(4)}
    assert [*node.different(nodes)] == ["n2"]
    assert "GPUs 7, the others 8" in node.different(nodes)["n2"]


@pytest.mark.parametrize(
    ("gpu", "what"),
    [
        ({"vbios": "97.00"}, "VBIOS"),
        ({"pcie": {"max_width": 8}}, "PCIe width"),
        ({"vbios": {"error": "lost"}}, "VBIOS"),
    ],
)
def test_each_part_of_a_board_is_compared(gpu, what):
    nodes = {f"n{number}": node.compared(facts(**(gpu if number == 3 else {}))) for number in range(4)}
    assert what in node.different(nodes)["n3"]


@pytest.mark.parametrize("counts", [(7, 8), (7, 8, 8), (7, 7, 8, 8), (7, 7, 7, 8, 8, 8)])
def test_without_a_majority_of_three_nobody_knows_which_is_right(counts):
    nodes = {f"n{number}": node.compared(facts(count)) for number, count in enumerate(counts)}
    with pytest.raises(Refusal) as caught:
        node.different(nodes)
    assert caught.value.code == "F147"


def test_equal_nodes_differ_in_nothing():
    assert node.different({name: node.compared(facts()) for name in "ab"}) == {}


def test_different_boards_are_refused():
    node.refuse_mixed({"a": node.boards(facts()), "b": node.boards(facts())})
    with pytest.raises(Refusal) as caught:
        node.refuse_mixed({"a": node.boards(facts()), "b": node.boards(facts(name="NVIDIA A100"))})
    assert (caught.value.code, "NVIDIA A100: b" in caught.value.cause) == ("F141", True)


def test_a_board_without_a_serial_number_is_told_by_its_uuid():
    assert node.serials(facts(1)) == ["165"]
    assert node.serials(facts(1, serial={"unsupported": True})) == ["GPU-1"]


def test_what_a_node_says_of_itself_is_made_harmless():
    assert node.boards(facts(name="H200\x1b[2J" + "x" * 999)).startswith("H200?[2Jxx")
    assert len(node.boards(facts(name="x" * 999))) == node.MOST


def test_what_changed_since_the_beginning_is_said():
    before = node.compared(facts())
    assert node.changed(before, {**before, "driver": "999"}) == [f"driver {before['driver']} -> 999"]


def test_a_node_whose_driver_does_not_answer_is_none_of_another_kind_but_one_that_differs():
    broken = machines.machine({"nvml": {"gpus": []}, "pci": {"gpus": [{"device": "10de:2335"}] * 8}})
    nodes = {"n0": broken, **{f"n{number}": facts() for number in (1, 2, 3)}}
    node.refuse_mixed({name: node.boards(of) for name, of in node.telling(nodes).items()})
    assert "VBIOS -, the others" in node.different({name: node.compared(of) for name, of in nodes.items()})["n0"]
    assert node.telling({"n0": broken}) == {"n0": broken}
