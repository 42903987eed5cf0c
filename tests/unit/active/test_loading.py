"""How many workers pay, and what limits them: what follows from rates, and the program at work where PyTorch is."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.active import loading
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.facts import data_loading


@pytest.mark.parametrize(
    ("cores", "gpus", "numbers"),
    [(2, 0, [1, 2]), (16, 2, [1, 2, 4, 8]), (24, 2, [1, 2, 4, 8, 12]), (4, 8, [1]), (224, 8, [1, 2, 4, 8, 16, 28])],
)
def test_numbers_go_up_to_the_share_of_one_gpu(cores, gpus, numbers):
    assert loading.candidates(cores, gpus) == numbers


@pytest.mark.parametrize(
    ("rates", "workers"),
    [
        ({"1": 100.0, "2": 190.0, "4": 360.0, "8": 380.0}, 4),
        ({"1": 100.0, "2": 40.0}, 1),
        ({"1": 10.0, "2": 20.0}, 2),
    ],
)
def test_the_least_number_that_is_about_as_fast_as_the_best_pays(rates, workers):
    assert loading.pays(rates) == workers


def lines(files, memory, eats=None):
    said = [
        {"source": source, "workers": workers, "rate": rate}
        for source, rates in (("memory", memory), ("files", files))
        for workers, rate in rates.items()
    ]
    said += [{"eats": eats}] if eats else []
    return "\n".join(["noise", *map(json.dumps, said)])


LIMITS = {
    "fast enough": (lines({1: 900.0, 2: 1800.0}, {1: 1000.0, 2: 2000.0}, 1700.0), 1800.0, None),
    "storage": (lines({1: 290.0, 2: 300.0}, {1: 1000.0, 2: 2000.0}, 1700.0), 290.0, "storage"),
    "processors": (lines({1: 900.0, 2: 1650.0}, {1: 1000.0, 2: 2000.0}, 1700.0), 1650.0, "processors"),
    "no GPU": (lines({1: 290.0, 2: 300.0}, {1: 1000.0, 2: 2000.0}), 290.0, None),
}


@pytest.mark.parametrize(("output", "feeds", "limit"), LIMITS.values(), ids=LIMITS)
def test_what_limits_the_loading(output, feeds, limit):
    found = loading.summary({"state": "done", "output": output})
    assert (found["feeds"], found["limit"]) == (feeds, limit)


def test_what_was_measured_before_a_failure_is_kept():
    error = {"code": 1, "name": "Bus error"}
    found = loading.summary({"state": "failed", "error": error, "output": lines({}, {1: 1.0})})
    assert found == {"state": "failed", "error": error, "rates": {"memory": {"1": 1.0}}}


def done(**rates):
    return {"state": "done", "rates": {"files": {key[1:]: rate for key, rate in rates.items()}}}


@pytest.mark.parametrize(
    ("records", "former", "workers"),
    [
        ([done(w1=10.0, w2=19.0, w4=20.0)], None, 2),
        ([done(w1=10.0, w2=19.0, w4=20.0)], 4, 4),  # it would go up and down with every proof
        ([done(w1=10.0, w2=19.0, w4=30.0)], 2, 4),
        ([done(w1=10.0, w2=19.0), done(w1=10.0, w2=10.0)], None, 2),
        ([done(w1=10.0)], 8, 1),  # a number that this node no longer tries
        ([{"state": "skipped", "reason": "in use"}], 4, 4),
        ([], None, None),
    ],
)
def test_the_number_that_is_kept(records, former, workers):
    assert loading.kept(records, former) == workers


@pytest.mark.parametrize(
    ("text", "fact"), [('{"workers": 6}', {"workers": 6}), ("{", None), ('{"workers": "6"}', None), ("[]", None)]
)
def test_what_is_kept_is_read(tree, text, fact):
    assert data_loading.read(tree.file(str(data_loading.RECORD), text).node()) == fact
    assert data_loading.read(Node(Path("/nonexistent"))) is None


@pytest.fixture
def python(tmp_path):
    """Return a function that makes an interpreter: a program that prints lines, and what it was called with."""

    def make(output, status=0):
        program = tmp_path / "bin/python"
        program.parent.mkdir()
        (tmp_path / "output").write_text(output)
        program.write_text(
            f"#!/bin/sh\ncat >/dev/null\nls -a $2 >{tmp_path}/own\ncp $3 {tmp_path}/listed\n"
            f'echo "$4 $5 gpu=$CUDA_VISIBLE_DEVICES" >{tmp_path}/called\ncat {tmp_path}/output\nexit {status}\n'
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return str(program)

    return make


def test_a_directory_is_listed_for_the_program_and_left_as_it_was(python, tmp_path):
    data = tmp_path / "data"
    (data / "a").mkdir(parents=True)
    for name, size in (("a/small", 1), ("large", 2), ("empty", 0), ("with\nline", 3)):
        (data / name).write_bytes(bytes(size))
    found = loading.measure(python(lines({1: 5.0}, {1: 9.0})), str(data), [1, 2], "GPU-1", 10.0)
    assert (found["state"], found["workers"], found["path"]) == ("done", 1, str(data))
    assert (tmp_path / "listed").read_text().split("\n") == [f"{data}/large", f"{data}/a/small"]
    assert (tmp_path / "called").read_text() == f"1,2 {loading.SECONDS} gpu=GPU-1\n"
    assert sorted(path.name for path in data.iterdir()) == ["a", "empty", "large", "with\nline"]


@pytest.mark.parametrize("why", ["read-only", "full"])
def test_nothing_is_written_where_nothing_may_be(python, tmp_path, monkeypatch, why):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").write_bytes(b"x")
    if why == "full":
        monkeypatch.setattr(loading, "ROOM", 1 << 80)
    else:

        def make(_place):
            raise OSError(30, "Read-only file system")

        monkeypatch.setattr(loading.beneath.Place, "make", make)
    program = python(lines({1: 5.0}, {1: 9.0}))
    assert loading.measure(program, str(tmp_path / "data"), [1], "", 10.0)["state"] == "done"
    assert (tmp_path / "own").read_text() == ""


def test_what_is_written_beside_stays_in_its_own_directory(tmp_path, monkeypatch):
    (tmp_path / "etc").mkdir()
    monkeypatch.setattr(loading, "ROOM", 0)
    with loading._beside(str(tmp_path)) as way:  # noqa: SLF001
        (own,) = tmp_path.glob(".gpulab-*")
        own.rename(tmp_path / "theirs")
        own.symlink_to(tmp_path / "etc")
        (loading.Path(way) / "database").mkdir()
        (loading.Path(way) / "database/data").touch()
    assert (list((tmp_path / "etc").iterdir()), list((tmp_path / "theirs").iterdir())) == ([], [])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_nothing_is_written_beside_where_somebody_put_a_directory_of_theirs(tmp_path, monkeypatch):
    real = loading.beneath.Place.make
    monkeypatch.setattr(loading, "ROOM", 0)

    def make(place):
        made = real(place)
        (own,) = tmp_path.glob(".gpulab-*")
        os.chown(own, 1500, 1500)
        return made

    monkeypatch.setattr(loading.beneath.Place, "make", make)
    with loading._beside(str(tmp_path)) as way:  # noqa: SLF001
        assert way is None


def test_an_empty_directory_is_left_out(tmp_path):
    assert loading.measure("/bin/false", str(tmp_path), [1], "", 10.0)["state"] == "skipped"


def interpreter():
    """Return an interpreter with PyTorch: GPULAB_TORCH_PYTHON, else this one; None where there is none."""
    for candidate in (os.environ.get("GPULAB_TORCH_PYTHON"), sys.executable):
        if (
            candidate
            and subprocess.run([candidate, "-c", "import torch"], capture_output=True, check=False).returncode == 0
        ):
            return candidate
    return None


def test_a_real_dataloader_loads_from_every_source(tmp_path):
    python = interpreter()
    if python is None:
        pytest.skip("no interpreter here has PyTorch (GPULAB_TORCH_PYTHON names one)")
    for number in range(8):
        (tmp_path / str(number)).write_bytes(os.urandom(300_000))
    before = sorted(path.name for path in tmp_path.iterdir())
    found = loading.measure(python, str(tmp_path), [1, 2], "", 120.0)
    assert found["state"] == "done", found
    assert {"memory", "files", "memmap"} <= set(found["rates"])
    assert all(rate > 0 for rates in found["rates"].values() for rate in rates.values())
    assert (found["workers"] in (1, 2), found["eats"], found["limit"]) == (True, None, None)
    has_lmdb = subprocess.run([python, "-c", "import lmdb"], capture_output=True, check=False).returncode == 0
    assert ("lmdb" in found["rates"]) == has_lmdb
    assert sorted(path.name for path in tmp_path.iterdir()) == before
