"""What nvcc is asked, and what is made of its answer."""

import sys
import time
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.cuda import nvcc

FATAL = "nvcc fatal   : Unsupported gpu architecture 'compute_120'"
MATH = '/usr/include/math.h(79): error: exception specification is incompatible with that of previous function "cospi"'


def test_there_is_code_for_every_gpu():
    assert nvcc.command("/usr/local/cuda-12.6", "g++-13", ["8.9", "12.0"], "a.cu", "a") == [
        "/usr/local/cuda-12.6/bin/nvcc",
        "-ccbin",
        "g++-13",
        "-gencode=arch=compute_89,code=sm_89",
        "-gencode=arch=compute_120,code=sm_120",
        "-o",
        "a",
        "a.cu",
    ]
    assert nvcc.command("/usr", None, [], "a.cu", "a") == ["/usr/bin/nvcc", "-o", "a", "a.cu"]


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (f"some note\n{FATAL}\n", FATAL),
        (f"In file included from a\n{MATH}\n1 error detected\n", MATH),
        ("b\n  a\n", "a"),
        ("", "it printed nothing"),
    ],
)
def test_the_first_error_is_told(report, line):
    assert nvcc.first_error(report) == line


@pytest.fixture
def toolkit(tmp_path):
    """Return a function that makes a toolkit whose nvcc is a few lines of Python."""

    def make(body):
        program = tmp_path / "bin" / "nvcc"
        program.parent.mkdir()
        program.write_text(f"#!{sys.executable}\nimport os, sys, time\n{body}\n")
        program.chmod(0o755)
        return {"version": "12.9", "prefix": str(tmp_path), "host_compiler": None}

    return make


def compiled(toolkit, directory, timeout=10):
    directory.mkdir()
    return nvcc.compile_with(toolkit, ["8.9"], directory, timeout)


def test_a_program_that_links_is_proof(toolkit, tmp_path):
    record = compiled(toolkit("open(sys.argv[sys.argv.index('-o') + 1], 'w')"), tmp_path / "work")
    assert record.pop("seconds") >= 0
    assert record == {"version": "12.9", "prefix": str(tmp_path), "compute_capabilities": ["8.9"], "problem": None}


def test_an_end_without_a_program_is_none(toolkit, tmp_path):
    assert compiled(toolkit(""), tmp_path / "work")["problem"] == "nvcc ended well and left no program"


def test_an_error_is_told(toolkit, tmp_path):
    assert compiled(toolkit(f"sys.exit({FATAL!r})"), tmp_path / "work")["problem"] == FATAL


def test_a_toolkit_that_is_not_there_is_told(tmp_path):
    record = compiled({"version": "12.9", "prefix": "/nowhere"}, tmp_path / "work")
    assert record["problem"] == "/nowhere/bin/nvcc cannot be run: No such file or directory"


def test_a_compiler_that_hangs_is_ended_with_all_that_it_started(toolkit, tmp_path):
    mark = tmp_path / "child"
    body = (
        f"child = os.fork()\nif not child: time.sleep(60)\nopen({str(mark)!r}, 'w').write(str(child))\ntime.sleep(60)"
    )
    assert compiled(toolkit(body), tmp_path / "work", timeout=1)["problem"] == "it did not end within 1 s"
    stat = Path(f"/proc/{mark.read_text()}/stat")
    deadline = time.monotonic() + 20
    while (alive := stat.exists() and ") Z " not in stat.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive
