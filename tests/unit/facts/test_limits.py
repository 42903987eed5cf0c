"""Limits are those that PAM gives to users, else systemd's defaults."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.facts import limits

SHOWN = "DefaultLimitMEMLOCKSoft=8388608\nDefaultLimitNOFILE=524288\n"


def read(tree):
    node = tree.node()
    return limits.read(node, limits.LimitTexts(node))


def test_bare_node_says_nothing(tree):
    nothing = {"memlock": None, "nofile": None}
    assert read(tree) == {"services": nothing, "sessions": nothing, "shared_memory_mib": None}


def test_sessions_inherit_systemds_defaults(tree):
    tree.prints("systemctl show", SHOWN).directory("/dev/shm")  # noqa: S108
    facts = read(tree)
    assert facts["services"] == facts["sessions"] == {"memlock": 8 << 20, "nofile": 524288}
    assert facts["shared_memory_mib"] > 0


def test_pam_wins_for_sessions_and_its_last_file_among_its_own(tree):
    tree.prints("systemctl show", SHOWN)
    tree.file("/etc/security/limits.conf", "* soft memlock 64\n* - nofile 4096\n")
    tree.file("/etc/security/limits.d/90-rdma.conf", "*\t-\tmemlock\tunlimited  # RDMA\n")
    tree.file("/etc/security/limits.d/README", "* - memlock 1\n")
    assert read(tree)["sessions"] == {"memlock": "unlimited", "nofile": 4096}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("* soft memlock 64", {"memlock": 64 << 10}),
        ("* hard memlock 64", {}),
        ("* soft nofile 64", {}),
        ("* hard nofile -1", {"nofile": "unlimited"}),
        ("root - memlock unlimited", {}),
        ("@gpu - memlock unlimited", {}),
        ("# * - memlock unlimited", {}),
        ("* - memlock many", {"memlock": None}),
    ],
)
def test_a_line_counts_where_it_is_for_everybody(line, expected):
    assert limits.pam_limits(line) == expected
