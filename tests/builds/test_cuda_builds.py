"""The real CUDA build of each framework, made as on a node, and what is proven of it where no driver answers.

Each takes some 3 GB of downloads and 7 GB of disk; one is removed before the next is made.
"""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.filter.venv_options import venv_options
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify
from ansible_collections.gpulab.node.plugins.module_utils.environments.venv_host import Tool, Venvs
from ansible_collections.gpulab.node.plugins.modules import software_proof, venv_environments
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve
from unit.checks import nodes
from unit.plan.make import TODAY, facts

WISHES = {
    "pytorch": {"pytorch": "2.14", "index": "pypi"},
    "tensorflow": {"tensorflow": "2.21"},
    "jax": {"jax": "0.10"},
}
# JAX tells only the major version, and nothing of its kernels
CUDA = {"pytorch": "13.0", "tensorflow": "12.5", "jax": "13"}
KERNELS = {"pytorch": "ok", "tensorflow": "ok", "jax": "skipped"}

GPUS = ["10de:2330", "10de:2b85"]  # H100 and RTX 5090
SECONDS = 600

pytestmark = pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="what is proven without a driver")


@pytest.fixture(params=WISHES)
def made(request, tmp_path):
    """Return the framework, its plan, and the environment that was made by it."""
    python = "{}.{}".format(*sys.version_info[:2])
    wish = {"name": request.param, "python": python, **WISHES[request.param]}
    known = catalog.load()
    planned = resolve(facts(gpus=GPUS), options.complete({"gpulab_environments": [wish]}), known, TODAY)
    uv = known.uv
    venvs = Venvs(tmp_path, Tool(uv["version"], uv["sha256"][platform.machine()]), {})
    (given,) = venv_options(planned["environments"])
    wanted = venv_environments.wanted(given)
    for prepare in (venvs.fetch_tool, lambda: venvs.lock(wanted), lambda: venvs.make(wanted)):
        argv = prepare()
        if argv:
            subprocess.run(argv, check=True, timeout=3600)
    venvs.finish(wanted)
    yield request.param, planned, tmp_path / wanted.name
    shutil.rmtree(tmp_path)


def test_a_real_cuda_build_is_proven_as_far_as_it_goes_without_a_driver(made):
    framework, planned, link = made
    found = software_proof.attempt(link, SECONDS, gpus=True)
    answer = found["answer"]
    assert (answer["failure"], answer["cpu_matmul"], answer["broken"]) == (None, True, {})
    assert answer["cuda"].startswith(CUDA[framework])
    assert "NVIDIA driver" in answer["gpu_failure"] or "libcuda.so.1" in answer["gpu_failure"]

    node = nodes.healthy("l40s")
    node["nvml"]["gpus"] = []
    node["environments"] = [found]
    results = {one.id: one for one in verify(nodes.node(node, planned))}
    assert results["environments"].severity == "ok"
    assert results["environment-kernels"].severity == KERNELS[framework]
    assert answer["gpu_failure"] in results["environment-gpus"].reason

    library = next(link.resolve().glob("lib/python*/site-packages/nvidia/**/lib/libcufft.so.*"))
    library.unlink()  # libcufftw needs it, and PyTorch itself
    node["environments"] = [software_proof.attempt(link, SECONDS, gpus=True)]
    faults = [one.summary for one in verify(nodes.node(node, planned)) if one.severity == "fail"]
    assert any("libcufft" in fault for fault in faults)
