"""The Makefile's targets can be run: what they call is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(
    set(re.findall(r"\b(?:lab|tests)/[\w/]+\.(?:sh|py)\b", (ROOT / "Makefile").read_text(encoding="utf-8")))
)


@pytest.mark.parametrize("path", PROGRAMS)
def test_what_a_target_runs_is_there(path):
    assert (ROOT / path).is_file()
