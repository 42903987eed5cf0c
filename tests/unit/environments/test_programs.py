"""What runs on the node by another Python, or when the module that brought it is gone, has all that it imports."""

import ast
import inspect
import subprocess
import sys

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.environments import builds, locking, probe
from ansible_collections.gpulab.node.plugins.module_utils.packages import dnf_solver


def test_the_program_of_a_step_has_all_of_gpulab_that_it_imports(tmp_path):
    _python, *alone = builds.program(tmp_path / "program", locking)
    argv = [sys.executable, *alone, str(tmp_path / "none.json")]
    done = subprocess.run(argv, capture_output=True, text=True, cwd="/", check=False)
    assert "FileNotFoundError" in done.stderr.splitlines()[-1], done.stderr


@pytest.mark.parametrize("module", [probe, dnf_solver], ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_program_of_one_file_imports_nothing_of_gpulab(module):
    body = ast.parse(inspect.getsource(module)).body
    imported = [node.module for node in body if isinstance(node, ast.ImportFrom)]
    assert not [name for name in imported if name.startswith("ansible")]
