"""The processes of a node, from a tree like /proc."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.facts import processes


def process(tree, pid, command, place="/", *, parent=1, flags=0):  # noqa: PLR0913
    fields = ["0"] * 17
    fields[4] = str(flags)
    tree.file(f"/proc/{pid}/stat", f"{pid} ({command}) S {parent} {' '.join(fields)} 12345 0 0")
    tree.file(f"/proc/{pid}/comm", command + "\n").file(f"/proc/{pid}/cgroup", f"0::{place}\n")
    return tree


def test_ancestors(tree):
    for pid, parent in ((1, 0), (100, 1), (700, 100), (900, 700)):
        process(tree, pid, "sshd", parent=parent)
    assert list(processes.ancestors(tree.node(), 900)) == [900, 700, 100, 1]
    assert list(processes.ancestors(tree.node(), 4711)) == [4711]


@pytest.mark.parametrize(("second", "left"), [("kthreadd", [1, 50]), ("bash", [1, 2, 3, 50])])
def test_the_kernels_own_threads_are_left_out_and_in_a_container_number_two_is_a_program(tree, second, left):
    process(tree, 1, "systemd", "/init.scope", parent=0)
    process(tree, 2, second, parent=0)
    process(tree, 3, "kworker/0:0", parent=2)
    process(tree, 4, "kworker/1:0", parent=0, flags=0x00200000)
    process(tree, 50, "python3")
    assert sorted(processes.table(tree.node())) == left


def test_places_are_below_that_of_the_first_process(tree):
    process(tree, 1, "systemd", "/docker/4f/init.scope", parent=0)
    process(tree, 50, "python3", "/docker/4f/system.slice/a.service")
    process(tree, 51, "python3", "/docker/4f")
    process(tree, 52, "python3", "/docker/4fa")
    places = {pid: one.place for pid, one in processes.table(tree.node()).items()}
    assert places == {1: "/init.scope", 50: "/system.slice/a.service", 51: "", 52: None}
