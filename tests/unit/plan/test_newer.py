"""What is newer than the catalog: on the node, or asked for."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve

from .make import SYSTEMS, TODAY, facts

V100, RTX_5090, RUBIN = "10de:1db6", "10de:2b85", "10de:3002"
TRUST = {"gpulab_trust_newer": True}
OF_NVIDIA = {  # the packages of its repository by platform, without the architecture that RPM has
    "debian-12": ("nvidia-kernel-open-dkms", "nvidia-driver-cuda", "libnvidia-ml1"),
    "ubuntu-24.04": ("nvidia-dkms-open", "libnvidia-compute", "nvidia-headless-no-dkms-open"),
    "rhel-9": ("kmod-nvidia-open-dkms", "nvidia-driver-cuda", "libnvidia-ml"),
}


def running(version, platform="ubuntu-24.04", source="nvidia", names=None, **more):
    """Return the facts of a node that runs this driver from packages."""
    node = facts(platform, **more)
    names = names or OF_NVIDIA[platform]
    node["driver"]["packages"] = [{"name": name, "version": f"{version}-1", "source": source} for name in names]
    node["driver"]["module_on_disk"] = version
    return node


def plan(node, **given):
    return resolve(node, options.complete(given), catalog.load(), TODAY)


def refusal(node, **given):
    with pytest.raises(Refusal) as refused:
        plan(node, **given)
    return refused.value


@pytest.fixture
def unreleased(monkeypatch):
    """Let the catalog know branch 620 by name only."""
    monkeypatch.setitem(catalog.load().branches["620"], "latest", None)


@pytest.mark.usefixtures("unreleased")
@pytest.mark.parametrize("platform", OF_NVIDIA)
def test_a_node_that_runs_a_long_lived_branch_without_a_known_release_keeps_it(platform):
    made = plan(running("620.90.01", platform))
    assert (made["driver"]["branch"], made["driver"]["version"]) == ("620", "620.90.01")
    assert made["driver"]["change"] is None
    assert made["driver"]["conflicting_packages"] == []
    assert "620.90.01 has no security floor" in " ".join(made["warnings"])


def test_a_node_keeps_its_long_lived_branch_that_no_bulletin_names_yet():
    made = plan(running("620.70.06"))
    assert (made["driver"]["branch"], made["driver"]["change"]) == ("620", None)


@pytest.mark.usefixtures("unreleased")
def test_a_branch_without_a_known_release_is_never_chosen():
    """Nobody has seen which release it has: only an operator can name it."""
    for platform in SYSTEMS:
        assert plan(facts(platform))["driver"]["branch"] == "595"
    refused = refusal(facts(), nvidia_driver_branch="620")
    assert (refused.code, "nvidia_driver_version" in refused.remedy) == ("P092", True)
    made = plan(facts(), nvidia_driver_version="620.90.01")
    assert (made["driver"]["branch"], made["driver"]["version"]) == ("620", "620.90.01")
    assert "nvidia-driver-pinning-620.90.01" in " ".join(made["driver"]["packages"] + [made["driver"]["pin_package"]])


def test_a_node_that_runs_a_branch_newer_than_the_catalog_is_refused_with_the_way_on():
    node = running("650.20.01")
    refused = refusal(node)
    assert refused.code == "P090"
    assert "gpulab_trust_newer: true" in refused.remedy
    made = plan(node, **TRUST)
    assert (made["driver"]["branch"], made["driver"]["version"]) == ("650", "650.20.01")
    assert made["driver"]["change"] is None
    assert any(line.startswith("Driver branch 650 is newer than the catalog") for line in made["warnings"])
    assert plan(node, nvidia_driver_branch="595")["driver"]["branch"] == "595"  # the other way on


@pytest.mark.usefixtures("unreleased")
def test_a_branch_that_the_distribution_has_by_now_is_kept_where_newer_things_are_trusted():
    names = ("nvidia-headless-no-dkms-620-server-open", "nvidia-utils-620-server")
    node = running("620.90.01", source="distribution", names=names)
    refused = refusal(node, nvidia_driver_source="distribution")
    assert refused.code == "P013"
    assert "gpulab_trust_newer: true" in refused.remedy
    made = plan(node, nvidia_driver_source="distribution", **TRUST)
    assert made["driver"]["packages"][0] == "nvidia-headless-no-dkms-620-server-open"
    assert made["driver"]["change"] is None


def test_debian_has_one_release_of_one_branch_whatever_is_trusted():
    refused = refusal(facts(), nvidia_driver_source="distribution", nvidia_driver_version="650.20.01", **TRUST)
    assert refused.code == "P013"
    assert "gpulab_trust_newer" not in refused.remedy


def test_a_branch_that_no_source_of_the_node_has_is_refused_with_a_remedy():
    node = facts("debian-13")
    node["driver"]["packages"] = [{"name": "nvidia-driver", "version": "550.163.01-2", "source": "distribution"}]
    requested = {
        "nvidia_driver_source": "distribution",
        "nvidia_driver_branch": "570",
        "gpulab_allow_branches": ["570"],
    }
    refused = refusal(node, **requested)
    assert refused.code == "P013"
    assert refused.remedy == "It has 550. Leave nvidia_driver_branch unset."


def test_trust_does_not_make_a_driver_serve_a_gpu_that_it_dropped():
    assert refusal(facts(gpus=[V100]), nvidia_driver_version="650.20.01", **TRUST).code == "P010"
    assert plan(running("650.20.01", gpus=[V100]), **TRUST)["driver"]["branch"] == "580"


def test_trust_does_not_bring_back_what_is_gone():
    """No proprietary modules since 615."""
    given = {"nvidia_driver_version": "650.20.01", "nvidia_driver_kernel_modules": "proprietary"}
    assert refusal(facts(), **given, **TRUST).code == "P012"


def test_the_driver_of_a_node_is_replaced_where_its_branch_is_between_known_ones():
    node = running("600.10.01", source="distribution", names=("nvidia-utils-600-server",))
    given = {"nvidia_driver_source": "distribution", "nvidia_driver_remove_conflicting": True}
    assert plan(node, **given, **TRUST)["driver"]["branch"] == "595"


@pytest.mark.parametrize("branch", ["599", "600", "480"])
def test_a_branch_between_known_ones_is_unknown_in_kind(branch):
    refused = refusal(facts(), nvidia_driver_branch=branch, **TRUST)
    assert refused.code == "P007"
    assert "595" in refused.remedy
    assert "535" not in refused.remedy  # its life has ended: that way would end in another refusal


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"cuda_toolkits": ["13.9"]}, "CUDA 13.9"),
        ({"cudnn_version": "9.40.0", "cuda_toolkits": ["13.0"]}, "cuDNN 9.40.0"),
        ({"nccl_version": "2.40.1"}, "NCCL 2.40.1"),
        ({"tensorrt_version": "11.9.0"}, "TensorRT 11.9.0"),
        ({"gpulab_environments": [{"name": "lab", "pytorch": "2.14.9"}]}, "PyTorch 2.14.9"),
        ({"gpulab_environments": [{"name": "lab", "jax": "0.9.9"}]}, "JAX 0.9.9"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_continues_what_the_catalog_knows_is_taken_where_it_is_trusted(given, what):
    refused = refusal(facts(), **given)
    assert refused.code == "P091"
    assert "gpulab_trust_newer: true" in refused.remedy
    made = plan(facts(), **given, **TRUST)
    assert [line for line in made["warnings"] if line.startswith(f"{what} is newer than the catalog")]


def test_a_trusted_toolkit_is_installed_by_its_own_name_and_is_not_said_to_run_in_full():
    made = plan(facts(), cuda_toolkits=["13.9"], **TRUST)
    (toolkit,) = made["cuda"]["toolkits"]
    assert toolkit["packages"][0] == "cuda-toolkit-13-9"
    assert toolkit["full_features"] is False


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"cuda_toolkits": ["14.0"]}, "P022"),
        ({"cuda_toolkits": ["12.7"]}, "P022"),
        ({"cudnn_version": "10.0.0"}, "P028"),
        ({"tensorrt_version": "12.0.0"}, "P028"),
        ({"gpulab_environments": [{"name": "lab", "pytorch": "2.99"}]}, "P033"),
        ({"gpulab_environments": [{"name": "lab", "pytorch": "2.99.0"}]}, "P033"),
    ],
)
def test_what_is_unknown_in_kind_is_refused_even_so(given, code):
    """Another major may drop GPUs and drivers; of another minor of a framework, nobody knows the CUDA builds."""
    assert refusal(facts(), **given, **TRUST).code == code


@pytest.mark.usefixtures("unreleased")
def test_a_gpu_of_a_family_that_no_known_release_drives_names_what_is_missing():
    """Rubin has PCI ids that were taken for Blackwell's."""
    node = facts("ubuntu-24.04", gpus=[RUBIN])
    refused = refusal(node)
    assert refused.code == "P092"
    assert "620" in refused.cause
    made = plan(node, nvidia_driver_version="620.90.01")
    assert made["driver"]["kernel_modules"] == "open"
    assert made["cuda"]["default"] in {"13.4", "13.5"}
    assert "Rubin" in " ".join(made["warnings"])


@pytest.mark.usefixtures("unreleased")
def test_the_catalog_itself_is_not_changed_by_a_case():
    before = (list(catalog.load().branches), list(catalog.load().toolkits))
    plan(running("650.20.01"), cuda_toolkits=["13.9"], **TRUST)
    assert (list(catalog.load().branches), list(catalog.load().toolkits)) == before
    assert catalog.load().branches["620"]["latest"] is None


def test_a_toolkit_of_which_no_table_of_drivers_was_seen_runs_in_full_on_the_branch_beside_it():
    newest = plan(facts("ubuntu-24.04"), nvidia_driver_version="620.90.01", cuda_toolkits=["13.5"])
    assert newest["cuda"]["toolkits"][0]["full_features"] is True
    older = plan(facts("ubuntu-24.04"), cuda_toolkits=["13.5"])
    assert older["cuda"]["toolkits"][0]["full_features"] is False
    assert "needs driver branch 620" in " ".join(older["warnings"])


def test_pytorch_has_wheels_for_the_python_of_debian_13_since_2_5():
    environment = {"name": "lab", "pytorch": "2.5", "index": "cpu"}
    made = plan(facts("debian-13"), gpulab_environments=[environment])
    assert made["environments"][0]["python"] == "3.13"
