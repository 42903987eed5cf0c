"""What make catalog-check asks the package index about frameworks and sets, and what it makes of the answers."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog

sys.path.insert(0, str(Path(__file__).parents[1]))
import catalog_cells

NOBODY = "error: No solution found"


@pytest.fixture
def known():
    """Return a catalog with one release of each framework."""
    made = copy.copy(catalog.load())
    versions = {"pytorch": "2.12.1", "tensorflow": "2.20.0", "jax": "0.9.2"}
    vars(made)["frameworks"] = {
        framework: {version: catalog.load().frameworks[framework][version]} for framework, version in versions.items()
    }
    return made


def index(changes=None):
    """Return an index that has all cells of the fixture; changes answers some requirements in another way."""
    cuda = {"torch": "13.0.96", "tensorflow[and-cuda]": "12.9.79", "jax[cuda12]": "12.9.79", "jax[cuda13]": "13.5.37"}
    pythons = {"torch": (10, 14), "tensorflow[and-cuda]": (9, 13), "jax[cuda12]": (11, 14), "jax[cuda13]": (11, 14)}

    def ask(wanted, python):
        for one, answer in (changes or {}).items():
            if one in (*wanted, (wanted[0], python)):
                return answer
        name = wanted[0].partition("==")[0]
        first, last = pythons[name]
        served = first <= int(python.partition(".")[2]) <= last
        return {"nvidia-cuda-runtime": cuda[name]} if served else NOBODY

    return ask


def test_a_catalog_that_the_index_bears_out_has_no_faults(known):
    found, count, unanswered = catalog_cells.compare(known, index())
    assert (found, unanswered) == ([], 0)
    assert count == (5 + 2) + (5 + 2) + 2 * (4 + 2)  # the Pythons of each build and their two neighbours


def test_every_set_is_resolved_in_some_cell(known):
    asked = set()

    def ask(wanted, python):
        asked.update(wanted)
        return index()(wanted, python)

    catalog_cells.compare(known, ask)
    for name in ("vision", "data", "llm", "quantisation"):
        assert asked.issuperset(catalog.load().package_sets[name]["packages"])
    assert {"onnxruntime-gpu<1.24", "onnxruntime-gpu>=1.24"} <= asked  # TensorFlow is for CUDA 12
    assert not {line for line in asked if line.startswith("vllm")}  # which is for other releases


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({("tensorflow[and-cuda]==2.20.0", "3.13"): NOBODY}, "CUDA 12.5 and Python 3.13: error: No solution"),
        (
            {("torch==2.12.1", "3.15"): {}},
            "pytorch 2.12.1 for CUDA 13.0 and Python 3.15: the index has it",
        ),
        ({("torch==2.12.1", "3.12"): {"nvidia-cuda-runtime": "13.2.86"}}, "Python 3.12: the index has CUDA 13.2"),
        ({("jax[cuda13]==0.9.2", "3.12"): {"nvidia-cuda-runtime": "12.9.79"}}, "Python 3.12: the index has CUDA 12.9"),
    ],
    ids=["a wheel is missing", "a Python is new", "PyTorch is of another CUDA", "JAX is of another CUDA"],
)
def test_what_the_index_has_otherwise_is_named(known, changes, fault):
    found, _count, _unanswered = catalog_cells.compare(known, index(changes))
    assert [fault in line for line in found] == [True]


def test_a_set_that_does_not_resolve_is_named_and_not_the_others(known):
    found, _count, _unanswered = catalog_cells.compare(known, index({"torchao": NOBODY}))
    assert {line.partition(": ")[0].partition(" with ")[2] for line in found} == {"quantisation"}
    assert len(found) == 5


def test_sets_that_resolve_alone_but_not_together_are_named(known):
    def ask(wanted, python):
        return NOBODY if {"torchao", "lmdb"} <= set(wanted) else index()(wanted, python)

    found, _count, _unanswered = catalog_cells.compare(known, ask)
    assert len(found) == 5
    assert all("data" in line and "quantisation" in line for line in found)


def test_an_index_that_does_not_answer_is_counted_and_is_no_fault(known):
    found, count, unanswered = catalog_cells.compare(known, lambda _wanted, _python: None)
    assert (found, unanswered) == ([], count)


def test_uv_is_asked_for_wheels_and_its_failures_are_told_apart(tmp_path, monkeypatch):
    def uv(body):
        (tmp_path / "uv").write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "uv").chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    uv('echo "$@" | grep --quiet -- "--only-binary :all: --python-version 3.12" && cat')
    assert catalog_cells.resolve(("torch==2.12.1", "six==1.17.0"), "3.12") == {"torch": "2.12.1", "six": "1.17.0"}
    uv("echo 'error: No solution found' >&2; exit 1")
    assert catalog_cells.resolve(("torch",), "3.12") == NOBODY
    uv("echo 'error: Failed to fetch: `/simple/torch`' >&2; exit 2")
    assert catalog_cells.resolve(("torch",), "3.12") is None
