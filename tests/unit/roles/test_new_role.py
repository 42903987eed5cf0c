"""A role costs its own folder: the example of CONTRIBUTING.md is added to a copy of the tree, as it stands there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILE = re.compile(r"^ *```\w+\n *# ((?:roles|molecule)/hello/\S+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
# Those that look at every role.
TESTS = ("test_playbooks.py", "test_role_contracts.py", "test_documents.py", "test_written_values.py", "roles")
TESTS += ("inventory_check/test_unread.py", "options", "checks/test_applied.py", "test_gates.py")


def run(tree, *argv):
    done = subprocess.run(argv, cwd=tree, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_example_of_a_role_passes_the_tests_that_look_at_every_role(tmp_path):
    for name in run(ROOT, "git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name, follow_symlinks=False)
    for path, text in FILE.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(textwrap.dedent(text), encoding="utf-8")
    run(tmp_path, sys.executable, "tests/documents.py")
    run(tmp_path, "git", "init", "--quiet")  # which gates a run has depends on commits
    run(tmp_path, "git", "add", "--all")
    run(tmp_path, "git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--message=a")
    run(tmp_path, sys.executable, "-m", "pytest", "-q", "-m", "not slow", *(f"tests/unit/{name}" for name in TESTS))
    assert "gpulab.node.hello" in (tmp_path / "playbooks/tasks/roles.yml").read_text(encoding="utf-8")
    assert "hello_state: absent" in (tmp_path / "playbooks/remove.yml").read_text(encoding="utf-8")
