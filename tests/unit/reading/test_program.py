"""The program that reads the facts of a node stays there compiled, and needs nothing of the controller."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.reading import program

ROOT = Path(__file__).parents[3]
MODULE = "ansible_collections.gpulab.node.plugins.module_utils.reading"
KEEP = "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); from {0} import look, program; "
KEEP = KEEP.format(MODULE) + "program.keep(sys.argv[2], Path(sys.argv[3]))"
ASKED = {"timeout": 1, "work": "go on", "run": None, "kernel_values": [], "own_paths": [], "dead": None}
ASKED["program"] = None


def keep(place, digest="digest", umask=0o022):
    """Leave the program as a module does that runs in a process of its own."""
    subprocess.run([sys.executable, "-c", KEEP, ROOT / "collections", digest, place], check=True, umask=umask)


def test_the_program_answers_as_the_module_does(tmp_path):
    keep(tmp_path)
    call = [sys.executable, "-I", "-B", "-c", program.COMMAND, tmp_path / "digest"]
    asked = json.dumps({"asked": ASKED, "check_mode": True})
    answer = json.loads(subprocess.run(call, input=asked, check=True, capture_output=True, text=True).stdout)
    assert answer["ansible_facts"]["gpulab"]["schema"] == 1
    assert answer["ansible_facts"]["gpulab_check_mode"] is True


def test_the_program_is_compiled_and_reads_no_other_code(tmp_path):
    keep(tmp_path)
    code = list((tmp_path / "digest").rglob("*.py"))
    assert len(list((tmp_path / "digest").rglob("*.pyc"))) == len(code)
    assert {path.relative_to(tmp_path / "digest").parts[0] for path in code} == {"ansible_collections"}


def test_a_newer_program_takes_the_place_of_an_older_one(tmp_path):
    for digest in ("older", "newer", "newer"):
        keep(tmp_path, digest)
    assert [path.name for path in tmp_path.iterdir()] == ["newer"]


@pytest.mark.parametrize("name", ["look.py", "__pycache__/look.*.pyc"])
def test_a_program_that_a_power_cut_or_a_full_disk_cut_short_is_replaced(tmp_path, name):
    keep(tmp_path)
    (file,) = (tmp_path / "digest" / MODULE.replace(".", "/")).glob(name)
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[: size // 2])
    keep(tmp_path)
    assert file.stat().st_size == size


def test_nobody_else_may_write_to_what_root_runs_whatever_the_session_says(tmp_path):
    keep(tmp_path / "state/program", umask=0)
    paths = [tmp_path / "state", *(tmp_path / "state").rglob("*")]
    assert [path for path in paths if path.stat().st_mode & 0o022] == []


def test_a_disk_that_takes_no_program_fails_no_run(tmp_path):
    (tmp_path / "file").touch()
    keep(tmp_path / "file")


def test_a_node_without_the_program_says_so_by_its_status(tmp_path):
    call = [sys.executable, "-I", "-c", program.COMMAND, tmp_path / "digest"]
    assert subprocess.run(call, input="{}", check=False, capture_output=True, text=True).returncode == 1
