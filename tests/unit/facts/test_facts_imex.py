"""The facts of IMEX."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils import facts_imex
from ansible_collections.gpulab.node.plugins.module_utils.facts_imex import ImexQuery


def test_no_imex(tree):
    assert ImexQuery(tree.node()).facts() == {"nodes": [], "own": False, "state": None, "channel": False}


@pytest.mark.parametrize(
    ("answer", "state"), [("READY\n", "READY"), ("WAITING_FOR_PEERS", "WAITING_FOR_PEERS"), ("", None)]
)
def test_imex_as_it_says_itself(tree, answer, state):
    tree.file(facts_imex.NODES, "# by hand\n10.1.2.3\n\n fd00::4 \n").file(facts_imex.DROP_IN).file(facts_imex.CHANNEL)
    tree.file(facts_imex.CONTROL).prints(facts_imex.CONTROL, answer)
    facts = ImexQuery(tree.node()).facts()
    assert facts == {"nodes": ["10.1.2.3", "fd00::4"], "own": True, "state": state, "channel": True}
