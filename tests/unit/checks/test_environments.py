"""What the checks of environments say where nothing is wrong, or nothing can be said."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.environments import _runs
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify

from . import nodes
from .environment_faults import EXPECTED, environment


def found(facts, plan=None):
    """Return severity and reason of each check of environments."""
    results = verify(nodes.node(facts, plan))
    return {r.id: (r.severity, r.reason or r.summary) for r in results if r.id.startswith("environment")}


@pytest.fixture
def facts():
    return {**nodes.healthy("l40s"), "environments": [environment()]}


def test_an_environment_that_works_is_proven(facts):
    assert [severity for severity, _why in found(facts).values()] == ["ok"] * 4


@pytest.mark.parametrize(
    ("at", "says"),
    [(None, "2.13.0+cu130"), ("2026-11-28T02:12:09+00:00", "(tried on 2026-11-28 at 02:12 UTC, unchanged since)")],
)
def test_a_proof_says_when_the_software_was_really_tried(facts, at, says):
    toolkit = {"version": "12.8", "compute_capabilities": [], "seconds": 2.6, "problem": None}
    facts.update(software_tried=at, cuda_compiled=[toolkit], container_started={"seconds": 1.2, "problem": None})
    tried = ("environments", "cuda-compiler", "container-start")
    words = {result.id: result.summary for result in verify(nodes.node(facts)) if result.id in tried}
    assert words["environments"].endswith(says)
    assert all((says in text) is bool(at) for name, text in words.items() if name != "environments")


@pytest.mark.parametrize(
    ("planned", "kernels", "severity", "says"),
    [
        (["8.9"], ["sm_86"], "ok", "built for CUDA 13.0, has kernels for 8.9"),
        (["8.9", "12.0"], ["sm_86"], "fail", "no kernels for compute capability 12.0"),
        ([], ["sm_86"], "skipped", "compute capabilities of the GPUs are unknown"),
        (["8.9"], None, "skipped", "does not tell"),
    ],
)
def test_without_a_driver_the_kernels_are_those_for_the_planned_gpus(facts, planned, kernels, severity, says):
    facts["nvml"]["gpus"] = []
    facts["environments"] = [environment(gpus=[], gpu_failure="RuntimeError: no driver", architectures=kernels)]
    plan = {"environments": [{"name": "vision"}], "cuda": {"compute_capabilities": planned}}
    results = found(facts, plan)
    assert results["environments"][0] == "ok"
    assert results["environment-gpus"] == ("skipped", "no GPU: RuntimeError: no driver")
    assert results["environment-kernels"][0] == severity
    assert says in results["environment-kernels"][1]


def test_nothing_is_tried_on_gpus_in_use(facts):
    facts["environments"] = [{**environment(gpus=[], gpu_failure="No CUDA GPUs are available"), "gpus_tried": False}]
    assert found(facts)["environments"][0] == "ok"
    severity, why = found(facts)["environment-gpus"]
    assert severity == "skipped"
    assert "the GPUs are in use" in why


def test_simulated_gpus_compute_nothing(facts):
    facts["simulated"] = "simulated L40S"
    facts["environments"] = [environment(gpus=[], gpu_failure="RuntimeError: no driver")]
    assert found(facts)["environment-gpus"] == ("skipped", "the GPUs are simulated")


def test_a_build_without_cuda_that_is_planned_is_right(facts):
    facts["environments"] = [{**environment(cuda=None, gpus=[]), "expected": {**EXPECTED, "cuda": None}}]
    assert found(facts)["environments"][0] == "ok"
    assert found(facts)["environment-gpus"][0] == "inapplicable"


def test_an_environment_of_the_plan_that_is_not_there_is_a_fault(facts):
    results = verify(nodes.node(facts, {"environments": [{"name": "vision"}, {"name": "speech"}]}))
    assert [r.summary for r in results if r.id == "environments" and r.severity == "fail"] == [
        "the planned environment speech does not exist"
    ]


@pytest.mark.parametrize(
    ("kernels", "capability", "expected"),
    [
        (["sm_86"], "8.9", True),
        (["sm_90"], "8.9", False),
        (["sm_80"], "9.0", False),
        (["sm_80", "compute_80"], "12.0", True),
        (["sm_90a", "sm_100"], "10.0", True),
        (["sm_100"], "12.0", False),
    ],
)
def test_kernels_run_on_their_major_version_and_ptx_on_all_later(kernels, capability, expected):
    assert _runs(kernels, capability) is expected
