"""The facts of IMEX."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.facts import imex
from ansible_collections.gpulab.node.plugins.module_utils.facts.imex import ImexQuery


def test_no_imex(tree):
    assert ImexQuery(tree.node()).facts() == {"nodes": [], "own": False, "state": None, "channel": False}


@pytest.mark.parametrize(
    ("answer", "state"), [("READY\n", "READY"), ("WAITING_FOR_PEERS", "WAITING_FOR_PEERS"), ("", None)]
)
def test_imex_as_it_says_itself(tree, answer, state):
    tree.file(imex.NODES, "# by hand\n10.1.2.3\n\n fd00::4 \n").file(imex.DROP_IN).file(imex.CHANNEL)
    tree.file(imex.CONTROL).prints(imex.CONTROL, answer)
    facts = ImexQuery(tree.node()).facts()
    assert facts == {"nodes": ["10.1.2.3", "fd00::4"], "own": True, "state": state, "channel": True}
