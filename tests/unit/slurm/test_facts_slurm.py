"""The facts ``slurm``: what MUNGE and the controller answer, in time or not."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.facts.slurm import SlurmQuery
from ansible_collections.gpulab.node.plugins.module_utils.slurm import control

SHOWN = (
    "NodeName=node1 Arch=x86_64 Gres=gpu:a100:2(S:0-1) NodeAddr=node1 NodeHostName=node1 Version=24.11.5"
    " State=IDLE+DRAIN ThreadsPerCore=1 Reason=new fan [root@2026-11-26T10:00:00]\n"
)


class Answer:
    """A command that has ended, or not in time."""

    def __init__(self, found):
        """Take exit status and output; None where it was late."""
        self.found = found

    def result(self):
        """Return it."""
        return self.found and (*self.found, "")


def read(root, munge=(0, ""), shown=(0, SHOWN), accounting=(0, ""), *, daemon=True):
    for path, text in {"usr/sbin/slurmd": "", "proc/sys/kernel/hostname": "node1\n"}.items():
        if daemon or "slurmd" not in path:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
    answers = {"munge": munge, "scontrol": accounting}  # of shell scripts, by their first word
    found = SlurmQuery(Node(root, lambda argv: Answer(answers[argv[2].split()[0]] if argv[0] == "sh" else shown)))
    return found.facts()


def test_a_node_is_as_its_controller_sees_it(tmp_path):
    node = {"name": "node1", "states": ["IDLE", "DRAIN"], "reason": "new fan", "gpus": 2}
    assert read(tmp_path) == {"munge": True, "answers": True, "node": node, "accounting": True, "door": None}


def test_a_node_without_the_daemon_asks_nobody(tmp_path):
    assert read(tmp_path, daemon=False) is None


def test_what_fails_or_is_late_is_told(tmp_path):
    nothing = {"munge": False, "answers": False, "node": None, "accounting": None, "door": None}
    assert read(tmp_path, munge=(1, ""), shown=(1, ""), accounting=(3, "")) == nothing
    assert read(tmp_path, munge=None, shown=None, accounting=None) == nothing
    assert read(tmp_path, accounting=(1, ""))["accounting"] is False
    assert read(tmp_path, shown=(0, SHOWN.replace("node1", "other")))["node"] is None


@pytest.mark.parametrize(
    ("gres", "count"),
    [
        ("gpu:a100:2(S:0-1)", 2),
        ("gpu:a100:2(S:0,2),gpu:t4:1", 3),
        ("gpu:2", 2),
        ("gpu", 1),
        ("(null)", 0),
        ("", 0),
        ("shard:8,gpu:a100-pcie-40gb:4", 4),
    ],
)
def test_the_gpus_of_a_gres_are_counted(gres, count):
    assert control.gpus(gres) == count
