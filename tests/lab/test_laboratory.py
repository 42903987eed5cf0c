"""A lab's name belongs to one run at a time, and to nobody once that run is killed."""

import subprocess
import sys
from pathlib import Path

import pytest
from laboratory import Lab

NAME = "gpulab-test-claim"
HOLDER = f"from laboratory import Lab; lab = Lab({NAME!r}, print); print('held', flush=True); input()"


def test_a_lab_is_its_runs_until_that_is_killed(say):
    argv = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(
        argv, cwd=Path(__file__).parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(pytest.fail.Exception, match=f"another run is at work on the lab {NAME}"):
            Lab(NAME, say)
        holder.kill()
    Lab(NAME, say)
