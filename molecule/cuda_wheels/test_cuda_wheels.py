"""A CUDA toolkit of NVIDIA's wheels, seen from the node: the real nvcc compiles and links for the newest GPUs."""

import json

import pytest
from scenario import each, playbook

CONVERGE = "molecule/cuda_wheels/converge.yml"
FIRST, SECOND = "/usr/local/cuda-13.2", "/usr/local/cuda-13.0"
SOURCE = "#include <thrust/device_vector.h>\n__global__ void nothing() {}\nint main() { nothing<<<1, 1>>>(); }\n"
COMPILE = (
    "nvcc -gencode=arch=compute_120,code=sm_120 --cudart shared -o /tmp/nothing /tmp/nothing.cu && ldd /tmp/nothing"
)
LOGIN = "env --ignore-environment bash --login -c %s"
LEFT = "ls -d /usr/local/cuda* /usr/local/.gpulab* /etc/ld.so.conf.d/gpulab* /etc/profile.d/gpulab-cuda*"


def look(host):
    """Return the paths that a toolkit leaves, where the default one is, and a digest of the compiler."""
    link = "readlink --canonicalize /usr/local/cuda; sha256sum /usr/local/cuda/bin/nvcc"
    return host.run(f"{LEFT}; {link}").stdout.splitlines()


def play(*arguments, **wishes):
    """Apply the role with other wishes than the scenario's; return how much its node changed, and what is there."""
    run = playbook(CONVERGE, *arguments, look=look, **wishes)
    assert run.status == 0, run.output[-4000:]
    ((name, seen),) = run.nodes.items()
    return run.changed[name], seen


@pytest.fixture(scope="session")
def before():
    """Return what the scenario's first run left."""
    ((_name, seen),) = each(look).items()
    return seen


@pytest.fixture(scope="session")
def runs(before):
    """Return the runs by name, in the order in which they happen; the node is bare at the end."""
    made = {"predicted": play("--check", cuda_toolkits=["13.0"]), "switched": play(cuda_toolkits=["13.0"])}
    assert before
    return {**made, "absent": play(cuda_state="absent"), "absent again": play(cuda_state="absent")}


def problem(host, *capabilities):
    options = json.dumps({"toolkits": [{"version": "13.2", "prefix": FIRST}], "compute_capabilities": capabilities})
    facts = host.ansible("gpulab.node.software_proof", options, check=False, become=True)["ansible_facts"]
    return facts["gpulab_cuda_compiled"][0]["problem"]


def test_the_real_nvcc_compiles_for_hopper_and_blackwell(host, before):
    assert FIRST in before
    assert problem(host, "8.0", "9.0", "10.0", "12.0") is None


def test_it_says_which_gpu_it_does_not_know(host, before):
    assert FIRST in before
    assert "compute_70" in problem(host, "7.0")


def test_a_session_finds_it_and_programs_find_its_libraries(host, before):
    assert FIRST in before
    host.check_output("printf %s > /tmp/nothing.cu", SOURCE)
    assert "libcudart.so.13 => /usr/local/cuda/lib64/" in host.check_output(LOGIN, COMPILE)
    assert host.check_output(LOGIN, "echo $CUDA_HOME:$LD_LIBRARY_PATH") == "/usr/local/cuda:"


def test_no_repository_of_nvidia_is_declared(host, before):
    assert FIRST in before
    assert host.run("ls /etc/apt/*/*nvidia-cuda*").rc != 0


def test_the_licence_came_along(host, before):
    assert FIRST in before
    licences = host.check_output(f"ls {FIRST}/gpulab-wheels/*/licenses/License.txt").splitlines()
    assert len(licences) == 5


def test_another_toolkit_takes_its_place_and_check_mode_changes_nothing(runs, before):
    assert runs["predicted"][0] > 0
    assert runs["predicted"][1] == before
    changed, after = runs["switched"]
    assert changed > 0
    assert SECOND in after
    assert FIRST not in after


def test_absent_leaves_nothing(runs):
    changed, after = runs["absent"]
    assert changed > 0
    assert after == ["/usr/local/cuda"]  # what readlink says of a path that does not exist
    assert runs["absent again"][0] == 0
