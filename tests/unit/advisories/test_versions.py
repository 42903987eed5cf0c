"""Versions are compared by their numbers."""

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.advisories.versions import key


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("5.9", "5.10"),
        ("580.95.05", "580.159.03"),
        ("1.3.0rc11", "1.3.0rc12"),
        ("1.3.0rc16", "1.3.0"),
        ("1.3.0 rc16", "1.3"),
        ("1.2.1", "1.3.0rc1"),
        ("1.3.0.dev2", "1.3.0"),
        ("12.9", "12.9.1"),
        ("10.16.1", "10.16.1.11"),
        ("1:3.3.9-1", "4.5.2"),
    ],
)
def test_one_is_lower(lower, higher):
    assert key(lower) < key(higher)


@pytest.mark.parametrize(
    ("one", "other"),
    [("13.0", "13.0.0"), ("595.71.05-1~deb12u1", "595.71.05"), ("1.3.0rc11", "1.3.0 rc11"), ("1:4.5.2-1", "4.5.2")],
)
def test_both_are_one(one, other):
    assert key(one) == key(other)
