"""A block in somebody else's file: his lines stay, whatever becomes of the block."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.owned_block import BEGIN, inside, merged, outside

BLOCK = merged(None, "A=1\n", "nccl")


@pytest.mark.parametrize("text", [None, "", "USER=1\n", "USER=1", "# a\n\nUSER=1\n", "USER=1\r\n"])
@pytest.mark.parametrize("content", ["A=1", "A=1\nB=2\n"])
def test_the_users_lines_stay(text, content):
    with_block = merged(text, content, "nccl")
    assert with_block.startswith(text or "")
    assert merged(with_block, content, "nccl") == with_block
    assert (merged(with_block, "", "nccl") or "").split() == (text or "").split()


def test_no_content_makes_no_file_and_removes_none_of_the_users():
    assert merged(None, "", "nccl") is None
    assert merged("", "", "nccl") == ""
    assert merged("USER=1", "", "nccl") == "USER=1"
    assert merged(BLOCK, "", "nccl") is None


def test_what_stands_below_the_block_stays():
    assert outside(f"X=1\n{BLOCK}Y=2\n", "nccl") == "X=1\nY=2\n"
    assert merged(f"{BLOCK}Y=2\n", "B=2", "nccl").splitlines()[0] == "Y=2"


def test_of_a_block_without_its_end_no_setting_is_lost():
    first, *_rest = BLOCK.splitlines()
    assert outside(f"X=1\n{first}\nY=2\n", "nccl") == "X=1\nY=2\n"


def test_no_marker_looks_like_a_setting():
    """NCCL before 2.24 does not know comments."""
    assert [line for line in BLOCK.splitlines() if "=" in line] == ["A=1"]


def test_the_block_is_read_back():
    assert inside(merged("a\n", "b\nc", "nccl"), "nccl") == "b\nc"
    assert inside("a\nb\n", "nccl") == ""
    assert inside(BEGIN.format(owner="nccl") + "\nb\n", "nccl") == ""
