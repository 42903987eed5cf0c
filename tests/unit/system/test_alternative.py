"""The module alternative, with the real update-alternatives in directories of the test's own."""

import shutil
import subprocess
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.modules import alternative

needs_program = pytest.mark.skipif(not shutil.which(alternative.PROGRAM), reason="update-alternatives is not installed")


class FailedError(Exception):
    """The module ended with an error."""


@pytest.fixture
def select(tmp_path, monkeypatch):
    """Return a function that selects a path for `cuda` and returns the module's result."""
    program, directory = tmp_path / "update-alternatives", tmp_path / "alternatives"
    places = f"--altdir {directory} --admindir {tmp_path}/db --log {tmp_path}/log"
    program.write_text(f'#!/bin/sh\nexec {shutil.which(alternative.PROGRAM)} {places} "$@"\n')
    program.chmod(0o755)
    directory.mkdir()
    (tmp_path / "db").mkdir()
    monkeypatch.setattr(alternative, "PROGRAM", str(program))
    monkeypatch.setattr(alternative, "DIRECTORY", str(directory))

    def run_command(argv, *, check_rc=False, environ_update=None):
        done = subprocess.run(argv, capture_output=True, text=True, check=check_rc, env=environ_update)
        return done.returncode, done.stdout, done.stderr

    def fail_json(msg):
        raise FailedError(msg)

    def run(path, *, check_mode=False):
        result = {}
        params = {"name": "cuda", "link": str(tmp_path / "cuda"), "path": str(path)}
        module = SimpleNamespace(
            params=params, check_mode=check_mode, run_command=run_command, exit_json=result.update, fail_json=fail_json
        )
        monkeypatch.setattr(alternative, "AnsibleModule", lambda **_: module)
        alternative.main()
        return result

    return run


@needs_program
def test_it_selects_what_is_new_and_what_is_known_and_then_changes_nothing(select, tmp_path):
    older, newer = tmp_path / "cuda-12", tmp_path / "cuda-13"
    older.mkdir()
    newer.mkdir()
    for path in (newer, older, newer):
        assert select(path, check_mode=True)["changes"] == [{"action": "select", "what": str(path)}]
        assert select(path)["changed"]
        assert (tmp_path / "cuda").resolve() == path
        again = select(path)
        assert (again["changed"], again["changes"]) == (False, [])


@needs_program
def test_check_mode_changes_nothing(select, tmp_path):
    select(tmp_path, check_mode=True)
    assert not (tmp_path / "cuda").is_symlink()


@needs_program
def test_a_path_that_is_not_there_fails_before_anything_changes(select, tmp_path):
    with pytest.raises(FailedError, match="does not exist"):
        select(tmp_path / "cuda-14")
    assert not list((tmp_path / "alternatives").iterdir())
