"""How a node is reached with the project's ansible.cfg."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

# In place of ssh: as while sshd restarts, the first calls find nobody; then it runs the command here.
SSH = """#!/bin/sh
for last; do :; done
printf . >> "$CALLS"
[ "$(wc -c < "$CALLS")" -gt "$FAILURES" ] || { echo "connect to host node port 22: Connection refused" >&2; exit 255; }
exec sh -c "$last"
"""


def reach(root, directory, failures):
    """Read a node with so many failures of its connection at first; return whether it was reached."""
    ssh, calls = directory / "ssh", directory / "calls"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    calls.unlink(missing_ok=True)
    argv = [Path(sys.executable).with_name("ansible"), "-i", "node,", "all", "-m", "ansible.builtin.raw", "-a", "true"]
    done = subprocess.run(
        argv,
        cwd=root,
        env={
            **os.environ,
            "ANSIBLE_HOME": str(directory),
            "ANSIBLE_SSH_EXECUTABLE": str(ssh),
            "CALLS": str(calls),
            "FAILURES": str(failures),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode == 0


def test_an_sshd_that_restarts_is_tried_again_and_one_that_is_gone_is_given_up(pytestconfig, tmp_path):
    assert reach(pytestconfig.rootpath, tmp_path, 2)
    assert not reach(pytestconfig.rootpath, tmp_path, 99)
