"""MUNGE keys: only random ones are used."""

import hashlib

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.slurm import munge


@pytest.mark.parametrize("size", [32, 128, 1024])
def test_a_random_key_is_used(size):
    assert munge.problem(hashlib.shake_256(str(size).encode()).digest(size)) is None


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (b"", "0 bytes"),
        (hashlib.shake_256(str(1).encode()).digest(31), "31 bytes"),
        (hashlib.shake_256(str(1).encode()).digest(1025), "1025 bytes"),
        (b"$6$salt$" + hashlib.shake_256(str(1).encode()).digest(86), "hash"),
        (b"$5$" + hashlib.shake_256(str(1).encode()).digest(43), "hash"),
        (b"DeepOps" + hashlib.shake_256(str(1).encode()).digest(100), "word"),
        (b"\0" * 1024, "random"),
        (b"0123456789abcde" * 10, "random"),
    ],
)
def test_another_is_refused_and_not_shown(key, said):
    found = munge.problem(key)
    assert said in found
    assert len(found) < 60
