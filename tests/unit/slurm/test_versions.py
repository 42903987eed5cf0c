"""Releases of Slurm: which work with which, before packages come to a node."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.slurm import versions

DEBIAN_12, DEBIAN_13 = "22.05.8-4+deb12u3", "24.11.5-4"


@pytest.mark.parametrize(
    ("newer", "older", "works"),
    [
        (DEBIAN_12, DEBIAN_12, True),
        ("22.05.9", "22.05.1", True),
        ("22.05.1", "22.05.9", True),
        ("22.05", "20.11", True),
        ("22.05", "20.02", False),  # three releases apart, before 24.11
        ("24.11", "23.02", True),  # three releases apart
        (DEBIAN_13, DEBIAN_12, False),  # four
        (DEBIAN_12, DEBIAN_13, False),  # a daemon knows none that is newer
        ("1:26.05.1", "24.11", True),
        ("26.11", "24.11", False),
        ("", DEBIAN_13, True),
        ("git", DEBIAN_13, True),
    ],
)
def test_a_daemon_understands_two_or_three_releases_before_its_own(newer, older, works):
    assert versions.understands(newer, older) == works


def test_a_node_that_its_controller_does_not_understand_is_refused():
    versions.check_node("node1", DEBIAN_12, "head", "23.11.1")
    with pytest.raises(Refusal) as refused:
        versions.check_node("node1", DEBIAN_12, "head", DEBIAN_13)
    assert refused.value.code == "F035"
    assert "22.05.8" in refused.value.cause
    assert "head" in refused.value.cause


def test_an_upgrade_past_what_can_be_read_is_refused():
    versions.check_upgrade("head", DEBIAN_12, "23.11.4")
    versions.check_upgrade("head", "", DEBIAN_13)
    with pytest.raises(Refusal) as refused:
        versions.check_upgrade("head", DEBIAN_12, DEBIAN_13)
    assert refused.value.code == "F038"
