"""Programs that roles bring to nodes: all that they import is beside them, and nothing else is needed."""

import subprocess
import sys
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.node.plugins.filter.program import program

PACKAGE = "ansible_collections.gpulab.node.plugins.module_utils"
ROLES = Path(__file__).parents[3] / "roles"
PROGRAMS = [
    "gpu_settings/files/apply.py",
    "monitoring/files/collect.py",
    *(f"slurm/files/{name}.py" for name in ("prolog", "epilog", "health")),
]


def put(files):
    for path, text in files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)


@pytest.mark.parametrize("source", PROGRAMS)
def test_a_program_imports_only_what_is_brought_with_it(source, tmp_path):
    put(program(str(ROLES / source), str(tmp_path)))
    name = Path(source).stem
    look = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; sys.argv[1:] = ['/nowhere/metrics']\n"
        f"try: import {name}\n"
        "except (OSError, SystemExit): pass\n"
        f"print(*(module.__file__ for name, module in sys.modules.items() if name.startswith({PACKAGE!r})))"
    )
    done = subprocess.run(
        [sys.executable, "-BISc", look], capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.splitlines()[-1].split()  # before it, a program may say that it finds no settings
    assert len(loaded) > 3
    assert all(file.startswith(str(tmp_path)) for file in loaded)


def test_what_imports_import_comes_too_and_what_nobody_imports_does_not(tmp_path):
    start = tmp_path / "start.py"
    start.write_text(f"from {PACKAGE}.nvml import query\n")
    names = {Path(path).name for path in program(str(start), "/opt/x")}
    assert {"start.py", "query.py", "library.py", "child.py"} < names
    assert "docker_engine.py" not in names


def test_a_program_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(AnsibleFilterError, match=r"nothing\.py"):
        program(str(tmp_path / "nothing.py"), "/opt/x")


def test_an_executable_program_names_its_interpreter():
    files = program(str(ROLES / "slurm/files/prolog.py"), "/place", executable=True)
    begins = {path: text.startswith("#!/usr/bin/python3 -BEs\n") for path, text in files.items()}
    assert begins == {path: path == "/place/prolog.py" for path in files}
