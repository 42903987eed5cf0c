"""A node that is out of service shows in the proof, and one that was forgotten is a warning."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.host import fence
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts

from .host_faults import FENCE


class Node:
    """A node of which only its fence is known."""

    def __init__(self, found):
        """Take the fact."""
        self.facts = Facts({"fence": found})


@pytest.mark.parametrize(
    ("found", "severity"),
    [
        (None, "ok"),
        (FENCE, "info"),
        ({**FENCE, "held": True}, "warn"),
        ({**FENCE, "overdue": True}, "warn"),
    ],
    ids=["in-service", "at-work", "failed", "forgotten"],
)
def test_a_fence_left_behind_is_a_warning(found, severity):
    (result,) = fence(Node(found))
    assert result.severity == severity
    assert found is None or ("anna on laptop" in result.summary and "driver 550" in result.summary)
