"""What is planned for boards that nobody described by hand: they have a name, a class and what NVIDIA's lists say."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import gpus, resolve

from .make import TODAY, facts

sys.path.insert(0, str(Path(__file__).parents[2]))
import board_list

KNOWN = catalog.load()
L40, A5000, PRO_5000, GB10, GB200, GH200, H800, A16, A10G, H20_3E = (
    f"10de:{device}" for device in ("26b5", "2231", "2bb3", "2e12", "2941", "2342", "2324", "25b6", "2237", "232c")
)


def plan(node, today=TODAY, **given):
    return resolve(node, options.complete(given), KNOWN, today)


@pytest.mark.parametrize("device", [board["pci_id"] for board in KNOWN.read("boards")["boards"]])
def test_every_board_of_the_lists_has_what_a_plan_and_a_proof_ask_for(device):
    board, profile = KNOWN.gpus[device], KNOWN.profiles[device]
    assert board["name"]
    assert board["class"] in ("consumer", "workstation", "data-center")
    assert board["form"] in ("pcie", "sxm", "superchip")
    architecture = KNOWN.architectures[board["architecture"]]
    assert board["compute_capability"] in architecture["compute_capabilities"]
    assert set(board["kernel_modules"]) <= set(architecture["kernel_modules"])
    assert {"ecc", "mig", "nvlink", "power_w", "pcie", "vram_gib"} <= set(board)
    assert profile["name"] == board["name"]


def test_the_lists_are_as_long_as_nvidias():
    assert len(KNOWN.read("boards")["boards"]) >= 448


@pytest.mark.parametrize("device", [L40, A16, A10G, H800, H20_3E])
def test_forward_compatibility_is_planned_on_every_board_of_data_centres(device):
    made = plan(facts(gpus=[device]), nvidia_driver_branch="580", cuda_compat=True, cuda_toolkits=["13.2"])
    assert made["cuda"]["toolkits"][0]["compat"]


def test_forward_compatibility_is_for_no_workstations_board():
    with pytest.raises(Refusal) as refused:
        plan(facts(gpus=[A5000]), nvidia_driver_branch="580", cuda_compat=True, cuda_toolkits=["13.2"])
    assert (refused.value.code, "NVIDIA RTX A5000 is not one" in str(refused.value)) == ("P077", True)


@pytest.mark.parametrize(
    ("device", "name"), [(A5000, "NVIDIA RTX A5000"), (PRO_5000, "RTX PRO 5000"), (H800, "NVIDIA H800")]
)
def test_a_board_of_the_lists_is_planned_by_name_and_without_a_warning(device, name):
    made = plan(facts(gpus=[device]), nvidia_driver_kernel_modules="open")
    assert made["warnings"] == []
    assert name in KNOWN.gpus[device]["name"]


def test_an_id_that_no_list_has_is_still_planned_by_its_range_and_said():
    assert any("no record of GPU 10de:26fe" in line for line in plan(facts(gpus=["10de:26fe"]))["warnings"])


@pytest.mark.parametrize("device", [GB10, "10de:2342", "10de:2941", "10de:31c2"])
def test_pytorch_on_aarch64_is_confirmed_where_the_wheels_of_pypi_are_built_for_cuda(device):
    node = facts("ubuntu-24.04", [device], architecture="aarch64")
    made = plan(node, gpulab_environments=[{"name": "lab", "pytorch": "2.13"}])
    assert not any("x86_64 only" in line for line in made["warnings"])
    assert made["environments"][0]["cuda"]


def test_a_framework_whose_wheels_of_aarch64_nobody_saw_is_still_said():
    node = facts("ubuntu-24.04", [GH200], architecture="aarch64")
    made = plan(node, gpulab_environments=[{"name": "lab", "pytorch": "2.9"}])
    assert any("x86_64 only" in line for line in made["warnings"])


@pytest.mark.parametrize(
    "wish", [{"tensorflow": "2.21"}, {"tensorflow": "2.14"}, {"pytorch": "2.10", "index": "pypi"}], ids=str
)
def test_wheels_of_aarch64_without_cuda_are_refused_and_those_without_a_gpu_are_not(wish):
    node = facts("ubuntu-24.04", [GH200], architecture="aarch64")
    with pytest.raises(Refusal) as refused:
        plan(node, gpulab_environments=[{"name": "lab", **wish}])
    assert refused.value.code == "P035"
    assert "its wheel for aarch64 has no CUDA" in refused.value.cause
    assert plan(facts("ubuntu-24.04"), gpulab_environments=[{"name": "lab", **wish}])["environments"][0]["cuda"]
    alone = plan(node, gpulab_environments=[{"name": "lab", **wish, "index": "cpu"}])
    assert alone["environments"][0]["cuda"] is None


@pytest.mark.parametrize(("system", "has"), [("debian-12", "535"), ("debian-13", "550")])
@pytest.mark.parametrize(("device", "needs"), [(GB10, "580"), (GB200, "570")])
def test_blackwell_gets_nvidias_driver_on_debian_whose_own_is_too_old(system, has, device, needs):
    node = facts(system, [device], architecture="aarch64")
    driver = plan(node)["driver"]
    assert (driver["source"], driver["branch"], driver["kernel_modules"]) == ("nvidia", "595", "open")
    assert driver["repository"]["url"].endswith(f"/{system.replace('-', '')}/sbsa/")
    with pytest.raises(Refusal) as refused:
        plan(node, nvidia_driver_source="distribution", gpulab_allow_branches=[has])
    assert refused.value.code == "P014"
    assert f"which needs {needs} or newer" in refused.value.cause
    assert "nvidia_driver_source: nvidia" in refused.value.remedy


@pytest.mark.parametrize(("architecture", "planned"), [("x86_64", True), ("aarch64", False)])
def test_debian_12_has_no_keys_library_of_the_driver_for_aarch64(architecture, planned):
    node = facts("debian-12", [GH200], architecture=architecture)
    driver = plan(node, nvidia_driver_source="distribution", nvidia_driver_kernel_modules="open")["driver"]
    assert ("libnvidia-pkcs11-openssl3=535.261.03-1" in driver["packages"]) is planned
    assert "nvidia-open-kernel-dkms=535.261.03-1" in driver["packages"]


SPARK = [  # what DGX OS 7 brings: the desktops' packages of Ubuntu, with modules that Canonical signed
    *(f"libnvidia-{one}-580" for one in ("cfg1", "common", "compute", "decode", "encode", "extra", "fbc1", "gl")),
    *("nvidia-compute-utils-580", "nvidia-driver-580-open", "nvidia-kernel-common-580"),
    *("nvidia-kernel-source-580-open", "nvidia-utils-580", "xserver-xorg-video-nvidia-580"),
]


@pytest.mark.parametrize(
    ("kernel", "version", "of_modules"),
    [
        ("6.11.0-1016-nvidia", "580.95.05", "6.11.0-1016.16+1000"),
        ("6.17.0-1021-nvidia", "580.159.03", "6.17.0-1021.21"),
        ("7.0.0-1019-nvidia", "580.178.04", "7.0.0-1019.19~24.04.2"),
    ],
)
def test_the_driver_that_comes_with_dgx_os_stays_on_a_spark(kernel, version, of_modules):
    node = facts("ubuntu-24.04", [GB10], architecture="aarch64", running=kernel)
    modules = ("linux-modules-nvidia-580-open-nvidia-hwe-24.04", f"linux-modules-nvidia-580-open-{kernel}")
    versions = dict.fromkeys([*SPARK, f"nvidia-firmware-580-{version}"], f"{version}-0ubuntu0.24.04.1")
    versions |= dict.fromkeys(modules, of_modules)
    node["driver"].update(
        packages=[{"name": name, "version": one, "source": "distribution"} for name, one in versions.items()],
        library=version,
        module_on_disk=version,
    )
    node["kernels"][0].update(nvidia_module_flavour="open", next_boot=True)
    driver = plan(node)["driver"]
    assert (driver["source"], driver["branch"], driver["version"]) == ("distribution", "580", None)
    assert (driver["change"], driver["upgrade"]) == (None, False)
    assert driver["conflicting_packages"] == driver["remove_packages"] == driver["build_packages"] == []
    assert "linux-modules-nvidia-580-open-nvidia-hwe-24.04" in driver["packages"]
    assert "The node has the desktop driver of Ubuntu 24.04, which stays." in driver["because"]


@pytest.mark.parametrize("kernel", ["5.15.148-tegra", "6.8.12-tegra"])
def test_orin_and_thor_are_refused_by_their_kernel(kernel):
    with pytest.raises(Refusal) as refused:
        plan(facts("ubuntu-24.04", [], architecture="aarch64", running=kernel))
    assert refused.value.code == "H084"


@pytest.mark.parametrize(("days", "said"), [(90, False), (91, True)])
def test_a_catalog_that_is_older_than_ninety_days_says_so(days, said):
    oldest = min(date.fromisoformat(KNOWN.read(name)["as_of"]) for name in ("driver_branches", "cuda_toolkits"))
    made = plan(facts(), date.fromordinal(oldest.toordinal() + days), nvidia_driver_branch="580")
    assert any("older than 90 days" in line for line in made["warnings"]) == said


README = """
| Product Name | PCI ID |
| ------------ | ------ |
| NVIDIA GeForce RTX 9090                                 | 3F00           |
| NVIDIA RTX Z5000                                        | 3F01 1028 147E |
| NVIDIA RTX Z5000                                        | 3F01 10DE 147E |
| NVIDIA H900                                             | 3F02 10DE 17A6 |
"""
PCI_IDS = """10dd  Somebody
\t3f00  GZ999 [Wrong]
10de  NVIDIA Corporation
\t3f00  GB202 [GeForce RTX 9090]
\t\t1028 0000  A maker's
\t3f01  GB203GLM [RTX Z5000 Mobile]
\t3f02  GH100 [H900]
\t3f03  GA107BM / GN20-P0-R [GeForce]
10df  Emulex
\t3f00  GZ998 [Wrong]
"""


def test_a_table_of_nvidia_is_read():
    assert board_list.of_readme(README) == {
        "3f00": {"NVIDIA GeForce RTX 9090": {""}},
        "3f01": {"NVIDIA RTX Z5000": {"1028", "10de"}},
        "3f02": {"NVIDIA H900": {"10de"}},
    }


def test_the_chip_is_read_without_the_letters_of_its_kind():
    chips = {device: chip for device, (chip, _name) in board_list.of_pci_ids(PCI_IDS).items()}
    assert chips == {"3f00": "GB202", "3f01": "GB203", "3f02": "GH100", "3f03": "GA107"}


@pytest.mark.parametrize(
    ("name", "makers", "kind"),
    [
        ("NVIDIA GeForce RTX 4090", {""}, "consumer"),
        ("NVIDIA RTX A5000", {"1028", "10de"}, "workstation"),
        ("NVIDIA RTX 6000D", {"10de"}, "data-center"),
        ("NVIDIA RTX PRO 4500 Blackwell Server Edition", {"10de"}, "data-center"),
        ("NVIDIA A800 40GB Active", {"1028", "103c", "10de"}, "workstation"),
        ("NVIDIA L40", {"10de"}, "data-center"),
        ("Tesla M60", {""}, "data-center"),
        ("Quadro T2000", {""}, "workstation"),
        ("NVIDIA CMP 90HX", {""}, "consumer"),
        ("NVIDIA GB10", {"10de"}, "workstation"),
    ],
)
def test_the_class_is_read_from_the_name_and_from_who_sells_it(name, makers, kind):
    assert board_list.class_of(name, makers) == kind


@pytest.mark.parametrize(
    ("name", "chip", "form"),
    [
        ("NVIDIA H800", "GH100", "sxm"),
        ("NVIDIA H800 PCIe", "GH100", "pcie"),
        ("NVIDIA H800 NVL", "GH100", "pcie"),
        ("NVIDIA H20 NVL16", "GH100", "sxm"),
        ("NVIDIA GH200 480GB", "GH100", "superchip"),
        ("NVIDIA A800-SXM4-40GB", "GA100", "sxm"),
        ("NVIDIA AX800", "GA100", "pcie"),
        ("NVIDIA RTX A6000", "GA102", "pcie"),
        ("NVIDIA GB300", "GB110", "superchip"),
    ],
)
def test_the_form_is_read_from_the_name(name, chip, form):
    assert board_list.form_of(name, chip) == form


def test_a_first_driver_is_told_where_it_is_not_the_first_of_its_branch():
    lists = {
        "515.48.07": {"a"},
        "535.43.02": {"a"},
        "535.104.05": {"a", "b"},
        "545.23.06": {"a"},
        "550.40.07": {"a"},
        "550.54.14": {"a", "b"},
        "560.28.03": {"a", "b"},
    }
    assert board_list.first_drivers(lists, "a") == {}
    assert board_list.first_drivers(lists, "b") == {"535": "535.104.05", "545": None, "550": "550.54.14"}
    assert board_list.first_drivers(lists, "c") == {}


@pytest.mark.parametrize(
    ("branch", "version", "served"),
    [
        ("535", "535.154.05", False),
        ("535", "535.161.07", True),
        ("545", None, False),
        ("550", "550.40.07", False),
        ("580", "580.65.06", True),
        ("530", None, False),
    ],
)
def test_a_branch_that_never_listed_a_board_does_not_serve_it(branch, version, served):
    (found,), _warnings = gpus.identify([{"device": "10de:2329"}], KNOWN)
    assert found.served_by(branch, version) is served


def test_a_branch_that_no_bulletin_names_yet_is_taken_only_where_it_is_requested():
    assert plan(facts(gpus=["10de:2330"]))["driver"]["branch"] == "595"
    made = plan(facts(gpus=["10de:2330"]), nvidia_driver_branch="620", cuda_toolkits=["13.5"])
    assert (made["driver"]["version"], made["warnings"]) == ("620.70.06", [])
