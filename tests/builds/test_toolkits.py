"""Each CUDA toolkit of NVIDIA's real wheels, made as on a node, compiles and links for all GPUs that the catalog names.

Each takes 130 MB of downloads; one is removed before the next is made.
"""

import platform
import subprocess

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.cuda import nvcc, wheels
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog
from unit.plan.make import facts
from unit.plan.test_rules import plan

KNOWN = catalog.load()
GPUS = ["10de:2330", "10de:2b85"]  # H100 and RTX 5090
SECONDS = 600


@pytest.fixture(params=KNOWN.cuda_wheels)
def toolkit(request, tmp_path):
    """Return the plan's record of a toolkit that was made."""
    node = facts("debian-12", gpus=GPUS)
    node["system"]["architecture"] = platform.machine()
    (planned,) = plan(node, cuda_source="pypi", cuda_toolkits=[request.param])["cuda"]["toolkits"]
    wanted = wheels.WantedToolkit(request.param, wheels.requirements(planned["wheels"]))
    made = wheels.WheelToolkits(tmp_path)
    subprocess.run(made.fetch(wanted, None, {}), check=True, timeout=SECONDS)
    made.finish(wanted)
    assert made.reasons(wanted) == []
    yield {**planned, "prefix": str(made.prefix(request.param)), "host_compiler": None}
    made.remove(request.param, lambda _argv: None)


def test_the_real_compiler_of_the_wheels_compiles_for_each_gpu_that_the_catalog_names(toolkit, tmp_path):
    targets = KNOWN.toolkits[toolkit["version"]]["nvcc_targets"]
    assert {"9.0", "12.0"} <= set(targets)
    assert nvcc.compile_with(toolkit, targets, tmp_path, SECONDS)["problem"] is None
    assert "compute_70" in nvcc.compile_with(toolkit, ["7.0"], tmp_path, SECONDS)["problem"]
