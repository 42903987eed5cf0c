"""The action plugin waits on the controller until nobody uses the node."""

from unittest.mock import Mock

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible_collections.gpulab.node.plugins.action import fence

IN_USE, IDLE = {"users": "job 7 of wei (running)"}, {"users": ""}
SILENT = {"failed": True, "refusal": {"code": "F008", "cause": "it gave no answer", "remedy": "Check slurmctld."}}
OF_KUBERNETES = {**SILENT, "refusal": {**SILENT["refusal"], "code": "F014"}}
OTHER = {"failed": True, "refusal": {"code": "F007", "cause": "fenced", "remedy": "Wait."}}
GONE = AnsibleConnectionFailure("no route to host")


@pytest.fixture
def wait(monkeypatch):
    """Return a function that waits while the module answers so, one look after the other; it returns the result."""

    def waits(*answers, minutes=0, work="wait", check=False):
        looks = Mock(side_effect=answers)
        monkeypatch.setattr(NormalAction, "run", lambda *_given: looks())
        monkeypatch.setattr(fence, "SECONDS", 0.0)
        task = Mock(check_mode=check, args={"work": work, "minutes": minutes})
        plugin = fence.ActionModule(task, Mock(), Mock(), Mock(), Mock(), Mock())
        return plugin.run(None, {"inventory_hostname": "n1"}), looks.call_count

    return waits


def test_it_waits_while_somebody_uses_the_node(wait):
    assert wait(IN_USE, IN_USE, IDLE) == (IDLE, 3)


@pytest.mark.parametrize("silence", [SILENT, OF_KUBERNETES, GONE])
def test_a_node_or_a_controller_that_is_away_for_a_while_is_no_end_of_the_wait(wait, silence):
    assert wait(IN_USE, silence, silence, IDLE) == (IDLE, 4)


def test_at_the_deadline_it_says_who_uses_the_node_or_what_does_not_answer(wait):
    assert wait(IN_USE, minutes=1e-9) == (IN_USE, 1)
    assert wait(SILENT, minutes=1e-9) == (SILENT, 1)


def test_another_refusal_ends_the_wait(wait):
    assert wait(OTHER) == (OTHER, 1)


def test_nothing_else_waits_and_check_mode_neither(wait):
    assert wait(SILENT, work="drain") == (SILENT, 1)
    assert wait(IN_USE, check=True) == (IN_USE, 1)
