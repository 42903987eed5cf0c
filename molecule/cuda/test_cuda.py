"""CUDA toolkits side by side, changed and taken away, seen from the nodes."""

import json
import re
from dataclasses import dataclass

import pytest
from scenario import CONVERGE, Run, each, everywhere, playbook

REPOSITORY = {"/etc/apt/keyrings/gpulab-nvidia-cuda.asc", "/etc/apt/sources.list.d/gpulab-nvidia-cuda.sources"}
PREFERENCES = "/etc/apt/preferences.d/zz-gpulab-nvidia-cuda.pref"
PROFILE = "/etc/profile.d/gpulab-cuda.sh"
NO_LIBRARIES = {"cudnn_version": None, "tensorrt_version": None}
ONE_TOOLKIT = {**NO_LIBRARIES, "cuda_toolkits": ["13.2"], "cuda_default": None}
NO_TOOLKIT = {**NO_LIBRARIES, "cuda_toolkits": [], "cuda_default": None, "nccl_version": None}
# A toolkit that needs a newer driver than Debian's: driver 550 of Debian 13 takes cuda-compat of 13.1, not of 13.2.
FORWARD = {**NO_LIBRARIES, "nccl_version": None, "cuda_compat": True, "cuda_default": None, "cuda_toolkits": ["13.1"]}
COMPAT, STARTER, PROOF = "/usr/local/cuda-13.1/compat", "/usr/local/bin/cuda-compat", "molecule/cuda/proof.yml"
DATA_CENTRE, CONSUMER = "debian13", "debian12"  # the nodes with an A100 and with a GeForce
ONE_NODE = f"--limit={DATA_CENTRE}"
DISTRIBUTIONS_DRIVER = {"nvidia_driver_source": "distribution"}


# A toolkit of a .run file with what it told the linker, and a package: what somebody else put on the node.
STRAY, STRAY_SETTING, STRAY_PACKAGE = "/usr/local/cuda-11.8", "/etc/ld.so.conf.d/cuda-11-8.conf", "cuda-cudart-13-0"
STRAYS = {"cuda_remove_strays": [STRAY, STRAY_SETTING, STRAY_PACKAGE]}
STRAY_FILE = f"{STRAY}/lib64/libcudart.so.11.0"


@dataclass(frozen=True)
class Node:
    """What a node shows: versions of packages, files, where the dynamic linker and a login session look for CUDA.

    started is where a program looks that was started with cuda-compat, without and with a place of its own.
    """

    packages: dict[str, str]
    files: dict[str, str]
    alternative: str
    linker: list[str]
    session: str
    started: list[str]
    holds: set[str]


def look(host):
    listing = host.check_output("dpkg-query --show --showformat='${db:Status-Status} ${Package} ${Version}\n'")
    rows = [line.split(" ") for line in listing.splitlines()]
    paths = "/etc/apt/*/*gpulab* /etc/profile.d/gpulab* /etc/ld.so.conf.d/* /usr/local/cuda* /usr/local/bin/cuda*"
    show = 'test ! -e "$path" || echo "== $path"; test ! -f "$path" || cat "$path"'
    texts = host.run(f"for path in {paths}; do {show}; done")
    command = "readlink --canonicalize $(command -v nvcc); echo $CUDA_HOME:$LD_LIBRARY_PATH"
    started = (
        "cuda-compat 13.1 printenv LD_LIBRARY_PATH; LD_LIBRARY_PATH=/own cuda-compat 13.1 printenv LD_LIBRARY_PATH"
    )
    return Node(
        packages={name: version for status, name, version in rows if status == "installed"},
        files=dict(text.partition("\n")[::2] for text in texts.stdout.split("== ")[1:]),
        alternative=host.run("update-alternatives --query cuda").stdout,
        linker=re.findall(r"libstandin\.so\.(\S+) .*=> /usr/local/cuda/", host.check_output("ldconfig -p")),
        started=host.run(started).stdout.split(),
        session=host.run("env --ignore-environment bash --login -c %s", command).stdout,
        holds=set(host.check_output("apt-mark showhold").split()),
    )


def play(*arguments, **wishes):
    """Apply the role with other wishes than the scenario's."""
    run = playbook(CONVERGE, *arguments, look=look, **wishes)
    assert run.status == 0, run.output[-4000:]
    return run


def compiled(host):
    """Return what the module that the role ends with finds of the node's toolkits."""
    toolkits = [{"version": version, "prefix": f"/usr/local/cuda-{version}"} for version in ("13.1", "13.2")]
    options = json.dumps({"toolkits": toolkits, "compute_capabilities": ["8.9"]})
    facts = host.ansible("gpulab.node.software_proof", options, check=False, become=True)["ansible_facts"]
    return [record["problem"] for record in facts["gpulab_cuda_compiled"]]


@pytest.fixture(scope="session")
def compiles():
    """Return what is found of each node's toolkits by name: as they are, and with one that does not know the GPU."""
    nvcc, whole = "/usr/local/cuda-13.2/bin/nvcc", each(compiled)
    everywhere(f"sed --in-place=.whole s/sm_89/sm_00/ {nvcc}")
    partial = each(compiled)
    everywhere(f"mv {nvcc}.whole {nvcc}")
    return {name: [whole[name], partial[name]] for name in whole}


@pytest.fixture(scope="session")
def story(compiles):
    """Return the runs by name, in the order in which they happen; at their end no toolkit is there to compile."""
    assert compiles
    runs = {"first": Run(0, "", each(look))}
    runs["predicted"] = play("--check", cuda_default="13.2")
    runs["switched"] = play(cuda_default="13.2")
    runs["switched again"] = play(cuda_default="13.2")
    everywhere("apt-get install --yes cuda-toolkit-13-0")  # somebody's own, which is not gpulab's to take
    runs["fewer"] = play(**ONE_TOOLKIT)
    runs["fewer again"] = play(**ONE_TOOLKIT)
    runs["distribution's driver"] = play(**DISTRIBUTIONS_DRIVER, **NO_TOOLKIT)
    runs["back"] = play()
    everywhere("apt-get purge --yes --auto-remove cuda-toolkit-13-0")
    runs["absent"] = play(cuda_state="absent")
    runs["absent again"] = play(cuda_state="absent")
    runs["predicted on a bare node"] = play("--check")
    return runs


@pytest.fixture
def name(host):
    return host.backend.get_hostname()


@pytest.fixture
def seen(story, name):
    """Return a function from a run's name to what it left on this node."""
    return lambda run: story[run].nodes[name]


@pytest.fixture
def changed(story, name):
    """Return a function from a run's name to the number of its changes on this node."""
    return lambda run: story[run].changed[name]


def leads_to(node, version):
    """Tell whether sessions and the dynamic linker find this toolkit, and no other."""
    return (node.linker, node.session) == ([version], f"/usr/local/cuda-{version}/bin/nvcc\n/usr/local/cuda:\n")


def test_every_toolkit_compiles(compiles, name):
    assert compiles[name][0] == [None, None]


def test_an_nvcc_that_does_not_know_the_gpu_is_found(compiles, name):
    first, second = compiles[name][1]
    assert first is None
    assert "Unsupported gpu architecture" in second


def test_toolkits_are_side_by_side_and_one_is_the_default(seen):
    assert {"cuda-toolkit-13-1", "cuda-toolkit-13-2"} <= set(seen("first").packages)
    assert leads_to(seen("first"), "13.1")


def test_libraries_are_those_of_the_default_toolkit(seen):
    packages = seen("first").packages
    assert packages["libnccl2"] == packages["libnccl-dev"] == "2.32.3-1+cuda13.1"
    assert packages["libcudnn9-cuda-13"] == "9.20.0.48-1"
    assert "+cuda13." in packages["libnvinfer10"]  # built once for a major


def test_an_upgrade_leaves_the_libraries_to_their_toolkit(seen):
    """The repository has a newer build of NCCL, for CUDA 13.2."""
    libraries = {"libcudnn9-cuda-13", "libcudnn9-dev-cuda-13", "libnccl2", "libnccl-dev", "libnvinfer10"}
    assert seen("first").holds >= libraries
    assert seen("fewer").holds & libraries == {"libnccl2", "libnccl-dev"}
    assert not seen("absent").holds & libraries


def test_check_mode_tells_what_would_change_and_changes_nothing(seen, changed):
    assert changed("predicted") == 2  # NCCL of the other toolkit, and the link
    assert seen("predicted") == seen("first")


def test_the_default_is_switched(seen, changed):
    assert leads_to(seen("switched"), "13.2")
    assert seen("switched").packages["libnccl2"] == "2.32.3-1+cuda13.2"
    assert changed("switched again") == 0


def test_what_is_no_longer_requested_goes_with_what_came_along(seen, changed):
    gone = {"cuda-toolkit-13-1", "cuda-nvcc-13-1", "cuda-cudart-13-1", "libcudnn9-cuda-13", "libnvinfer10"}
    stays = {"cuda-toolkit-13-0", "cuda-toolkit-13-2", "cuda-nvcc-13-2", "cuda-toolkit-config-common", "libnccl2"}
    assert not gone & set(seen("fewer").packages)
    assert stays <= set(seen("fewer").packages)
    assert "/usr/local/cuda-13.1" not in seen("fewer").files
    assert leads_to(seen("fewer"), "13.2")
    assert changed("fewer again") == 0


def test_the_repository_brings_the_driver_only_where_it_is_planned_from_there(seen):
    assert set(seen("first").files) >= REPOSITORY
    assert "libcuda1" in seen("first").files[PREFERENCES]
    assert not {*REPOSITORY, PREFERENCES, PROFILE} & set(seen("distribution's driver").files)


def test_absent_leaves_the_node_as_it_was(host, seen, changed):
    bare = set(host.file("/var/lib/packages-before").content_string.splitlines())
    assert set(seen("absent").packages) == bare
    kept = {path for path in seen("absent").files if "cuda" in path}
    assert kept <= {*REPOSITORY, PREFERENCES}  # the driver's, which is planned from there
    assert seen("absent").alternative == ""
    assert changed("absent again") == 0


def test_check_mode_on_a_bare_node_changes_nothing(seen, changed):
    assert changed("predicted on a bare node") > 0
    assert seen("predicted on a bare node") == seen("absent again")


@pytest.fixture(scope="session")
def forward():
    """Return the runs with a toolkit that is newer than the driver, by name; they begin and end on bare nodes."""
    runs = {"before": Run(0, "", each(look))}
    runs["brought"] = playbook(CONVERGE, look=look, **FORWARD, **DISTRIBUTIONS_DRIVER)
    runs["brought again"] = play(ONE_NODE, **FORWARD, **DISTRIBUTIONS_DRIVER)
    runs["proven"] = playbook(PROOF, ONE_NODE, **FORWARD, **DISTRIBUTIONS_DRIVER)
    libcuda = f"{COMPAT}/libcuda.so.1"
    everywhere(f"test ! -e {libcuda} || mv {libcuda} {libcuda}.away")
    runs["not proven"] = playbook(PROOF, ONE_NODE, **FORWARD, **DISTRIBUTIONS_DRIVER)
    everywhere(f"test ! -e {libcuda}.away || mv {libcuda}.away {libcuda}")
    runs["not needed"] = play(ONE_NODE, **FORWARD)
    runs["absent"] = play(ONE_NODE, cuda_state="absent")
    return runs


def test_cuda_compat_is_for_the_programs_that_ask_for_it(forward):
    node = forward["brought"].nodes[DATA_CENTRE]
    assert node.packages["cuda-compat-13-1"] == "590.48.01-1"
    assert node.started == [COMPAT, f"{COMPAT}:/own"]
    assert node.session.endswith("/usr/local/cuda:\n")  # no LD_LIBRARY_PATH
    assert not [path for path in node.files if path.startswith("/etc/ld.so.conf.d") and "compat" in node.files[path]]
    assert forward["brought again"].changed[DATA_CENTRE] == 0


def test_cuda_compat_is_refused_on_a_board_that_is_not_for_data_centres(forward):
    refused = forward["brought"]
    assert refused.status != 0
    assert "GPULAB-P077" in refused.output
    assert "4090 is not one" in " ".join(refused.output.split())
    assert refused.nodes[CONSUMER] == forward["before"].nodes[CONSUMER]


def test_cuda_compat_is_looked_for_by_the_proof(forward):
    assert forward["proven"].status == 0
    assert forward["not proven"].status != 0
    assert "cuda-compat of CUDA 13.1 is not installed" in " ".join(forward["not proven"].output.split())


def test_cuda_compat_goes_where_the_driver_needs_it_no_longer(forward):
    before, after = (forward[run].nodes[DATA_CENTRE] for run in ("brought again", "not needed"))
    assert {"cuda-compat-13-1", "cuda-toolkit-13-1"} <= set(before.packages)
    assert {"cuda-compat-13-1", "cuda-toolkit-13-1"} & set(after.packages) == {"cuda-toolkit-13-1"}
    assert (STARTER in before.files, STARTER in after.files, after.started) == (True, False, [])
    assert "cuda-toolkit-13-1" not in forward["absent"].nodes[DATA_CENTRE].packages


@pytest.fixture(scope="session")
def strays():
    """Return the runs that take strays away, by name, together with the planned toolkits of one node."""
    play(ONE_NODE)
    everywhere(f"apt-get install --yes {STRAY_PACKAGE}; mkdir --parents {STRAY}/bin {STRAY}/lib64")
    everywhere(f"touch {STRAY}/bin/nvcc {STRAY_FILE}; echo {STRAY}/lib64 > {STRAY_SETTING}")
    everywhere(f"systemd-run --unit=user tail --follow {STRAY_FILE}")
    runs = {"before": Run(0, "", each(look))}
    runs["in use"] = playbook(CONVERGE, ONE_NODE, look=look, **NO_TOOLKIT, **STRAYS)
    everywhere("systemctl stop user")
    runs["predicted"] = play(ONE_NODE, "--check", **NO_TOOLKIT, **STRAYS)
    runs["gone"] = play(ONE_NODE, **NO_TOOLKIT, **STRAYS)
    runs["gone again"] = play(ONE_NODE, **NO_TOOLKIT, **STRAYS)
    runs["back"] = play(ONE_NODE, cuda_state="absent", **STRAYS)
    return runs


def strays_of(run):
    node = run.nodes[DATA_CENTRE]
    return {name for name in (STRAY, STRAY_SETTING, STRAY_PACKAGE) if name in node.files or name in node.packages}


def test_a_stray_in_use_stays_and_its_user_is_named(strays):
    assert strays["in use"].status != 0
    assert f"GPULAB-C007 {STRAY} is in use by tail" in " ".join(strays["in use"].output.replace(":", "").split())
    assert strays_of(strays["in use"]) == {STRAY, STRAY_SETTING, STRAY_PACKAGE}


def test_strays_go_by_their_names_as_predicted(strays):
    assert strays["predicted"].changed[DATA_CENTRE] > 0
    assert strays["predicted"].nodes[DATA_CENTRE] == strays["before"].nodes[DATA_CENTRE]
    assert strays_of(strays["gone"]) == set()
    assert strays["gone again"].changed[DATA_CENTRE] == 0


def test_what_was_moved_aside_comes_back_with_the_removal(strays):
    assert strays_of(strays["back"]) == {STRAY, STRAY_SETTING}
    assert (
        strays["back"].nodes[DATA_CENTRE].files[STRAY_SETTING]
        == strays["before"].nodes[DATA_CENTRE].files[STRAY_SETTING]
    )
