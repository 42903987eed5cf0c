"""Programs that stay on a node lie there compiled; what is not as its source, or cut short, is passed over."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.module_utils import basic
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpulab.node.plugins.filter.program import program
from ansible_collections.gpulab.node.plugins.module_utils.core import programs
from ansible_collections.gpulab.node.plugins.modules import owned_files

SOURCE = Path(__file__).parents[3] / "roles/gpu_settings/files/apply.py"


@pytest.fixture
def put(monkeypatch, capsys, tmp_path):
    """Return a function that lays the program out as a role does, and returns whether that changed anything."""
    monkeypatch.setattr(programs, "PYTHON", sys.executable)
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    wanted = program(str(SOURCE), str(tmp_path / "lib"))

    def run(umask=0o022):
        given = {"owner": "gpu_settings", "files": wanted, "_ansible_remote_tmp": str(tmp_path)}
        before = os.umask(umask)
        try:
            with patch_module_args(given), pytest.raises(SystemExit):
                owned_files.main()
        finally:
            os.umask(before)
        return json.loads(capsys.readouterr().out)["changed"]

    return run


def own(directory):
    return sorted(path for path in directory.rglob("*.py") if programs.PACKAGE in path.parts)


def compiled(directory):
    """Return the sources that a start of the program does not compile."""
    call = [
        sys.executable,
        "-vBEs",
        "-c",
        f"import sys; sys.argv[1:] = ['/none']; sys.path.insert(0, {str(directory)!r}); import apply",
    ]
    said = subprocess.run(call, capture_output=True, text=True, check=False).stderr
    return {Path(line.split()[-1]) for line in said.splitlines() if " matches /" in line and str(directory) in line}


def test_a_start_of_a_program_compiles_none_of_gpulabs_modules(put, tmp_path):
    assert put() is True
    loaded = compiled(tmp_path / "lib")
    assert len(loaded) > 10
    assert loaded <= set(own(tmp_path / "lib"))
    assert len(list(tmp_path.rglob("*.pyc"))) == len(own(tmp_path / "lib"))
    assert put() is False


def test_only_its_owner_may_write_what_is_compiled(put, tmp_path):
    put(umask=0)
    made = [*tmp_path.rglob("__pycache__"), *tmp_path.rglob("*.pyc")]
    assert [path for path in made if path.stat().st_mode & 0o022] == []


def test_a_source_that_has_changed_is_compiled_again_and_until_then_its_own_text_counts(put, tmp_path):
    put()
    source = next(path for path in compiled(tmp_path / "lib") if path.name == "child.py")
    source.write_text(source.read_text() + "\n# changed\n")
    assert source not in compiled(tmp_path / "lib")
    assert put() is True
    assert source in compiled(tmp_path / "lib")


def test_a_file_that_is_not_whole_has_not_the_name_that_python_looks_for(put, tmp_path, monkeypatch):
    cut_short = programs.COMPILE.replace("        stream.flush()", "        sys.exit()")
    monkeypatch.setattr(programs, "COMPILE", cut_short)
    put()
    assert list(tmp_path.rglob("*.pyc.new"))
    assert compiled(tmp_path / "lib") == set()
    monkeypatch.undo()


def test_where_nothing_can_be_compiled_the_program_is_there_all_the_same(put, tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "PYTHON", "/none/python3")
    put()
    assert own(tmp_path / "lib")
    assert not list(tmp_path.rglob("*.pyc"))
