"""Each rule of the resolver by a node that meets it: what is planned, or which refusal and what it names."""

from __future__ import annotations

import copy
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import conflicts, reasons, resolve
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.case import Case
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import CODES

from unit import machines
from unit.shapes import misfits

from .make import TODAY, facts, kernel

ROOT = Path(__file__).parents[3]
GTX_1080_TI, V100, T4, H100, RTX_5090, GH200, B200, B300 = (
    f"10de:{device}" for device in ("1b06", "1db6", "1eb8", "2330", "2b85", "2342", "2901", "3182")
)
SHA256 = "a" * 64
OF_RUNFILE = {"nvidia_driver_source": "runfile", "nvidia_driver_runfile_sha256": SHA256}
ALLOWED = {"nvidia_driver_source": "distribution"}  # its branches are accepted with it
ENROLMENT = {"secure_boot_mok_password": "for-this-once"}
UNENROLLED = facts(secure_boot="enabled", mok_enrolled=False, mok_pending=False)
AT_THE_CONSOLE = facts(secure_boot="enabled", mok_enrolled=False, mok_pending=True)
ELREPO = "6.12.1-1.el9.elrepo.x86_64"
HEADERS_ONLY = kernel("6.1.0-51-amd64", installed=False)
BROKEN_12 = kernel("6.1.0-56-amd64", markers=["pci_exclude_bars"])
BROKEN_13 = kernel("6.12.117+deb13-amd64", markers=["pci_exclude_bars"])


@pytest.mark.parametrize(("word", "meant"), [("false", False), ("True", True), (False, False), (None, False)])
def test_a_boolean_may_be_a_word_as_the_command_line_gives_it(word, meant):
    assert options.complete({"cuda_compat": word})["cuda_compat"] is meant


LENT = {"address": "0000:65:00.0", "device": T4, "driver": "vfio-pci"}
AMD = {"address": "0000:05:00.0", "device": "1002:74a1", "maker": "AMD"}


SNAP_DOCKER = machines.changed(
    facts(),
    {
        "engines": {"docker": "28.4.0"},
        "containers": {"docker": {"file": "/var/snap/docker/current/config/daemon.json"}},
    },
)


def with_pci(node=None, **parts):
    node = node or facts()
    return {**node, "pci": {**node["pci"], **parts}}


def with_packages(name, version):
    node = facts()
    return {**node, "driver": {**node["driver"], "packages": [{"name": name, "version": version, "source": "local"}]}}


def plan(node, today=TODAY, **given):
    found = resolve(node, options.complete(given), catalog.load(), today)
    assert misfits("plan", found) == []
    return found


def refusal(node, known=None, **given):
    with pytest.raises(Refusal) as refused:
        resolve(node, options.complete(given), known or catalog.load(), TODAY)
    return refused.value


def environment(framework, version, **more):
    return {"gpulab_environments": [{"name": "lab", framework: version, **more}]}


def installed(*packages):
    """Return the facts of a node with these packages: (name, version, who made it)."""
    node = facts("ubuntu-24.04")
    node["driver"]["packages"] = [dict(zip(("name", "version", "source"), package)) for package in packages]
    return node


def with_kernel(platform, running, *, headers=False):
    """Return the facts of a node that has this kernel and no other."""
    return facts(platform, running=running, kernels=[kernel(running, headers=headers)])


def held(*packages, own=False):
    """Return the facts of a node whose driver is on hold, by gpulab where it is its own."""
    node, names = installed(*packages), [package[0] for package in packages]
    library = packages[0][1].partition("-")[0]
    node["driver"].update(holds=names, holds_foreign=[] if own else names, library=library)
    return node


def of_debian(*names):
    node = facts()
    node["driver"]["packages"] = [{"name": name, "version": "535.309.01-1", "source": "distribution"} for name in names]
    return node


# --- what is planned ---

DRIVERS = {
    "nothing requested": (facts(gpus=[H100]), {}, {"source": "nvidia", "branch": "595", "kernel_modules": "open"}),
    "volta takes 580": (facts(gpus=[V100]), {}, {"branch": "580", "kernel_modules": "proprietary"}),
    "a maxwell of the cloud, unlisted": (facts(gpus=["10de:1613"]), {}, {"branch": "580"}),
    "a maxwell of a laptop, unlisted": (facts(gpus=["10de:1676"]), {}, {"branch": "580"}),
    "turing prefers open": (facts(gpus=[T4]), {}, {"branch": "595", "kernel_modules": "open"}),
    "mixed takes what serves both": (facts(gpus=[V100, H100]), {}, {"branch": "580", "kernel_modules": "proprietary"}),
    "requested branch": (facts(), {"nvidia_driver_branch": "580"}, {"branch": "580", "version": "580.178.04"}),
    "requested version": (facts(), {"nvidia_driver_version": "580.200.01"}, {"branch": "580", "version": "580.200.01"}),
    "requested proprietary": (
        facts(),
        {"nvidia_driver_kernel_modules": "proprietary"},
        {"kernel_modules": "proprietary", "kernel_package": "nvidia-kernel-dkms"},
    ),
    "debian 12's own": (
        facts(),
        ALLOWED,
        {"branch": "535", "version": None, "kernel_modules": "proprietary", "dkms_module": "nvidia-current"},
    ),
    "debian 12's own open modules are pinned": (
        facts(),
        {**ALLOWED, "nvidia_driver_kernel_modules": "open"},
        {"version": "535.261.03", "dkms_module": "nvidia-current-open", "kernel_package": "nvidia-open-kernel-dkms"},
    ),
    "debian 13's own": (
        facts("debian-13"),
        ALLOWED,
        {"branch": "550", "kernel_modules": "open", "apt_components": ["contrib", "non-free", "non-free-firmware"]},
    ),
    "debian 13's own where open does not build": (
        facts("debian-13", kernels=[BROKEN_13], running=BROKEN_13["version"]),
        ALLOWED,
        {"kernel_modules": "proprietary"},
    ),
    "all of a driver is held": (facts(), {}, {"hold": catalog.load().driver_packages}),
    "no GPU, for an image": (facts(gpus=[]), {"gpulab_without_gpu": True}, {"branch": "595", "persistence": False}),
    "run file": (
        facts(),
        OF_RUNFILE,
        {
            "packages": [],
            "version": "595.91.07",
            "dkms_module": "nvidia",
            "repository": None,
            "release_packages": [],
            "runfile": {
                "url": "https://us.download.nvidia.com/tesla/595.91.07/NVIDIA-Linux-x86_64-595.91.07.run",
                "sha256": SHA256,
            },
        },
    ),
    "run file of a mirror on rhel, where DKMS comes from EPEL": (
        facts("rhel-9"),
        {**OF_RUNFILE, "nvidia_driver_runfile": "https://mirror.example/driver.run"},
        {
            "release_packages": ["epel-release", "python3-dnf-plugin-versionlock"],
            "runfile": {"url": "https://mirror.example/driver.run", "sha256": SHA256},
        },
    ),
    "secure boot on ubuntu": (
        facts("ubuntu-24.04", secure_boot="enabled", running="6.11.0-21-generic"),
        {},
        {
            "source": "distribution",
            "kernel_package": None,
            "packages": [
                "nvidia-headless-no-dkms-595-server-open",
                "nvidia-utils-595-server",
                "linux-modules-nvidia-595-server-open-generic-hwe-24.04",
            ],
        },
    ),
    "secure boot on ubuntu 26.04": (
        facts("ubuntu-26.04", secure_boot="enabled", mok_enrolled=False),
        {},
        {
            "source": "distribution",
            "packages": [
                "nvidia-headless-no-dkms-595-server-open",
                "nvidia-utils-595-server",
                "linux-modules-nvidia-595-server-open-generic",
            ],
        },
    ),
    "ubuntu's own, signed for every kernel": (
        facts("ubuntu-24.04", kernels=[kernel("6.8.0-51-generic"), kernel("6.8.0-1021-aws")], running="6.8.0-1021-aws"),
        {"nvidia_driver_source": "distribution"},
        {
            "dkms_module": None,
            "build_packages": [],
            "header_packages": [],
            "packages": [
                "nvidia-headless-no-dkms-595-server-open",
                "nvidia-utils-595-server",
                "linux-modules-nvidia-595-server-open-generic",
                "linux-modules-nvidia-595-server-open-aws",
            ],
        },
    ),
    "ubuntu's own, of the requested version": (
        facts("ubuntu-24.04", secure_boot="enabled"),
        {"nvidia_driver_version": "580.178.04"},
        {
            "source": "distribution",
            "version": "580.178.04",
            "packages": [
                "nvidia-headless-no-dkms-580-server-open=580.178.04*",
                "nvidia-utils-580-server=580.178.04*",
                "linux-modules-nvidia-580-server-open-generic",
            ],
        },
    ),
    "ubuntu's own, of the requested version, by DKMS": (
        facts("ubuntu-24.04", running="6.19.1+custom"),
        {"nvidia_driver_source": "distribution", "nvidia_driver_version": "595.91.07"},
        {
            "version": "595.91.07",
            "packages": ["nvidia-headless-595-server-open=595.91.07*", "nvidia-utils-595-server=595.91.07*"],
        },
    ),
    "debian's own that is pinned, and requested": (
        facts(),
        {**ALLOWED, "nvidia_driver_kernel_modules": "open", "nvidia_driver_version": "535.261.03"},
        {"version": "535.261.03"},
    ),
    "debian's own that is to go, whatever its version": (
        facts("debian-13"),
        {**ALLOWED, "nvidia_driver_version": "550.163.01", "nvidia_driver_state": "absent"},
        {"version": None},
    ),
    "ubuntu's own, signed for a cloud's kernel newer than the release": (
        facts("ubuntu-22.04", running="6.8.0-1021-aws"),
        {"nvidia_driver_source": "distribution"},
        {
            "packages": [
                "nvidia-headless-no-dkms-595-server-open",
                "nvidia-utils-595-server",
                "linux-modules-nvidia-595-server-open-aws",
            ],
            "hold": [*catalog.load().driver_packages, "linux-aws", "linux-image-aws", "linux-headers-aws"],
        },
    ),
    "ubuntu's own, for a kernel of nobody's": (
        facts("ubuntu-24.04", running="6.19.1+custom"),
        {"nvidia_driver_source": "distribution"},
        {
            "dkms_module": "nvidia",
            "packages": ["nvidia-headless-595-server-open", "nvidia-utils-595-server"],
            "hold": catalog.load().driver_packages,
        },
    ),
    "ubuntu names up to 580": (
        facts("ubuntu-24.04", [V100]),
        {},
        {"kernel_package": "nvidia-dkms-580", "pin_package": "nvidia-driver-pinning-580.178.04"},
    ),
    "ubuntu names from 590": (facts("ubuntu-24.04"), {}, {"kernel_package": "nvidia-dkms-open"}),
    "dnf stream on el 9": (facts("rhel-9"), {}, {"module_stream": "nvidia-driver:595-open", "apt_components": []}),
    "no dnf stream on el 10": (facts("rhel-10"), {}, {"module_stream": None}),
}


NVIDIA_595 = {"nvidia_driver_source": "nvidia", "nvidia_driver_branch": "595"}
UBUNTU_595 = {"nvidia_driver_source": "distribution", "nvidia_driver_branch": "595"}
NVIDIA_580 = {"nvidia_driver_source": "nvidia", "nvidia_driver_branch": "580"}
PINNED_580 = ("nvidia-driver-pinning-580.178.04", "1.0-1", "nvidia")
CONFLICTS = {
    "a foreign architecture": (NVIDIA_595, [("libnvidia-compute-465:i386", "465.19.01-0ubuntu1", "nvidia")]),
    "another branch": (NVIDIA_595, [("nvidia-dkms-580-open", "580.178.04-1ubuntu1", "nvidia")]),
    "another branch of the distribution": (
        UBUNTU_595,
        [("nvidia-utils-580-server", "580.95.05-0ubuntu1", "distribution")],
    ),
    "the desktops' driver of another branch": (
        UBUNTU_595,
        [
            ("libnvidia-compute-580", "580.178.04-0ubuntu0.24.04.1", "distribution"),
            ("linux-modules-nvidia-580-open-generic", "6.8.0-51.52", "distribution"),
            ("nvidia-driver-580-open", "580.178.04-0ubuntu0.24.04.1", "distribution"),
            ("nvidia-firmware-580-580.178.04", "580.178.04-0ubuntu0.24.04.1", "distribution"),
        ],
    ),
    "names without a branch beside one of names with it": (
        NVIDIA_580,
        [
            ("libnvidia-compute", "595.91.07-1ubuntu1", "nvidia"),
            ("nvidia-dkms-open", "595.91.07-1ubuntu1", "nvidia"),
            ("nvidia-persistenced", "595.91.07-1ubuntu1", "nvidia"),
        ],
    ),
    "signed modules": (NVIDIA_595, [("linux-modules-nvidia-595-server-generic", "6.8.0-51.52", "distribution")]),
    "a PPA": (UBUNTU_595, [("nvidia-utils-595", "595.71.05-0ubuntu0~gpu24.04.1", "other")]),
    "a metapackage of another version": (NVIDIA_595, [("cuda-drivers", "615.71.09-1", "nvidia")]),
    "the pin of another source": (UBUNTU_595, [PINNED_580]),
    "another source": (UBUNTU_595, [("libnvidia-compute", "595.91.07-1ubuntu1", "nvidia")]),
}
NO_CONFLICTS = {
    "the planned ones": (NVIDIA_595, ("libnvidia-compute", "595.91.07-1ubuntu1", "nvidia")),
    "an older version, which is upgraded": (NVIDIA_595, ("nvidia-dkms-open", "590.48.01-1ubuntu1", "nvidia")),
    "a metapackage of the planned version": (NVIDIA_595, ("cuda-drivers", "595.91.07-1", "nvidia")),
    "another pin, which is exchanged": (NVIDIA_595, PINNED_580),
    "a library with a version of its own": (NVIDIA_595, ("libnvidia-egl-wayland1", "1:1.1.13-1build1", "distribution")),
    "the servers' own": (UBUNTU_595, ("nvidia-firmware-595-server-595.91.07", "595.91.07-0ubuntu1", "distribution")),
    "what Ubuntu has once for servers and desktops": (
        UBUNTU_595,
        ("nvidia-fabricmanager-595", "595.91.07-0ubuntu1", "distribution"),
    ),
    "the desktops' own": (UBUNTU_595, ("nvidia-firmware-595-595.91.07", "595.91.07-0ubuntu1", "distribution")),
    "the desktops' signed modules": (
        UBUNTU_595,
        ("linux-modules-nvidia-595-open-generic", "6.8.0-5.6", "distribution"),
    ),
    "a tool of Ubuntu's": (UBUNTU_595, ("nvidia-settings", "510.47.03-0ubuntu1", "distribution")),
    "a tool of NVIDIA's": (NVIDIA_580, ("nvidia-modprobe", "610.43.02-1ubuntu1", "nvidia")),
    "the Fabric Manager, whose name has no branch": (NVIDIA_580, ("nvidia-fabricmanager", "580.178.04-1", "nvidia")),
    "firmware of nouveau": (NVIDIA_595, ("firmware-nvidia-graphics", "20250410-2", "distribution")),
}


@pytest.mark.parametrize(
    ("system", "branch", "warned"),
    [("debian-12", "535", True), ("debian-13", "550", True), ("ubuntu-24.04", None, False)],
)
def test_the_distributions_driver_asked_for_by_name_is_taken_with_a_warning_where_it_has_none_that_gets_fixes(
    system, branch, warned
):
    made = plan(facts(system), nvidia_driver_source="distribution")
    assert made["driver"]["branch"] == branch or not warned
    said = "is taken with nvidia_driver_source: distribution despite its age"
    assert any(said in warning for warning in made["warnings"]) is warned


@pytest.mark.parametrize(("given", "packages"), CONFLICTS.values(), ids=CONFLICTS)
def test_packages_of_another_driver_are_named_and_removed_only_where_allowed(given, packages):
    node, names = installed(*packages), [package[0] for package in packages]
    assert names[0] in refusal(node, **given).cause
    assert plan(node, nvidia_driver_remove_conflicting=True, **given)["driver"]["conflicting_packages"] == names


@pytest.mark.parametrize(
    ("version", "source", "told"),
    [
        ("595.91.07", True, None),
        ("610.43.02", True, "dkms remove nvidia/610.43.02 --all"),
        ("535.54.03", False, "rm -r /var/lib/dkms/nvidia/535.54.03"),
    ],
)
def test_what_dkms_has_beside_the_driver_is_named_with_its_remedy(version, source, told):
    node = installed(("nvidia-dkms-open", "595.91.07-0ubuntu1", "nvidia"))
    node["kernels"][0]["dkms"] = [{"module": "nvidia", "version": version, "state": "added", "source": source}]
    node["driver"].update(library="595.91.07", module_on_disk=version)
    warnings = [line for line in plan(node, **NVIDIA_595)["warnings"] if "DKMS has" in line]
    assert [told in line for line in warnings] == ([True] if told else [])


HELD = ("nvidia-dkms-open", "590.48.01-0ubuntu1", "nvidia")
KEPT = {"nvidia_driver_source": "nvidia", "nvidia_driver_version": "590.48.01", "gpulab_allow_branches": ["590"]}


def test_a_driver_that_somebody_holds_is_kept_as_the_refusal_says():
    refused = refusal(held(HELD))
    assert "590.48.01 (nvidia) to 595.91.07 (nvidia, open modules)" in refused.cause
    way = 'nvidia_driver_source: nvidia, nvidia_driver_version: "590.48.01", gpulab_allow_branches: ["590"]'
    assert way in refused.remedy
    assert plan(held(HELD), **KEPT)["driver"]["change"] is None


def test_a_driver_that_gpulab_holds_is_replaced():
    assert plan(held(HELD, own=True))["driver"]["change"]["to"].startswith("595.91.07")


def test_packages_that_somebody_holds_do_not_go_as_conflicting():
    node = held(("nvidia-utils-580-server", "580.95.05-0ubuntu1", "distribution"))
    assert refusal(node, **UBUNTU_595, nvidia_driver_remove_conflicting=True).code == "P085"


WAYS = {
    "another branch of the source": ([HELD], "590"),
    "a branch that the distribution has": ([("nvidia-utils-580-server", "580.178.04-0ubuntu1", "distribution")], "580"),
    "a branch that no source has": ([("nvidia-dkms-510", "510.39.01-0ubuntu1", "nvidia")], None),
    "the desktops' driver": ([("nvidia-utils-580", "580.178.04-0ubuntu1", "distribution")], "580"),
    "a maker that nobody knows": ([("nvidia-mine", "580.178.04-1", "other")], None),
    "packages of two sources": ([HELD, ("libcuda1", "590.48.01-1", "distribution")], None),
}


@pytest.mark.parametrize(("packages", "branch"), WAYS.values(), ids=WAYS)
def test_a_driver_can_be_kept_only_where_it_can_be_planned(packages, branch):
    case = Case.of(installed(*packages), options.complete({}), catalog.load(), TODAY)
    way = yaml.safe_load(f"{{{conflicts.way_to_keep(case)}}}")
    assert bool(way) is (branch is not None)
    if way:
        kept = plan(installed(*packages), **way)["driver"]
        assert (kept["branch"], kept["conflicting_packages"]) == (branch, [])


@pytest.mark.parametrize(("given", "package"), NO_CONFLICTS.values(), ids=NO_CONFLICTS)
def test_what_can_stay_stays(given, package):
    driver = plan(installed(package), nvidia_driver_remove_conflicting=True, **given)["driver"]
    assert driver["conflicting_packages"] == []


def test_a_kernel_is_held_with_the_modules_that_fit_no_other():
    driver = plan(facts("ubuntu-24.04"), nvidia_driver_source="distribution")["driver"]
    assert driver["hold"][-3:] == ["linux-generic", "linux-image-generic", "linux-headers-generic"]
    assert "which is held with the driver and gets no security fixes" in " ".join(driver["because"])


@pytest.mark.parametrize(
    ("system", "given", "told"),
    [
        ("debian-13", {"nvidia_driver_source": "distribution"}, True),
        ("ubuntu-24.04", {"nvidia_driver_source": "distribution"}, True),
        (
            "debian-12",
            {"nvidia_driver_source": "distribution", "nvidia_driver_kernel_modules": "open"},
            False,
        ),  # pinned
        ("ubuntu-24.04", {"nvidia_driver_source": "nvidia"}, False),
    ],
)
def test_a_driver_without_a_version_is_said_to_stay(system, given, told):
    driver = plan(facts(system), gpulab_allow_branches=["535", "550"], **given)["driver"]
    assert (driver["version"] is None) == told
    assert any("It is held at its installed version" in line for line in driver["because"]) == told


@pytest.mark.parametrize(
    ("system", "given", "upgrade"),
    [
        ("debian-13", {"nvidia_driver_source": "distribution"}, True),
        (
            "debian-12",
            {"nvidia_driver_source": "distribution", "nvidia_driver_kernel_modules": "open"},
            False,
        ),  # pinned
        ("ubuntu-24.04", {"nvidia_driver_source": "distribution", "nvidia_driver_version": "595.91.07"}, False),
        ("ubuntu-24.04", {"nvidia_driver_source": "nvidia"}, False),
    ],
)
def test_a_driver_without_a_version_is_upgraded_where_that_is_requested(system, given, upgrade):
    driver = plan(facts(system), gpulab_allow_branches=["535", "550"], nvidia_driver_upgrade=True, **given)["driver"]
    assert driver["upgrade"] is upgrade
    assert ("dpkg-repack" in driver["build_packages"]) is upgrade  # the former one may be in no source any more
    assert any("it is upgraded to the distribution's newest" in line for line in driver["because"]) is upgrade


@pytest.mark.parametrize(
    "name",
    [
        *("nvidia-utils", "nvidia-utils-595-server", "nvidia-compute-utils", "nvidia-dkms-open", "libnvidia-compute"),
        *(
            "libcuda1",
            "libnvidia-cfg1",
            "libnvidia-nscq",
            "nvidia-kernel-open-dkms",
            "nvidia-fabricmanager",
            "cuda-drivers",
        ),
    ],
)
def test_the_held_packages_are_those_of_a_driver(name):
    assert any(fnmatchcase(name, pattern) for pattern in catalog.load().driver_packages)


@pytest.mark.parametrize(
    "name", ["nvidia-container-toolkit", "libnvidia-container1", "nvidia-cuda-toolkit", "libcudnn9"]
)
def test_packages_of_other_roles_are_not_held_by_the_driver(name):
    assert not any(fnmatchcase(name, pattern) for pattern in catalog.load().driver_packages)


def test_cuda_beside_the_distributions_driver_takes_no_driver_of_nvidia():
    """Both have packages of the same names."""
    beside = plan(facts(), **ALLOWED, cuda_toolkits=["12.4"])
    assert "libnccl2" in beside["cuda"]["repository"]["packages"]
    assert not {"nvidia-*", "libcuda1"} & set(beside["cuda"]["repository"]["packages"])
    alone = plan(facts())
    assert alone["cuda"]["repository"] == alone["driver"]["repository"]
    assert {"nvidia-*", "libcuda1", "libnccl2"} <= set(alone["driver"]["repository"]["packages"])


@pytest.mark.parametrize(("node", "given", "expected"), DRIVERS.values(), ids=DRIVERS)
def test_driver(node, given, expected):
    driver = plan(node, **given)["driver"]
    assert {key: driver[key] for key in expected} == expected


def test_rocky_is_planned_as_rhel():
    node = facts("rhel-9")
    node["system"]["id"] = "rocky"
    assert plan(node)["driver"]["module_stream"] == "nvidia-driver:595-open"


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (facts(), ["linux-headers-6.1.0-50-amd64", "linux-headers-amd64"]),
        (
            facts(running="6.1.0-50-cloud-amd64"),
            ["linux-headers-6.1.0-50-cloud-amd64", "linux-headers-cloud-amd64"],
        ),
        (facts(running="6.6.1-mine"), []),  # its headers are there
        (with_kernel("debian-12", "6.6.1-mine"), ["linux-headers-6.6.1-mine"]),
        (facts("debian-13", running="6.14.8-2-pve"), []),
        (with_kernel("debian-13", "6.14.8-2-pve"), ["proxmox-headers-6.14.8-2-pve"]),
        (facts("ubuntu-24.04"), ["linux-headers-6.8.0-51-generic", "linux-headers-generic"]),
        (
            facts("ubuntu-24.04", running="6.11.0-21-generic"),
            ["linux-headers-6.11.0-21-generic", "linux-headers-generic-hwe-24.04"],
        ),
        (
            facts("ubuntu-24.04", [GH200], architecture="aarch64", running="6.17.0-1013-nvidia-64k"),
            ["linux-headers-6.17.0-1013-nvidia-64k", "linux-headers-nvidia-64k-hwe-24.04"],
        ),
        (
            facts("ubuntu-24.04", running="6.14.0-1010-azure"),
            ["linux-headers-6.14.0-1010-azure", "linux-headers-azure"],
        ),
        (facts("ubuntu-24.04", running="6.17.0-1010-oem"), ["linux-headers-6.17.0-1010-oem"]),
        (
            facts("rhel-9"),
            ["kernel-devel-5.14.0-503.14.1.el9_5.x86_64", "kernel-devel-matched=5.14.0-503.14.1.el9_5"],
        ),
        (with_kernel("rhel-9", ELREPO), [f"kernel-devel-{ELREPO}"]),
        (
            facts("rhel-9", [GH200], architecture="aarch64", running="5.14.0-503.14.1.el9_5.aarch64+64k"),
            ["kernel-64k-devel-5.14.0-503.14.1.el9_5.aarch64", "kernel-64k-devel-matched=5.14.0-503.14.1.el9_5"],
        ),
    ],
)
def test_header_packages(node, expected):
    assert plan(node)["driver"]["header_packages"] == expected


FOREIGN = {  # https://github.com/bkw777/mainline/issues/124, https://github.com/pop-os/system76-driver/issues/336
    "of kernel.ubuntu.com": ("ubuntu-24.04", "6.14.4-061404-generic"),
    "of a candidate": ("ubuntu-22.04", "6.5.0-060500rc5-generic"),
    "of System76": ("ubuntu-24.04", "6.12.10-76061203-generic"),
    "of XanMod": ("ubuntu-24.04", "6.12.9-x64v3-xanmod1"),
    "of Liquorix": ("debian-12", "6.11.10-2-liquorix-amd64"),
    "of Proxmox": ("debian-13", "6.14.8-2-pve"),
    "of ELRepo": ("rhel-9", ELREPO),
}
OWN = {
    "for a cloud": ("ubuntu-24.04", "6.8.0-1014-azure"),
    "for NVIDIA's machines": ("ubuntu-24.04", "6.11.0-1016-nvidia"),
    "for makers of computers": ("ubuntu-24.04", "6.17.0-1010-oem"),
    "of backports": ("debian-12", "6.12.9+bpo-amd64"),
    "of Red Hat": ("rhel-9", "5.14.0-503.14.1.el9_5.x86_64"),
}


@pytest.mark.parametrize(("platform", "running"), FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("headers", [True, False])
def test_a_kernel_from_elsewhere_is_named_and_gets_no_signed_modules(platform, running, headers):
    source = "distribution" if platform.startswith("ubuntu") else "nvidia"
    made = plan(with_kernel(platform, running, headers=headers), nvidia_driver_source=source)
    assert made["driver"]["dkms_module"]
    (said,) = (line for line in made["warnings"] if running in line)
    assert ("uses its installed headers" in said) is headers


@pytest.mark.parametrize(("platform", "running"), OWN.values(), ids=OWN)
def test_a_kernel_of_the_distribution_is_not_taken_for_a_foreign_one(platform, running):
    assert not any("come from" in line for line in plan(with_kernel(platform, running))["warnings"])


@pytest.mark.parametrize("requested", [[], ["5.14.0-503.el9.x86_64"]])
def test_headers_of_the_next_kernel_bring_no_kernel(requested):
    """On Red Hat's family their package needs the kernel of its own version: that is the newest one installed."""
    kernels = [kernel("5.14.0-70.el9.x86_64"), kernel("5.14.0-503.el9.x86_64"), kernel("5.14.0-570.el9.x86_64")]
    newer = kernel("5.14.0-611.el9.x86_64", installed=False)
    node = facts("rhel-9", running="5.14.0-503.el9.x86_64", kernels=[*kernels, newer])
    packages = plan(node, nvidia_driver_kernels=requested)["driver"]["header_packages"]
    assert packages[-1] == "kernel-devel-matched=5.14.0-570.el9"
    assert len([package for package in packages if "matched" in package]) == 1


@pytest.mark.parametrize(
    ("requested", "warned"), [([], False), (["6.1.0-50-amd64"], True), (["6.1.0-50-amd64", "6.1.0-51-amd64"], False)]
)
def test_kernels_without_the_one_that_boots_next_are_warned_of(requested, warned):
    kernels = [{**kernel("6.1.0-50-amd64"), "next_boot": False}, {**kernel("6.1.0-51-amd64"), "next_boot": True}]
    made = plan(facts(running="6.1.0-50-amd64", kernels=kernels), nvidia_driver_kernels=requested)
    assert any("Kernel 6.1.0-51-amd64 boots next" in line for line in made["warnings"]) is warned


def test_the_running_kernel_of_a_containers_host_is_left_out():
    node = facts(running="6.9.0-host", kernels=[kernel("6.1.0-50-amd64")], container=True)
    driver = plan(node)["driver"]
    assert driver["kernels"] == ["6.1.0-50-amd64"]
    assert any("6.9.0-host" in line for line in driver["because"])


def test_a_running_kernel_with_headers_only_is_built_for():
    node = facts(
        running="6.1.0-51-amd64", kernels=[kernel("6.1.0-50-amd64"), kernel("6.1.0-51-amd64", installed=False)]
    )
    assert plan(node)["driver"]["kernels"] == ["6.1.0-50-amd64", "6.1.0-51-amd64"]


def test_without_headers_to_read_the_release_tells():
    release = "6.12.117+deb13-amd64"
    node = facts("debian-13", running=release, kernels=[kernel(release, headers=False)])
    assert plan(node, **ALLOWED)["driver"]["kernel_modules"] == "proprietary"


@pytest.mark.parametrize(
    ("system", "release", "given", "decide"),
    [
        ("debian-13", "6.12.117+deb13-amd64", ALLOWED, True),  # whether the open modules build
        ("debian-13", "6.12.117+deb13-amd64", {}, False),  # NVIDIA's build on every kernel
        ("debian-12", "6.1.0-56-amd64", ALLOWED, False),  # the proprietary ones are newer, and come first
    ],
)
def test_headers_decide_where_they_can_show_that_modules_do_not_build(system, release, given, decide):
    def of(*, headers):
        return plan(facts(system, running=release, kernels=[kernel(release, headers=headers)]), **given)["driver"]

    assert (of(headers=False)["headers_decide"], of(headers=True)["headers_decide"]) == (decide, False)


def test_headers_without_the_marker_win_over_the_release():
    node = facts("debian-13", running=BROKEN_13["version"])
    assert plan(node, **ALLOWED)["driver"]["kernel_modules"] == "open"


def test_the_other_flavour_is_removed():
    node = facts("debian-13")
    node["driver"]["packages"] = [{"name": "nvidia-kernel-dkms", "version": "550.163.01-2", "source": "distribution"}]
    assert plan(node, **ALLOWED)["driver"]["remove_packages"] == ["nvidia-kernel-dkms"]


def test_a_pinned_version_is_named_with_every_package():
    """A pinning package that APT did not heed must stop the installation, not let another version in."""
    driver = plan(facts("debian-12"))["driver"]
    assert driver["pin_package"] == "nvidia-driver-pinning-595.91.07"
    assert driver["packages"] == ["nvidia-kernel-open-dkms=595.91.07*", "nvidia-driver-cuda=595.91.07*"]
    driver = plan(facts("rhel-9"), nvidia_driver_version="595.91.07")["driver"]
    assert driver["packages"] == ["kmod-nvidia-open-dkms=595.91.07*", "nvidia-driver-cuda=595.91.07*"]
    assert driver["release_packages"] == ["epel-release", "python3-dnf-plugin-versionlock"]


def test_the_pinning_package_of_another_version_is_removed():
    node = facts("debian-12")
    names = ["nvidia-driver-pinning-580.178.04", "nvidia-driver-pinning-595.91.07", "nvidia-driver-cuda"]
    node["driver"]["packages"] = [{"name": name, "version": "1", "source": "nvidia"} for name in names]
    assert plan(node)["driver"]["remove_packages"] == ["nvidia-driver-pinning-580.178.04"]


def with_driver(version, package="libcuda1", source="nvidia", **driver):
    """Return the facts of a node that has this driver."""
    packages = [{"name": package, "version": f"{version}-1", "source": source}]
    return machines.changed(facts(), {"driver": {"packages": packages, "module_on_disk": version, **driver}})


def with_runfile(version, flavour="open", *, own=True):
    """Return the facts of a node that has this driver from a .run file."""
    built = {**kernel("6.1.0-50-amd64"), "nvidia_module": version, "nvidia_module_flavour": flavour}
    driver = {"packages": [], "runfile": version, "runfile_own": own, "module_on_disk": version}
    return {**facts(kernels=[built]), "driver": driver}


CHANGES = {
    "no driver": (facts(), {}, None),
    "libraries without a module": (with_driver(None), {}, None),
    "the planned one": (with_driver("595.91.07"), {}, None),
    "another version": (
        with_driver("580.178.04"),
        {},
        {"from": "580.178.04 (nvidia)", "to": "595.91.07 (nvidia, open modules)"},
    ),
    "another source": (
        with_driver("595.91.07", source="distribution"),
        {"nvidia_driver_remove_conflicting": True},
        {"from": "595.91.07 (distribution)", "to": "595.91.07 (nvidia, open modules)"},
    ),
    "another flavour": (
        with_driver("595.91.07", "nvidia-kernel-dkms"),
        {},
        {"from": "595.91.07 (nvidia)", "to": "595.91.07 (nvidia, open modules)"},
    ),
    "one that has not proved itself": (
        with_driver("595.91.07", former={"libcuda1": "580.178.04-1"}),
        {},
        {"from": "595.91.07 (nvidia)", "to": "595.91.07 (nvidia, open modules)"},
    ),
    "the distribution decides within its branch": (with_driver("535.1", source="distribution"), ALLOWED, None),
    "the planned one of a run file": (with_runfile("595.91.07"), OF_RUNFILE, None),
    "another run file": (
        with_runfile("580.178.04"),
        OF_RUNFILE,
        {"from": "580.178.04 (runfile)", "to": "595.91.07 (runfile, open modules)"},
    ),
    "the other modules of a run file": (
        with_runfile("595.91.07", "proprietary"),
        OF_RUNFILE,
        {"from": "595.91.07 (runfile)", "to": "595.91.07 (runfile, open modules)"},
    ),
    "a run file whose modules are of a kind that nobody can tell": (with_runfile("595.91.07", None), OF_RUNFILE, None),
}


@pytest.mark.parametrize(("node", "given", "change"), CHANGES.values(), ids=CHANGES)
def test_another_drivers_place_is_taken_knowingly(node, given, change):
    driver = plan(node, **given)["driver"]
    assert driver["change"] == change
    keeps = change is not None and driver["source"] != "runfile"  # which has no packages to go back to
    assert ("dpkg-repack" in driver["build_packages"]) is keeps


# --- a desktop ---

UBUNTU_DESKTOP = tuple(
    (f"{name}-580{more}", "580.95.05-0ubuntu0.24.04.1", "distribution")
    for name, more in [
        ("libnvidia-gl", ""),
        ("nvidia-driver", "-open"),
        ("nvidia-utils", ""),
        ("xserver-xorg-video-nvidia", ""),
    ]
)
DEBIAN_DESKTOP = ("libglx-nvidia0", "nvidia-driver", "nvidia-kernel-dkms", "xserver-xorg-video-nvidia")
RTX_4090, INTEL = "10de:2684", {"address": "0000:00:02.0", "device": "8086:a780", "maker": "Intel", "driver": "i915"}
MANAGER = {"display-manager": {"load": "loaded", "active": "inactive", "sub": "dead", "enabled": "enabled"}}


def with_display(node=None, others=(), *, manager=True, **gpu):
    """Return a node with an RTX 4090, whose facts gpu are, other GPUs, and a display manager."""
    node = node or facts()
    (device,) = node["pci"]["gpus"]
    gpus = [{**device, "device": RTX_4090, "class": "0300", **gpu}]
    return {**with_pci(node, gpus=gpus, other_gpus=list(others)), "services": MANAGER if manager else {}}


def on_igpu(**more):
    return {**INTEL, "boot_vga": True, "monitors": [], **more}


DISPLAYS = {
    "a display manager": (with_display(), "auto", True),
    "none": (with_display(manager=False), "auto", False),
    "no systemd": ({**with_display(), "services": None}, "auto", False),
    "one that the firmware showed its screen on": (with_display(boot_vga=True), "auto", True),
    "the firmware's screen is another adapter's": (with_display(boot_vga=False), "auto", False),
    "and a monitor is here": (with_display(others=[on_igpu()], boot_vga=False, monitors=["DP-1"]), "auto", True),
    "a laptop": (with_display(others=[on_igpu()], boot_vga=False), "auto", False),
    "a GPU without connectors": (with_display(**{"class": "0302"}), "auto", False),
    "the driver's display packages": (with_display(of_debian(*DEBIAN_DESKTOP), manager=False), "auto", True),
    "and those of a laptop": (with_display(of_debian(*DEBIAN_DESKTOP), [on_igpu()], boot_vga=False), "auto", True),
    "requested": (with_display(manager=False), True, True),
    "requested by a word": (with_display(manager=False), "true", True),
    "not requested": (with_display(), False, False),
}


@pytest.mark.parametrize(("node", "asked", "shown"), DISPLAYS.values(), ids=DISPLAYS)
def test_the_display_packages_come_where_the_driver_draws_a_display(node, asked, shown):
    given = {**ALLOWED, "nvidia_driver_display": asked}
    driver = plan(node, **given)["driver"]
    assert driver["display"] is shown
    assert ("nvidia-driver" in driver["packages"]) is shown


def test_a_laptop_is_told_why_its_display_stays_as_it_is():
    found = plan(with_display(others=[on_igpu()], boot_vga=False))
    assert "The display is on the Intel GPU at 0000:00:02.0 and stays there." in reasons(found)


@pytest.mark.parametrize(
    ("platform", "given", "expected"),
    [
        ("debian-12", {}, ["nvidia-driver=595.91.07*"]),
        ("debian-13", ALLOWED, ["nvidia-driver"]),
        ("ubuntu-24.04", {}, ["libnvidia-gl=595.91.07*", "xserver-xorg-video-nvidia=595.91.07*"]),
        ("ubuntu-24.04", NVIDIA_580, ["libnvidia-gl-580=580.178.04*", "xserver-xorg-video-nvidia-580=580.178.04*"]),
        ("ubuntu-24.04", UBUNTU_595, ["libnvidia-gl-595-server", "xserver-xorg-video-nvidia-595-server"]),
        ("rhel-9", {}, ["nvidia-driver=595.91.07*"]),
    ],
)
def test_the_display_packages_are_of_the_drivers_source_and_version(platform, given, expected):
    found = plan(with_display(facts(platform)), **given)["driver"]["packages"]
    alone = plan(with_display(facts(platform)), **given, nvidia_driver_display=False)["driver"]["packages"]
    assert set(expected) <= set(found)
    assert not {name.partition("=")[0] for name in expected} & {name.partition("=")[0] for name in alone}


def test_the_open_modules_of_debian_12_have_a_display_of_their_own_version():
    driver = plan(with_display(), **ALLOWED, nvidia_driver_kernel_modules="open")["driver"]
    unpinned = [name for name in driver["packages"] if "=" not in name]
    assert unpinned == ["nvidia-persistenced", "libnvidia-egl-gbm1"]  # which have versions of their own
    assert {name.partition("=")[2] for name in driver["packages"]} == {"", "535.261.03-1"}


def of_ubuntu(*packages):
    return with_display({**facts("ubuntu-24.04"), "driver": installed(*packages)["driver"]}, manager=False)


def open_module(node, flavour="open"):
    """Return the node with a module of this flavour for its kernel."""
    return {**node, "kernels": [{**one, "nvidia_module_flavour": flavour} for one in node["kernels"]]}


def test_ubuntus_desktop_driver_stays_and_keeps_its_names():
    driver = plan(of_ubuntu(*UBUNTU_DESKTOP))["driver"]
    assert (driver["source"], driver["branch"], driver["change"]) == ("distribution", "580", None)
    assert (driver["conflicting_packages"], driver["display"]) == ([], True)
    assert {"libnvidia-gl-580", "nvidia-utils-580"} <= set(driver["packages"])
    assert not [name for name in driver["packages"] if "-server" in name]


@pytest.mark.parametrize("flavour", ["open", "proprietary"])
def test_debians_desktop_driver_stays_with_its_modules_though_its_branch_has_ended(flavour):
    found = plan(open_module(with_display(of_debian(*DEBIAN_DESKTOP)), flavour))
    assert (found["driver"]["source"], found["driver"]["branch"]) == ("distribution", "535")
    assert found["driver"]["kernel_modules"] == flavour
    assert [line for line in found["warnings"] if "The desktop driver stays at branch 535" in line]
    asked = plan(with_display(of_debian(*DEBIAN_DESKTOP)), gpulab_allow_branches=["535"])
    assert not [line for line in asked["warnings"] if "The desktop driver stays" in line]


REPLACED = {
    "another source": {"nvidia_driver_source": "nvidia"},
    "another branch": {"nvidia_driver_branch": "580"},
    "a version": {"nvidia_driver_version": "595.91.07"},
}


@pytest.mark.parametrize("given", REPLACED.values(), ids=REPLACED)
def test_a_desktop_driver_gives_way_to_what_is_requested_and_to_nothing_else(given):
    node = with_display(of_debian(*DEBIAN_DESKTOP))
    node["driver"]["library"] = "535.309.01"
    assert refusal(node, **given).code == "P038"
    driver = plan(node, **given, nvidia_driver_remove_conflicting=True)["driver"]
    assert driver["conflicting_packages"] == sorted(DEBIAN_DESKTOP)
    assert driver["change"]["to"].endswith("(nvidia, open modules)")
    assert plan(node, nvidia_driver_remove_conflicting=True)["driver"]["change"] is None
    assert plan(node, nvidia_driver_display=False)["driver"]["change"] is None


def test_a_desktop_driver_that_does_not_support_the_gpus_does_not_stay():
    assert refusal(with_display(of_debian(*DEBIAN_DESKTOP), device=RTX_5090)).code == "P038"


@pytest.mark.parametrize("maker", ["nvidia", "other"])
def test_a_desktop_driver_of_another_maker_is_not_the_distributions(maker):
    node = with_display(of_debian(*DEBIAN_DESKTOP))
    node["driver"]["packages"] = [{**package, "source": maker} for package in node["driver"]["packages"]]
    driver = plan(node, nvidia_driver_remove_conflicting=True)["driver"]
    assert (driver["source"], driver["display"]) == ("nvidia", True)


def test_a_desktop_driver_of_a_branch_that_the_catalog_does_not_have_does_not_stay():
    old = [(name, "570.133.07-0ubuntu0.24.04.1", maker) for name, _version, maker in UBUNTU_DESKTOP]
    assert refusal(of_ubuntu(*old)).code == "P038"


def test_the_modules_of_ubuntus_desktop_driver_are_the_desktops_too():
    node = {**of_ubuntu(*UBUNTU_DESKTOP), "kernels": [kernel("6.8.0-51-generic")]}
    node["system"]["kernel"] = "6.8.0-51-generic"
    assert "linux-modules-nvidia-580-open-generic" in plan(node)["driver"]["packages"]


def test_a_driver_of_the_distribution_without_a_display_is_no_desktops():
    assert refusal(with_display(of_debian("libcuda1", "nvidia-smi"))).code == "P038"


def test_a_driver_that_is_to_go_is_a_change_and_no_package_stands_in_its_way():
    node = with_driver("580.178.04", "nvidia-utils-580", source="distribution")
    driver = plan(node, nvidia_driver_state="absent")["driver"]
    assert driver["change"] == {"from": "580.178.04 (distribution)", "to": "none"}
    assert driver["conflicting_packages"] == []
    assert "dpkg-repack" not in driver["build_packages"]


def test_a_run_file_that_is_to_go_is_a_change_where_gpulab_brought_it():
    driver = plan(with_runfile("580.178.04"), nvidia_driver_state="absent")["driver"]
    assert driver["source"] == "runfile"
    assert driver["change"] == {"from": "580.178.04 (runfile)", "to": "none"}
    assert plan(with_runfile("580.178.04", own=False), nvidia_driver_state="absent")["driver"]["change"] is None


def test_no_driver_that_is_to_go_is_no_change():
    assert plan(facts(), nvidia_driver_state="absent")["driver"]["change"] is None


TO_REMOVE = yaml.safe_load((ROOT / "playbooks" / "remove.yml").read_text())[0]["vars"]
NOT_TO_INSTALL = {
    "no GPU any more": (facts(gpus=[]), {}),
    "a GPU that nobody knows": (facts(gpus=["10de:fff0"]), {}),
    "GPUs that exclude each other": (facts(gpus=[GTX_1080_TI, RTX_5090]), {}),
    "a kernel that is gone": (facts(running="6.1.0-49-amd64", kernels=[kernel("6.1.0-50-amd64")]), {}),
    "no kernel": (facts(kernels=[], container=True), {}),
    "a branch past its end": (facts(), {"nvidia_driver_branch": "535"}),
    "a source that the system has not": (facts("rhel-9"), {"nvidia_driver_source": "distribution"}),
    "a kernel that it does not build for": (facts(running="6.1.0-50-rt-amd64"), {}),
    "a version below the floor": (facts(), {"nvidia_driver_version": "580.126.09"}),
    "a container toolkit below its floor": (facts(), {"container_toolkit_version": "1.17.8"}),
    "an environment that is none": (facts(), environment("pytorch", "2.99")),
    "settings that are none": (facts(), {"gpu_settings_values": {"power_limit": 300}}),
    "an override of nothing": (facts(), {"tuning_overrides": {"swappiness": 1}}),
    "an interface that is gone": (facts(), {"nccl_interface": "eth0"}),
    "measurements without NCCL": (
        facts(),
        {"nccl_tests_url": "https://mirror.example/nccl-tests.tar.gz", "nccl_tests_sha256": "0" * 64},
    ),
    "NVSwitches and Debian's driver": (
        {**facts(), "pci": {**facts()["pci"], "nvswitches": [{"address": "0000:aa:00.0", "device": "10de:1af1"}]}},
        ALLOWED,
    ),
}


@pytest.mark.parametrize(("node", "given"), NOT_TO_INSTALL.values(), ids=NOT_TO_INSTALL)
def test_what_is_to_go_need_not_be_what_could_be_installed(node, given):
    packages = [{"name": "nvidia-smi", "version": "535.309.01-1", "source": "distribution"}]
    node = machines.changed(node, {"driver": {"packages": packages, "module_on_disk": "535.309.01"}})
    known = options.load().options
    driver = plan(node, **{**given, **{name: TO_REMOVE[name] for name in TO_REMOVE if name in known}})["driver"]
    assert driver["change"] == {"from": "535.309.01 (distribution)", "to": "none"}
    assert driver["packages"] == []


def test_what_came_for_a_driver_is_named_where_it_goes():
    node = installed(("linux-modules-nvidia-595-server-open-generic", "6.8.0-51.52", "distribution"))
    made = plan(node, nvidia_driver_state="absent")
    assert {"linux-headers-6.8.0-51-generic", "linux-headers-generic"} <= set(made["driver"]["header_packages"])
    assert made["driver"]["hold"][-3:] == ["linux-generic", "linux-image-generic", "linux-headers-generic"]
    assert made["driver"]["build_packages"] == ["dkms"]
    assert made["driver"]["repository"] is None
    assert made["fabric_manager"]["packages"] == ["nvlsm", "libnvsdm"]
    assert plan(with_driver("580.178.04"), nvidia_driver_state="absent")["driver"]["repository"] is not None
    runfile = plan(with_runfile("580.178.04"), nvidia_driver_state="absent")["driver"]
    assert runfile["build_packages"] == ["dkms", "gcc", "make"]
    assert "epel-release" in plan(facts("rhel-9"), nvidia_driver_state="absent")["driver"]["release_packages"]


def test_a_repository_for_apt_names_what_comes_from_it():
    assert "nvidia-*" in plan(facts("debian-13"))["driver"]["repository"]["packages"]
    assert plan(facts("rhel-9"))["driver"]["repository"]["packages"] == []


def test_sbsa_for_arm_servers():
    node = facts("ubuntu-24.04", [GH200], architecture="aarch64")
    made = plan(node)
    assert made["driver"]["repository"]["url"].endswith("/ubuntu2404/sbsa/")
    assert made["cuda"]["repository"]["url"].endswith("/ubuntu2404/sbsa/")


def test_an_unlisted_gpu_is_planned_by_its_architecture_with_a_warning():
    made = plan(facts(gpus=["10de:1b3f"]))
    assert made["driver"]["branch"] == "580"
    assert "10de:1b3f" in made["warnings"][0]
    assert "Pascal" in made["warnings"][0]


@pytest.mark.parametrize("gpu", ["10de:1b3f", "10de:13fe", "10de:17fc"])
def test_an_unlisted_gpu_takes_the_wheels_of_its_architecture(gpu):
    (part,) = plan(facts(gpus=[gpu]), **environment("pytorch", "2.9"))["environments"]
    assert (part["cuda"], part["index_url"]) == ("12.6", "https://download.pytorch.org/whl/cu126")


@pytest.mark.parametrize(("gpu", "said"), [("10de:13fe", True), ("10de:1b3f", False), ("10de:2f7e", False)])
def test_wheels_that_serve_a_part_of_an_architecture_are_said(gpu, said):
    """JAX begins with Maxwell's second generation."""
    warnings = plan(facts(gpus=[gpu]), **environment("jax", "0.9"))["warnings"]
    assert any("some Maxwell GPUs and not others" in line for line in warnings) is said


def test_tensorflow_on_an_unlisted_blackwell_warns():
    assert "TensorFlow" in plan(facts(gpus=["10de:2f7e"]), **environment("tensorflow", "2.20"))["warnings"][-1]


def test_a_branch_ends_with_its_last_day():
    assert plan(facts(), today=date(2027, 3, 31))["driver"]["branch"] == "595"
    assert plan(facts(), today=date(2027, 4, 1))["driver"]["branch"] == "580"


@pytest.mark.parametrize(
    ("node", "given", "toolkits", "default"),
    [
        (facts(), {}, ["13.2"], "13.2"),
        (facts(gpus=[V100]), {}, ["12.9"], "12.9"),
        (facts(), {"cuda_toolkits": []}, [], None),
        (facts(), ALLOWED, [], None),
        (facts(), {"cuda_toolkits": ["12.9", "13.0"]}, ["12.9", "13.0"], "13.0"),
        (facts(), {"cuda_toolkits": ["12.9", "13.0"], "cuda_default": "12.9"}, ["12.9", "13.0"], "12.9"),
        (facts(gpus=["10de:1b3f"]), {}, ["12.9"], "12.9"),
        (facts("ubuntu-26.04"), {}, [], None),
        (facts("ubuntu-26.04"), {"nvidia_driver_branch": "615"}, ["13.4"], "13.4"),
    ],
)
def test_cuda(node, given, toolkits, default):
    cuda = plan(node, **given)["cuda"]
    assert [toolkit["version"] for toolkit in cuda["toolkits"]] == toolkits
    assert cuda["default"] == default
    assert [toolkit["packages"] for toolkit in cuda["toolkits"]] == [
        [f"cuda-toolkit-{version.replace('.', '-')}", "g++"] for version in toolkits
    ]


@pytest.mark.parametrize(
    ("system", "version", "packages", "host_compiler"),
    [
        ("debian-12", "11.8", ["nvidia-cuda-toolkit", "g++"], "g++-11"),
        ("debian-13", "12.4", ["nvidia-cuda-toolkit"], None),
    ],
)
def test_the_distributions_toolkit_is_the_one_it_carries(system, version, packages, host_compiler):
    made = plan(facts(system), **ALLOWED, cuda_source="distribution")
    cuda = made["cuda"]
    (toolkit,) = cuda["toolkits"]
    assert (toolkit["version"], toolkit["packages"], toolkit["host_compiler"]) == (version, packages, host_compiler)
    assert (cuda["home"], cuda["repository"], cuda["apt_components"]) == ("/usr", None, ["contrib", "non-free"])
    assert not any("glibc" in warning for warning in made["warnings"])  # Debian's own package has it repaired
    assert not any(name.startswith("g++") for name in cuda["retire_packages"])
    gone = plan(facts(system), **ALLOWED, cuda_source="distribution", cuda_state="absent")["cuda"]["retire_packages"]
    assert {"nvidia-cuda-toolkit", "g++", "g++-11", "g++-13"} <= set(gone)


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_a_toolkit_of_wheels_lies_where_nvidias_does_and_needs_no_repository(architecture):
    node = machines.changed(facts("ubuntu-24.04"), {"system": {"architecture": architecture}})
    cuda = plan(node, cuda_source="pypi", nvidia_driver_branch="580")["cuda"]
    (toolkit,) = cuda["toolkits"]
    assert (cuda["source"], cuda["repository"], cuda["home"]) == ("pypi", None, "/usr/local/cuda")
    assert (toolkit["version"], toolkit["prefix"], toolkit["full_features"]) == ("13.0", "/usr/local/cuda-13.0", True)
    assert toolkit["packages"] == ["g++", "python3-pip"]
    known = catalog.load().cuda_wheels["13.0"]["wheels"]
    assert [one["sha256"] for one in toolkit["wheels"]] == [one["sha256"][architecture] for one in known]
    assert "cuda-toolkit-13-0" in cuda["retire_packages"]


def test_wheels_of_one_release_are_of_one_release():
    """An nvvm of another release writes PTX that ptxas does not read."""
    for version, record in catalog.load().cuda_wheels.items():
        versions = {one["name"]: one["version"] for one in record["wheels"]}
        compiler = {versions[f"nvidia-{part}"] for part in ("cuda-nvcc", "nvvm", "cuda-crt")}
        assert len(compiler) == 1, version
        assert compiler.pop().startswith(f"{version}."), version
        assert record["release"].startswith(f"{version}."), version
        assert version in catalog.load().toolkits


def test_a_toolkit_of_wheels_takes_less_room_than_one_of_packages():
    rooms = [sum(plan(facts(), cuda_source=one)["disk"].values()) for one in ("pypi", "nvidia")]
    assert rooms[1] - rooms[0] == 11000


@pytest.mark.parametrize(
    ("system", "given", "chosen"),
    [
        ("ubuntu-24.04", {}, "pypi"),
        ("ubuntu-24.04", {"cuda_toolkits": ["12.9"]}, "nvidia"),
        ("ubuntu-24.04", {"cuda_toolkits": ["12.9"], "cudnn_version": "9.20.0"}, "nvidia"),
        ("debian-13", ALLOWED, "distribution"),
    ],
)
def test_the_drivers_own_source_is_the_index_where_the_distribution_has_no_toolkit(system, given, chosen):
    given = {"nvidia_driver_source": "distribution", "cuda_source": "auto", **given}
    cuda = plan(facts(system), **given)["cuda"]
    assert cuda["source"] == chosen
    assert cuda["toolkits"]


def test_wheels_that_do_not_fit_are_not_chosen_by_themselves():
    """Volta has no CUDA 13."""
    node = facts("ubuntu-24.04", gpus=[V100])
    cuda = plan(node, nvidia_driver_source="distribution", cuda_source="auto")["cuda"]
    assert (cuda["source"], cuda["toolkits"]) == ("nvidia", [])


def test_the_default_toolkit_is_reached_by_nvidias_link():
    cuda = plan(facts(), cuda_toolkits=["12.9", "13.0"])["cuda"]
    assert (cuda["home"], cuda["apt_components"]) == ("/usr/local/cuda", [])
    assert [toolkit["prefix"] for toolkit in cuda["toolkits"]] == ["/usr/local/cuda-12.9", "/usr/local/cuda-13.0"]


def test_nvcc_compiles_for_each_gpu_once():
    assert plan(facts(gpus=[RTX_5090, T4, T4]))["cuda"]["compute_capabilities"] == ["7.5", "12.0"]


def test_absent_takes_everything_back_whatever_else_is_requested():
    requested = {"cuda_toolkits": ["13.0"], "cuda_default": "13.0", "cudnn_version": "9.20.0"}
    made = plan(facts(), **requested, cuda_state="absent")
    assert (made["cuda"]["toolkits"], made["cuda"]["default"], made["cuda"]["home"]) == ([], None, None)
    assert made["cuda"]["repository"] is None
    assert made["libraries"]["cudnn"] is None
    assert {"cuda-toolkit-13-0", "g++", "g++-11"} <= set(made["cuda"]["retire_packages"])
    assert {"libcudnn9-cuda-12", "libnccl2", "libnvinfer11"} <= set(made["libraries"]["retire_packages"])


def test_another_toolkit_is_retired_and_so_is_the_library_of_another_major():
    made = plan(facts("debian-12"), cuda_toolkits=["12.9"], cudnn_version="9.20.0")
    assert {"nvidia-cuda-toolkit", "g++-11"} <= set(made["cuda"]["retire_packages"])
    assert "cuda-toolkit-12-9" not in made["cuda"]["retire_packages"]
    assert {"cuda-toolkit-12-8", "cuda-toolkit-13-0"} <= set(made["cuda"]["retire_packages"])
    assert "libcudnn9-cuda-12" not in made["libraries"]["retire_packages"]
    assert "libcudnn9-cuda-13" in made["libraries"]["retire_packages"]


def test_a_mirror_of_nvidias_repository_stands_for_it_everywhere():
    url = "https://mirror.example/debian13/"
    mirrored = {
        "gpulab_nvidia_repository_url": url,
        "gpulab_nvidia_repository_key": "files/mirror.asc",
        "gpulab_nvidia_repository_fingerprint": "A" * 40,
        "container_toolkit_engines": ["docker"],
    }
    made = plan(facts("debian-13"), **mirrored)
    for part in ("driver", "cuda"):
        repository = made[part]["repository"]
        assert (repository["url"], repository["key_url"]) == (url, url + "8793F200.pub")
        assert (repository["key_file"], repository["key_fingerprint"]) == ("files/mirror.asc", "A" * 40)
    assert made["container_toolkit"]["repository"]["url"].startswith("https://nvidia.github.io")


def test_a_toolkit_newer_than_the_driver_warns_of_ptx():
    made = plan(facts(), nvidia_driver_branch="580", cuda_toolkits=["13.2"])
    assert made["cuda"]["toolkits"][0]["full_features"] is False
    assert "595.45.04" in made["warnings"][0]


FORWARD = {"cuda_compat": True, "cuda_toolkits": ["13.2"]}
COMPAT = {
    "a driver that runs it but for its PTX": (facts(), {"nvidia_driver_branch": "580"}),
    "a driver of the CUDA before": (facts(), ALLOWED),
    "another data-centre board": (facts(gpus=[T4, H100]), {"nvidia_driver_branch": "580"}),
    "dnf": (facts("rhel-9"), {"nvidia_driver_branch": "580"}),
}


@pytest.mark.parametrize(("node", "given"), COMPAT.values(), ids=COMPAT)
def test_forward_compatibility_where_it_is_requested_and_needed(node, given):
    made = plan(node, **given, **FORWARD)
    (toolkit,) = made["cuda"]["toolkits"]
    assert toolkit["packages"][::2] == ["cuda-toolkit-13-2", "cuda-compat-13-2"]
    assert (toolkit["compat"], toolkit["full_features"]) == ("/usr/local/cuda-13.2/compat", True)
    assert "cuda-compat-13-2" not in made["cuda"]["retire_packages"]
    assert "cuda-compat-13-1" in made["cuda"]["retire_packages"]
    assert made["cuda"]["repository"]["id"].startswith("nvidia-cuda-")
    assert any("cuda-compat 13.2 PROGRAM" in line for line in made["cuda"]["because"])
    assert not any("PTX" in line for line in made["warnings"])


NO_COMPAT = {
    "not requested": (facts(), {"nvidia_driver_branch": "580", "cuda_toolkits": ["13.2"]}),
    "the driver runs it in full": (facts(), FORWARD),
    "the driver runs it in full, on any board": (facts(gpus=[RTX_5090]), FORWARD),
    "no toolkit": (facts(), {**FORWARD, "cuda_toolkits": []}),
    "absent": (facts(), {**FORWARD, "nvidia_driver_branch": "580", "cuda_state": "absent"}),
    "the plan's own choice": (facts(), {"cuda_compat": True, "nvidia_driver_branch": "580"}),
}


@pytest.mark.parametrize(("node", "given"), NO_COMPAT.values(), ids=NO_COMPAT)
def test_no_forward_compatibility_elsewhere_and_what_was_brought_is_retired(node, given):
    cuda = plan(node, **given)["cuda"]
    assert [toolkit for toolkit in cuda["toolkits"] if toolkit["compat"] or len(toolkit["packages"]) != 2] == []
    assert "cuda-compat-13-2" in cuda["retire_packages"]


def test_one_toolkit_of_two_needs_forward_compatibility():
    cuda = plan(facts(), nvidia_driver_branch="580", cuda_compat=True, cuda_toolkits=["13.0", "13.2"])["cuda"]
    assert [toolkit["compat"] for toolkit in cuda["toolkits"]] == [None, "/usr/local/cuda-13.2/compat"]


@pytest.mark.parametrize(("gpu", "said"), [(H100, True), (RTX_5090, False)])
def test_the_wish_for_forward_compatibility_is_named_where_it_helps(gpu, said):
    made = plan(facts(gpus=[gpu]), nvidia_driver_branch="580", cuda_toolkits=["13.2"])
    assert ("cuda_compat: true" in made["warnings"][0]) is said


def test_the_refusal_of_a_toolkit_names_the_wish_where_it_helps():
    for gpu, said in ((H100, True), ("10de:2684", False)):
        remedy = refusal(facts(gpus=[gpu]), **ALLOWED, cuda_toolkits=["13.0"]).remedy
        assert ("cuda_compat: true" in remedy) is said
    assert "cuda_compat" not in refusal(facts(), **ALLOWED, cuda_toolkits=["13.4"]).remedy


def test_an_old_toolkit_names_the_host_compiler_it_accepts_and_its_glibc():
    made = plan(facts("ubuntu-26.04"), cuda_toolkits=["12.6"])
    assert made["cuda"]["toolkits"][0]["host_compiler"] == "g++-13"
    assert "glibc 2.43" in made["warnings"][0]


@pytest.mark.parametrize(
    ("platform", "version", "first"),
    [("ubuntu-26.04", "13.2", "13.3"), ("rhel-10", "12.9", "13.0"), ("rhel-10", "13.2", None)],
)
def test_a_toolkit_that_nobody_has_seen_for_the_system_is_said(platform, version, first):
    said = [line for line in plan(facts(platform), cuda_toolkits=[version])["warnings"] if "is known in" in line]
    assert [f"No CUDA older than {first}" in line for line in said] == [True] * bool(first)


def test_libraries_are_tied_to_the_default_toolkit():
    made = plan(
        facts(), cuda_toolkits=["12.9"], cudnn_version="9.10.2", nccl_version="2.27.5", tensorrt_version="10.16.1"
    )
    libraries = made["libraries"]
    assert libraries["nccl"]["packages"] == ["libnccl2=2.27.5-1+cuda12.9", "libnccl-dev=2.27.5-1+cuda12.9"]
    assert libraries["cudnn"]["packages"] == ["libcudnn9-cuda-12=9.10.2.*", "libcudnn9-dev-cuda-12=9.10.2.*"]
    assert libraries["tensorrt"]["packages"] == ["libnvinfer10=10.16.1.*+cuda12.*"]


@pytest.mark.parametrize(
    ("given", "right", "wrong"),
    [
        ({"cudnn_version": "9.1"}, "9.1.0.70-1", "9.13.0.50-1"),
        ({"cudnn_version": "9.1.0"}, "9.1.0.70-1", "9.1.1.17-1"),
        ({"cudnn_version": "9.1.0.70"}, "9.1.0.70-1", "9.1.0.71-1"),
        ({"tensorrt_version": "10.1"}, "10.1.0.27-1+cuda12.4", "10.14.1.48-1+cuda12.9"),
        ({"tensorrt_version": "10.1.0.27"}, "10.1.0.27-1+cuda12.4", "10.1.0.27-1+cuda11.8"),
    ],
)
def test_a_short_version_takes_no_release_that_only_begins_with_it(given, right, wrong):
    (library,) = (part for part in plan(facts(gpus=[V100]), **given)["libraries"].values() if isinstance(part, dict))
    patterns = {package.partition("=")[2] for package in library["packages"]}
    assert {(fnmatchcase(right, pattern), fnmatchcase(wrong, pattern)) for pattern in patterns} == {(True, False)}


@pytest.mark.parametrize("system", ["rhel-9", "rhel-10"])
def test_cuda_by_dnf(system):
    made = plan(facts(system), cuda_toolkits=["13.0", "13.1"], cuda_default="13.0", nccl_version="2.27.7")
    cuda, libraries = made["cuda"], made["libraries"]
    assert [toolkit["packages"] for toolkit in cuda["toolkits"]] == [
        ["cuda-toolkit-13-0", "gcc-c++"],
        ["cuda-toolkit-13-1", "gcc-c++"],
    ]
    assert cuda["repository"] == made["driver"]["repository"]
    assert libraries["nccl"]["packages"] == ["libnccl=2.27.7-1+cuda13.0", "libnccl-devel=2.27.7-1+cuda13.0"]
    assert not {"gcc-c++", "g++", "cuda-toolkit-13-0"} & set(cuda["retire_packages"])
    assert {"cuda-toolkit-12-9"} <= set(cuda["retire_packages"])


def test_container_toolkit_by_dnf():
    node = facts("rhel-9")
    assert plan(node)["container_toolkit"]["engines"] == []
    made = plan(node, container_toolkit_engines=["podman", "docker"])
    part = made["container_toolkit"]
    assert part["engine_packages"] == ["podman"]
    assert "nvidia-container-toolkit=1.20.0-1" in part["packages"]
    assert (part["repository"]["format"], part["repository"]["url"].endswith("/rpm/x86_64")) == ("rpm", True)
    assert any("Docker is not installed" in warning for warning in made["warnings"])


def test_container_toolkit_for_the_engines_found():
    node = facts()
    assert plan(node)["container_toolkit"]["packages"] == []
    node["engines"]["docker"] = "20.10.24"
    part = plan(node)["container_toolkit"]
    assert part["engines"] == ["docker"]
    assert part["retire_packages"] == []
    assert part["packages"] == [
        "nvidia-container-toolkit=1.20.0-1",
        "nvidia-container-toolkit-base=1.20.0-1",
        "libnvidia-container-tools=1.20.0-1",
        "libnvidia-container1=1.20.0-1",
    ]
    assert part["repository"]["url"].endswith("/stable/deb/amd64")


def toolkit(platform="debian-12", engines=None, **given):
    node = facts(platform)
    node["engines"].update(engines or {})
    return plan(node, **{f"container_toolkit_{name}": value for name, value in given.items()})


@pytest.mark.parametrize(
    ("docker", "required", "settings"),
    [
        ("20.10.24", [], ["runtimes"]),
        ("24.0.9", [], ["runtimes"]),
        ("25.0", ["features"], []),
        ("29.7.2", ["features"], []),
    ],
)
def test_docker_takes_gpus_by_cdi_as_soon_as_it_can(docker, required, settings):
    part = toolkit(engines={"docker": docker})["container_toolkit"]
    assert (list(part["docker"]["required"]), list(part["docker"]["settings"])) == (required, settings)
    assert part["engine_packages"] == []
    assert docker in part["because"][-1]


MISSING = {
    "debian 12": (("debian-12", "distribution"), ["docker.io"], ["runtimes"]),
    "debian 13": (("debian-13", "distribution"), ["docker.io", "docker-cli"], []),
    "ubuntu 24.04": (("ubuntu-24.04", "distribution"), ["docker.io"], ["runtimes"]),
    "ubuntu 26.04": (("ubuntu-26.04", "distribution"), ["docker.io"], []),
    "docker.com's": (("debian-12", "docker"), ["docker-ce", "docker-ce-cli", "containerd.io"], []),
    "docker.com's on red hat": (("rhel-10", "docker"), ["docker-ce", "docker-ce-cli", "containerd.io"], []),
}


@pytest.mark.parametrize(("requested", "packages", "settings"), MISSING.values(), ids=MISSING)
def test_a_missing_docker_is_installed_from_the_requested_source(requested, packages, settings):
    platform, source = requested
    part = plan(facts(platform), container_toolkit_engines=["docker"], container_toolkit_docker_source=source)[
        "container_toolkit"
    ]
    assert part["engine_packages"][: len(packages)] == packages
    assert list(part["docker"]["settings"]) == settings
    assert (part["engine_repository"] is not None) == (source == "docker")


@pytest.mark.parametrize(
    ("platform", "packages"),
    [
        ("debian-12", {"podman", "uidmap", "slirp4netns", "fuse-overlayfs", "dbus-user-session"}),
        ("debian-13", {"podman", "uidmap", "passt", "dbus-user-session"}),
        ("ubuntu-26.04", {"podman", "uidmap", "passt", "dbus-user-session"}),
        ("rhel-10", {"podman"}),
    ],
)
def test_a_missing_podman_comes_with_what_users_who_are_not_root_need(platform, packages):
    part = plan(facts(platform), container_toolkit_engines=["podman"])["container_toolkit"]
    assert set(part["engine_packages"]) == packages


def test_a_missing_containerd_is_installed_and_docker_is_left_out():
    part = plan(facts("debian-13"), container_toolkit_engines=["containerd"])["container_toolkit"]
    assert (part["engines"], part["engine_packages"], part["docker"]) == (["containerd"], ["containerd"], None)
    assert "nvidia-container-toolkit=1.20.0-1" in part["packages"]


def test_docker_com_has_a_suite_for_each_release():
    given = {"container_toolkit_engines": ["docker"], "container_toolkit_docker_source": "docker"}
    repository = plan(facts("ubuntu-24.04"), **given)["container_toolkit"]["engine_repository"]
    assert (repository["url"], repository["suite"]) == ("https://download.docker.com/linux/ubuntu", "noble")


def test_docker_com_has_a_directory_for_each_release_of_red_hat():
    given = {"container_toolkit_engines": ["docker"], "container_toolkit_docker_source": "docker"}
    repository = plan(facts("rhel-9"), **given)["container_toolkit"]["engine_repository"]
    assert repository["url"] == "https://download.docker.com/linux/rhel/9/x86_64/stable"
    assert repository["key_fingerprint"] == "060A61C51B558A7F742B77AAC52FEB6B621E9F35"


@pytest.mark.parametrize(
    ("platform", "given", "start"),
    [
        ("rhel-9", {"docker_source": "docker"}, True),
        ("rhel-9", {}, False),  # somebody else's, who may have stopped it
        ("debian-12", {"docker_source": "docker"}, False),  # its package does it
    ],
)
def test_docker_is_started_where_gpulab_brought_it_and_its_packages_leave_that_out(platform, given, start):
    part = toolkit(platform, engines={"docker": "29.7.2"}, **given)["container_toolkit"]
    assert part["docker"]["start"] is start


def test_a_docker_that_is_there_stays_whatever_the_source():
    part = toolkit(engines={"docker": "20.10.24"}, docker_source="docker")["container_toolkit"]
    assert (part["engine_packages"], part["engine_repository"]) == ([], None)


def test_an_engine_nobody_has_packages_for_is_said():
    given = {"container_toolkit_engines": ["docker"]}
    planned = plan(facts("rhel-9"), **given)
    assert planned["container_toolkit"]["engine_packages"] == []
    assert "Docker is not installed" in planned["warnings"][-1]


@pytest.mark.parametrize(
    ("version", "settings", "said"),
    [
        ("1.6.20", None, "has no CDI"),
        ("1.7.24", None, "enable_cdi = true"),
        ("1.7.24", {"cdi": False, "nvidia_runtime": False, "kubernetes": True}, "enable_cdi = true"),
        ("1.7.24", {"cdi": True, "nvidia_runtime": False, "kubernetes": True}, None),
        ("1.7.24", {"cdi": False, "nvidia_runtime": True, "kubernetes": True}, None),
        ("2.1.3", None, None),
        (None, None, "enable_cdi = true"),
    ],
)
def test_a_containerd_without_cdi_is_said(version, settings, said):
    changes = {"engines": {"containerd": version}, "containers": {"containerd": settings}}
    made = plan(machines.changed(facts("debian-13"), changes), container_toolkit_engines=["containerd"])
    told = [line for line in made["warnings"] if "CDI" in line]
    assert [said in line for line in told] == ([True] if said else [])


def test_a_docker_that_reads_other_settings_is_left_alone_and_named():
    made = plan(SNAP_DOCKER)
    assert made["container_toolkit"]["engines"] == []
    assert any("/var/snap/docker/current/config/daemon.json" in line for line in made["warnings"])
    assert plan(SNAP_DOCKER, container_toolkit_engines=["podman"])["container_toolkit"]["engines"] == ["podman"]


@pytest.mark.parametrize(
    ("platform", "compiler", "packages", "warned"),
    [
        ("ubuntu-22.04", "gcc-12", ["dkms", "gcc-12"], False),
        ("ubuntu-22.04", "gcc-11", ["dkms"], False),
        ("ubuntu-22.04", None, ["dkms"], False),
        ("ubuntu-22.04", "gcc-15", ["dkms"], True),
        ("debian-12", "clang-18", ["dkms"], True),
        ("rhel-9", "gcc-11", ["dkms"], False),
        ("rhel-9", "gcc-14", ["dkms"], True),
    ],
)
def test_modules_are_built_by_the_compiler_of_the_kernel(platform, compiler, packages, warned):
    node = facts(platform)
    node["kernels"] = [{**one, "compiler": compiler} for one in node["kernels"]]
    made = plan(node)
    assert made["driver"]["build_packages"] == packages
    assert any(f"was built by {compiler}" in line for line in made["warnings"]) is warned


@pytest.mark.parametrize(("podman", "said"), [("3.4.4", True), ("4.1.0", False), ("5.4.2", False)])
def test_a_podman_without_cdi_is_said(podman, said):
    assert any("Podman" in line for line in toolkit(engines={"podman": podman})["warnings"]) == said


def test_a_toolkit_to_be_removed_is_given_up_with_every_package():
    part = toolkit(engines={"docker": "26.1.5", "nvidia_container_toolkit": "1.20.0"}, state="absent")[
        "container_toolkit"
    ]
    assert (part["engines"], part["packages"], part["docker"]) == ([], [], None)
    assert "libnvidia-container1" in part["retire_packages"]
    assert part["repository"]["id"] == "nvidia-container-toolkit-deb"


@pytest.mark.parametrize(
    ("node", "given", "expected"),
    [
        (facts(), environment("pytorch", "2.9"), ("2.9.1", "13.0", "torch==2.9.1")),
        (facts(gpus=[V100]), environment("pytorch", "2.9"), ("2.9.1", "12.8", "torch==2.9.1")),
        (facts(gpus=[V100]), environment("pytorch", "2.11"), ("2.11.0", "12.6", "torch==2.11.0")),
        (facts(), environment("pytorch", "2.9", index="cu126"), ("2.9.1", "12.6", "torch==2.9.1")),
        (facts(), {**ALLOWED, **environment("pytorch", "2.9")}, ("2.9.1", "12.8", "torch==2.9.1")),
        (facts(), environment("tensorflow", "2.20"), ("2.20.0", "12.5", "tensorflow[and-cuda]==2.20.0")),
        (facts(), environment("jax", "0.9"), ("0.9.2", "13.0", "jax[cuda13]==0.9.2")),
        (facts(gpus=[V100]), environment("jax", "0.9"), ("0.9.2", "12.1", "jax[cuda12]==0.9.2")),
        (facts(), environment("pytorch", "2.13", index="cpu"), ("2.13.0", None, "torch==2.13.0")),
        (facts(), environment("tensorflow", "2.20", index="cpu"), ("2.20.0", None, "tensorflow==2.20.0")),
        (facts(), environment("jax", "0.9", index="cpu"), ("0.9.2", None, "jax==0.9.2")),
    ],
)
def test_environments(node, given, expected):
    part = plan(node, **given)["environments"][0]
    assert (part["version"], part["cuda"], part["requirements"][0]) == expected


def test_the_pytorch_index_is_that_of_the_build():
    part = plan(facts(), **environment("pytorch", "2.9", packages=["numpy"]))["environments"][0]
    assert part["index_url"] == "https://download.pytorch.org/whl/cu130"
    assert part["requirements"] == ["torch==2.9.1", "numpy"]


@pytest.mark.parametrize(
    ("version", "cuda"), [("2.15", "13.2"), ("2.14", "13.0"), ("2.10", "12.8")], ids=["13.2", "13.0", "12.8"]
)
def test_pypi_has_one_build_of_pytorch(version, cuda):
    (part,) = plan(facts(), **environment("pytorch", version, index="pypi"))["environments"]
    assert (part["cuda"], part["index_url"], part["index_packages"]) == (cuda, None, [])


def test_the_build_on_pypi_is_refused_where_it_does_not_run():
    assert refusal(facts(gpus=[V100]), **environment("pytorch", "2.14", index="pypi")).code == "P035"
    assert refusal(facts(), **environment("jax", "0.9", index="pypi")).code == "P034"


@pytest.mark.parametrize(
    ("version", "asked", "wanted"),
    [
        ("2.0.1", "torchaudio", "torchaudio==2.0.2"),
        ("2.9", "torchaudio", "torchaudio==2.9.1"),
        ("2.9", "torchaudio<2.9", "torchaudio<2.9"),  # whoever names a version gets that
        ("2.11", "torchaudio", "torchaudio"),  # those of the stable ABI fit all that came after
    ],
)
def test_torchaudio_is_the_one_that_was_built_for_the_release(version, asked, wanted):
    wish = environment("pytorch", version, index="cpu", packages=[asked, "torchvision"])
    assert plan(facts(), **wish)["environments"][0]["requirements"][1:] == [wanted, "torchvision"]


@pytest.mark.parametrize(
    ("node", "given", "runtime"),
    [
        (facts(), {}, "onnxruntime-gpu>=1.24"),
        (facts(gpus=[V100]), {}, "onnxruntime-gpu<1.24"),
        (facts(), ALLOWED, "onnxruntime-gpu<1.24"),
    ],
    ids=["hopper", "volta", "an older driver"],
)
def test_an_environment_without_a_framework_has_packages_for_the_nodes_cuda(node, given, runtime):
    (part,) = plan(node, **given, **environment("sets", ["inference"], packages=["six"]))["environments"]
    assert (part["framework"], part["version"], part["cuda"], part["index_url"]) == (None, None, None, None)
    assert (part["requirements"], part["python"]) == (["onnx", runtime, "six"], "3.11")


def test_an_environment_without_a_framework_and_without_cuda():
    (part,) = plan(facts(), **environment("sets", ["inference"], index="cpu", python="3.14"))["environments"]
    assert (part["requirements"], part["python"]) == (["onnx", "onnxruntime"], "3.14")


@pytest.mark.parametrize(
    ("platform", "given", "python"),
    [
        ("ubuntu-26.04", {"index": "cu126"}, "3.13"),
        ("ubuntu-26.04", {}, "3.14"),
        ("ubuntu-22.04", {}, "3.11"),
        ("ubuntu-22.04", {"index": "cpu"}, "3.10"),
    ],
)
def test_the_python_is_one_that_the_sets_have_wheels_for(platform, given, python):
    wish = environment("pytorch", "2.12", sets=["compilers"], **given)
    assert plan(facts(platform), **wish)["environments"][0]["python"] == python


def test_a_package_of_two_sets_is_asked_for_once():
    (part,) = plan(facts(), **environment("pytorch", "2.9", sets=["distributed", "llm"]))["environments"]
    assert part["requirements"] == ["torch==2.9.1", "accelerate", "transformers", "datasets"]


def test_a_set_of_one_release_comes_with_it():
    (part,) = plan(facts(), **environment("pytorch", "2.14.0", sets=["vllm"]))["environments"]
    assert part["requirements"] == ["torch==2.14.0", "vllm==0.33.0"]


@pytest.mark.parametrize(
    ("given", "runtime"),
    [({"index": "cpu"}, "onnxruntime"), ({"index": "cu126"}, "onnxruntime-gpu<1.24"), ({}, "onnxruntime-gpu>=1.24")],
)
def test_sets_of_packages_fit_the_build(given, runtime):
    wish = environment("pytorch", "2.9", sets=["inference", "distributed"], packages=["six"], **given)
    (part,) = plan(facts(), **wish)["environments"]
    assert part["requirements"] == ["torch==2.9.1", "onnx", runtime, "accelerate", "six"]


def test_a_kernel_of_jupyter_has_what_it_needs():
    wishes = environment("pytorch", "2.9", packages=["six"], jupyter=True)
    (part,) = plan(facts(), **wishes)["environments"]
    assert (part["jupyter"], part["requirements"][1:]) == (True, ["six", "ipykernel"])


def test_the_pytorch_index_without_cuda_is_cpu():
    part = plan(facts(), **environment("pytorch", "2.9", index="cpu"))["environments"][0]
    assert part["index_url"] == "https://download.pytorch.org/whl/cpu"
    assert part["index_packages"] == ["torch", "torchvision", "torchaudio"]


@pytest.mark.parametrize(("gpus", "workers"), [([], "16"), ([V100], "16"), ([V100] * 3, "5"), ([V100] * 32, "1")])
def test_workers_are_a_gpus_share_of_the_cores(gpus, workers):
    given = {"gpulab_without_gpu": True, **environment("jax", "0.9", index="cpu")}
    part = plan(facts(gpus=gpus, cpu_cores=16), **given)["environments"][0]
    assert part["variables"] == {"GPULAB_NUM_WORKERS": workers}


def test_workers_are_what_the_proof_has_measured():
    given = environment("jax", "0.9", index="cpu")
    made = {**facts(cpu_cores=16), "data_loading": {"workers": 6}}
    assert plan(made, **given)["environments"][0]["variables"] == {"GPULAB_NUM_WORKERS": "6"}


def test_memory_is_taken_as_it_is_needed():
    for framework, version, variable in (
        ("pytorch", "2.9", "PYTORCH_CUDA_ALLOC_CONF"),
        ("tensorflow", "2.20", "TF_FORCE_GPU_ALLOW_GROWTH"),
    ):
        assert variable in plan(facts(), **environment(framework, version))["environments"][0]["variables"]


def test_uv_is_named_with_the_hash_of_its_wheel_for_the_node():
    here, there = plan(facts())["uv"], plan(facts("ubuntu-24.04", architecture="aarch64"))["uv"]
    assert here["version"] == there["version"]
    assert here["sha256"] != there["sha256"]


@pytest.mark.parametrize(("platform", "headers"), [("debian-12", "libpython3-dev"), ("rhel-9", "python3-devel")])
def test_pytorch_finds_what_it_compiles_with(platform, headers):
    """Without a compiler and Python.h, torch.compile and Triton fail."""
    assert headers in plan(facts(platform), **environment("pytorch", "2.9"))["uv"]["packages"]
    assert headers not in plan(facts(platform), **environment("jax", "0.9"))["uv"]["packages"]


def test_conda_takes_micromamba_for_the_node_and_the_cuda_of_the_planned_driver():
    here, there = plan(facts())["conda"], plan(facts("ubuntu-24.04", architecture="aarch64"))["conda"]
    assert here["url"].endswith(f"{here['version']}/micromamba-linux-64")
    assert there["url"].endswith("/micromamba-linux-aarch64")
    assert here["sha256"] != there["sha256"]
    assert plan(facts(), nvidia_driver_branch="580")["conda"]["cuda"] == "13.0"


@pytest.mark.parametrize(
    ("gpus", "given", "cuda"),
    [([V100], {}, "12.9"), ([H100, "10de:1b3f"], {}, "12.9"), ([V100], ALLOWED, "12.2"), ([H100], {}, "13.2")],
    ids=["volta", "an unlisted pascal beside hopper", "an older driver", "hopper"],
)
def test_conda_takes_no_cuda_that_has_dropped_a_gpu(gpus, given, cuda):
    assert plan(facts(gpus=gpus), **given)["conda"]["cuda"] == cuda


@pytest.mark.parametrize(
    ("platform", "framework", "version", "python"),
    [
        ("debian-12", "pytorch", "2.9", "3.11"),
        ("ubuntu-26.04", "tensorflow", "2.20", "3.13"),
        ("rhel-9", "jax", "0.11", "3.12"),
        ("rhel-9", "pytorch", "2.15", "3.11"),
        ("ubuntu-26.04", "jax", "0.6", "3.13"),
        ("ubuntu-26.04", "jax", "0.7", "3.14"),
    ],
)
def test_python_is_the_platforms_own_or_the_nearest_with_wheels(platform, framework, version, python):
    assert plan(facts(platform), **environment(framework, version))["environments"][0]["python"] == python


def test_tensorflow_on_blackwell_warns():
    assert "TensorFlow" in plan(facts(gpus=[RTX_5090]), **environment("tensorflow", "2.20"))["warnings"][-1]


def test_fabric_manager_has_exactly_the_drivers_version():
    node = facts("ubuntu-24.04")
    assert plan(node)["fabric_manager"]["needed"] is False
    node["pci"]["nvswitches"] = [{"address": "0000:aa:00.0", "device": "10de:22a3"}]
    part = plan(node)["fabric_manager"]
    assert part["version"] == "595.91.07"
    assert part["packages"] == ["nvidia-fabricmanager=595.91.07*", "libnvidia-nscq=595.91.07*"]
    assert part["modules"] == []


@pytest.mark.parametrize("board", [B200, B300])
def test_nvlink_5_has_its_subnet_manager_and_what_that_goes_through(board):
    made = plan(facts("ubuntu-24.04", [board]))
    assert made["fabric_manager"]["packages"] == [
        "nvidia-fabricmanager=595.91.07*",
        "libnvidia-nscq=595.91.07*",
        "libnvsdm=595.91.07*",
        "nvlsm",
    ]
    assert made["fabric_manager"]["modules"] == ["ib_umad"]
    assert made["warnings"] == []


def test_nvlink_5_with_ubuntus_driver_warns_of_the_subnet_manager():
    made = plan(facts("ubuntu-24.04", [B200]), **UBUNTU_595)
    assert made["fabric_manager"]["packages"] == ["nvidia-fabricmanager-595", "libnvidia-nscq-595", "nvlsm"]
    assert "nvlsm" in made["warnings"][0]


RACK = ["10.1.2.3", "10.1.2.4"]  # the first is the node's own


def in_rack(platform="ubuntu-24.04", *, active=False, **imex):
    """Return the facts of a node of a rack, whose daemon of IMEX is at work or not."""
    node = facts(platform, ["10de:2941"], architecture="aarch64")
    node["services"]["nvidia-imex"] = {"active": "active" if active else "inactive"}
    node["imex"].update(imex)
    return node


@pytest.mark.parametrize("board", ["10de:2941", "10de:31c2"])
def test_switches_of_the_rack_are_said_and_what_they_take_between_nodes(board):
    made = plan(facts("ubuntu-24.04", [board], architecture="aarch64"))
    assert made["fabric_manager"]["needed"] is made["imex"]["needed"] is False
    assert "switches of the rack" in made["fabric_manager"]["because"][0]
    assert "nvidia_driver_imex_nodes" in made["warnings"][0]


def test_who_keeps_the_nodes_of_imex_otherwise_is_not_warned():
    assert plan(in_rack(nodes=["10.1.2.9"], active=True))["warnings"] == []


@pytest.mark.parametrize(
    ("platform", "wishes", "package"),
    [
        ("ubuntu-24.04", {}, "nvidia-imex=595.91.07*"),
        ("rhel-9", {}, "nvidia-imex=595.91.07*"),
        ("ubuntu-24.04", UBUNTU_595, "nvidia-imex-595"),
    ],
)
def test_imex_has_exactly_the_drivers_version_and_the_nodes_that_are_named(platform, wishes, package):
    made = plan(in_rack(platform), nvidia_driver_imex_nodes=RACK, **wishes)
    assert made["imex"]["packages"] == [package]
    assert made["imex"]["nodes"] == RACK
    assert made["imex"]["restart"] is False
    assert made["warnings"] == []


@pytest.mark.parametrize(
    ("node", "nodes", "restart"),
    [
        (in_rack(nodes=["10.1.2.3"], own=True, active=True), RACK, True),
        (in_rack(nodes=["10.1.2.3"], own=True), RACK, False),
        (in_rack(nodes=RACK, own=True, active=True), RACK, False),
        (in_rack(nodes=RACK, active=True), RACK, False),
        (in_rack(nodes=RACK, own=True, active=True), [], True),
        (in_rack(nodes=RACK, active=True), [], False),
    ],
    ids=["other nodes", "not at work", "the same nodes", "somebody else's of the same nodes", "none any more", "none"],
)
def test_imex_is_stopped_only_for_other_nodes(node, nodes, restart):
    assert plan(node, nvidia_driver_imex_nodes=nodes)["imex"]["restart"] is restart


def test_imex_is_left_out_of_an_image_that_is_built_without_a_gpu():
    made = plan(facts(gpus=()), nvidia_driver_imex_nodes=RACK, gpulab_without_gpu=True)
    assert made["imex"]["needed"] is False


def test_imex_goes_with_the_driver():
    made = plan(in_rack(nodes=RACK, own=True), nvidia_driver_imex_nodes=["wrong"], nvidia_driver_state="absent")
    assert made["imex"]["needed"] is False


@pytest.mark.parametrize(
    ("modules", "container", "needed"),
    [
        ({}, False, False),
        ({"nouveau": {"loaded": True, "version": None}}, False, True),
        ({"nova_core": {"loaded": True, "version": None}}, False, True),
        ({"nvidia": {"loaded": True, "version": "580.178.04"}}, False, True),
        ({"nvidia": {"loaded": True, "version": "595.91.07"}}, False, False),
        ({"nouveau": {"loaded": True, "version": None}}, True, False),
    ],
)
def test_reboot(modules, container, needed):
    node = facts(container=container)
    node["modules"].update(modules)
    assert plan(node)["reboot"]["needed"] is needed


def test_nouveau_that_nothing_uses_takes_no_reboot():
    node = facts()
    node["modules"]["nouveau"]["loaded"] = node["nouveau"]["unused"] = True
    assert plan(node)["reboot"]["needed"] is False


def test_reboot_within_a_branch_is_not_asked_for_where_the_distribution_decides():
    node = facts()
    node["modules"]["nvidia"] = {"loaded": True, "version": "535.309.01"}
    assert plan(node, **ALLOWED)["reboot"]["needed"] is False


def test_disk_adds_up_per_filesystem():
    node = facts()
    assert plan(node, cuda_toolkits=[])["disk"] == {"/": 1000 + 400 + 200 + 300 + 150}
    node["filesystems"] = mounted(**{"/": "a", "/boot": "b", "/var": "c"})
    made = plan(node, **environment("pytorch", "2.9"))["disk"]
    assert made == {"/": 1000 + 200 + 8000 + 10000, "/var": 400 + 300 + 4000, "/boot": 150}
    of_conda = plan(node, conda_environments=[{"name": "a", "packages": ["six"]}, {"name": "b", "file": "b.yml"}])
    assert of_conda["disk"]["/"] == 1000 + 200 + 8000 + 2 * 15000


def mounted(**sources):
    """Return file systems by the places where they are mounted."""
    return [{**machines.FILESYSTEM, "mount": mount, "source": source} for mount, source in sources.items()]


def test_disk_of_one_file_system_is_one_sum_wherever_it_is_looked_at():
    node = facts()
    node["filesystems"] = mounted(**{"/": "a", "/boot": "a", "/var": "a"})
    assert plan(node, cuda_toolkits=[])["disk"] == {"/": 1000 + 400 + 200 + 300 + 150}


@pytest.mark.parametrize(
    ("mount", "mib"),
    [("/usr/src", 100 + 100), ("/usr/lib/modules", 100), ("/var/lib/dkms", 300), ("/var/cache/apt/archives", 400)],
)
def test_disk_counts_what_a_small_file_system_of_its_own_takes(mount, mib):
    node = facts()
    node["filesystems"] = mounted(**{"/": "a", mount: "b"})
    assert plan(node, cuda_toolkits=[])["disk"][mount] == mib


def test_disk_counts_environments_where_the_inventory_puts_them():
    node = facts()
    node["filesystems"] = mounted(**{"/": "a", "/data": "b", "/opt": "c"})
    wanted = {
        "environments_directory": "/data/venvs",
        "conda_directory": "/opt/conda",
        "conda_environments": [{"name": "a"}],
    }
    assert plan(node, **environment("pytorch", "2.9"), **wanted)["disk"]["/data"] == 10000
    assert plan(node, **wanted)["disk"]["/opt"] == 15000


ENROLLED = facts(secure_boot="enabled", mok_enrolled=True, mok_pending=False)
UNREADABLE = facts(secure_boot="enabled")


def test_the_enrolment_of_a_key_is_prepared_where_it_is_requested():
    planned = plan(UNENROLLED, **ENROLMENT)
    assert planned["secure_boot"]["enrol"] is True
    assert "stops for the console" in " ".join(reasons(planned))
    assert ENROLMENT["secure_boot_mok_password"] not in str(planned)


@pytest.mark.parametrize(
    ("node", "given"),
    [
        (facts(), {}),
        (ENROLLED, {}),
        (UNREADABLE, {}),
        (facts(container=True, secure_boot="enabled", mok_enrolled=False, mok_pending=True), {}),
        (facts("ubuntu-24.04", secure_boot="enabled", mok_enrolled=False, mok_pending=True), {}),
        (UNENROLLED, {"nvidia_driver_state": "absent"}),
        (AT_THE_CONSOLE, {"nvidia_driver_state": "absent"}),
    ],
    ids=["off", "enrolled", "unreadable", "a container", "signed by Ubuntu", "no driver", "no driver, and a key waits"],
)
def test_no_key_is_enrolled_where_none_is_needed(node, given):
    assert plan(node, **ENROLMENT, **given)["secure_boot"]["enrol"] is False


def test_a_key_of_which_nothing_is_known_is_said():
    said = "Whether the DKMS key is enrolled could not be read"
    assert [said in " ".join(plan(node)["warnings"]) for node in (UNREADABLE, ENROLLED)] == [True, False]


def test_every_part_gives_its_reasons():
    made = plan(facts(), **environment("pytorch", "2.9"))
    without = (made["disk"], made["uv"], made["conda"], made["host_types"], made["bundle"])
    assert all(part["because"] for part in made.values() if isinstance(part, dict) and part not in without)
    assert "CUDA 13.2 is the newest that driver branch 595 fully supports." in reasons(made)


def test_what_is_wrong_for_pip_may_be_right_for_conda():
    wish = {"name": "lab", "packages": ["cuda", "tensorflow-gpu"]}
    assert plan(facts(), conda_environments=[wish])["environments"] == []


# --- what is refused ---

GONE = facts(running="6.1.0-49-amd64", kernels=[kernel("6.1.0-50-amd64")])
FEDORA = {**facts(), "system": {**facts()["system"], "id": "fedora", "name": "Fedora 44", "version": "44"}}
RUNFILE = with_runfile("535.104.05")
NVIDIA_SMI = {"name": "nvidia-smi", "version": "535.309.01-1", "source": "distribution"}
PACKAGED = machines.changed(facts(), {"driver": {"packages": [NVIDIA_SMI]}})
SWITCHES = {"nvswitches": [{"address": "0000:aa:00.0", "device": "10de:1af1"}]}
SWITCHED = {**facts(), "pci": {**facts()["pci"], **SWITCHES}}


def with_dcgm_exporter():
    node = facts()
    node["monitoring"]["dcgm_exporter"]["installed"] = True
    return node


def with_docker_rivals(*names):
    node = facts("rhel-9")
    node["engines"]["docker_rivals"] = list(names)
    return node


def listening(*arguments):
    """Return facts of a node whose node exporter was given these arguments by its owner."""
    node = facts()
    node["monitoring"]["exporter"]["arguments"] = list(arguments)
    return node


REFUSALS = {
    "not a setting of a GPU": (facts(), {"gpu_settings_values": {"power_limit": 300}}, "P054", "power_limit_watts"),
    "no setting of one GPU": (facts(), {"gpu_settings_per_gpu": {0: {"fan": 30}}}, "P054", "gpu_settings_per_gpu[0]"),
    "one GPU without settings": (facts(), {"gpu_settings_per_gpu": {0: 300}}, "P055", "settings by name"),
    "power limit as text": (facts(), {"gpu_settings_values": {"power_limit_watts": "300"}}, "P055", "whole number"),
    "power limit of nothing": (facts(), {"gpu_settings_values": {"power_limit_watts": 0}}, "P055", "whole number"),
    "ECC as a number": (facts(), {"gpu_settings_values": {"ecc": 1}}, "P055", "true or false"),
    "one clock": (facts(), {"gpu_settings_values": {"locked_clocks_mhz": [1200]}}, "P055", "two whole numbers"),
    "clocks upside down": (facts(), {"gpu_settings_values": {"locked_clocks_mhz": [1200, 210]}}, "P055", "two whole"),
    "MIG instances as one": (
        facts(),
        {"gpu_settings_values": {"mig_instances": "3g.40gb"}},
        "P055",
        "list of profiles",
    ),
    "a compute instance": (
        facts(),
        {"gpu_settings_values": {"mig_instances": ["1c.3g.40gb"]}},
        "P055",
        "list of profiles",
    ),
    "instances without MIG": (
        facts(),
        {"gpu_settings_per_gpu": {0: {"mig": False, "mig_instances": ["3g.40gb"]}}},
        "P056",
        "3g.40gb",
    ),
    "a compute mode of old": (facts(), {"gpu_settings_values": {"compute_mode": "exclusive"}}, "P055", "prohibited"),
    "override of nothing": (facts(), {"tuning_overrides": {"swappiness": 1}}, "P050", "transparent_hugepage"),
    "a path for a sysctl": (facts(), {"tuning_overrides": {"kernel/../../../etc/x": 1}}, "P106", "no sysctl is called"),
    "a service that is told otherwise": (facts(), {"tuning_overrides": {"irqbalance": "off"}}, "P075", "irqbalance"),
    "no such interface": (facts(), {"nccl_interface": "eth0"}, "P052", "eth0"),
    "nccl-tests of unknown content": (
        facts(),
        {"nccl_tests_url": "https://mirror.example/nccl-tests.tar.gz"},
        "P076",
        "nccl_tests_sha256",
    ),
    "nccl-tests without NCCL": (
        facts(),
        {"nccl_tests_url": "https://mirror.example/nccl-tests.tar.gz", "nccl_tests_sha256": "0" * 64},
        "P076",
        "the plan has no NCCL",
    ),
    "nccl-tests with a CUDA that the driver does not run": (
        facts(),
        {
            **ALLOWED,
            **FORWARD,
            "nccl_version": "2.32.3",
            "nccl_tests_url": "https://mirror.example/nccl-tests.tar.gz",
            "nccl_tests_sha256": "0" * 64,
        },
        "P076",
        "CUDA 13.2 runs only with cuda-compat",
    ),
    "not a setting of NCCL": (facts(), {"nccl_overrides": {"nccl_debug": "INFO"}}, "P053", "nccl_debug"),
    "setting of two lines": (facts(), {"nccl_overrides": {"NCCL_DEBUG": "INFO\nA=1"}}, "P051", "NCCL_DEBUG"),
    "override with a list": (facts(), {"tuning_overrides": {"vm.swappiness": [1]}}, "P051", "vm.swappiness"),
    "unsupported system": (FEDORA, {}, "P001", "Fedora 44"),
    "rolling release": (
        machines.changed(facts(), {"system": {"name": "Debian sid", "version": None}}),
        {},
        "P001",
        "sid",
    ),
    "no GPU": (facts(gpus=[]), {}, "P002", "gpulab_without_gpu"),
    "a GPU of another vendor is none": (facts(gpus=["1002:74a1"]), {}, "P002", ""),
    "only GPUs of another maker": (
        with_pci(gpus=[], other_gpus=[AMD]),
        {},
        "P082",
        "AMD 1002:74a1 at 0000:05:00.0",
    ),
    "virtual machines have the GPUs": (
        with_pci(gpus=[], lent=[LENT], other_gpus=[AMD]),
        {},
        "P080",
        "0000:65:00.0 (vfio-pci)",
    ),
    "another GPU of a host that cuts one": (
        with_pci(lent=[{**LENT, "driver": "nvidia-vgpu-vfio"}]),
        {"nvidia_driver_remove_conflicting": True},
        "P117",
        "0000:65:00.0",
    ),
    "the vGPU manager is the driver": (
        with_packages("nvidia-vgpu-ubuntu-580", "580.126.08"),
        {"nvidia_driver_remove_conflicting": True},
        "P117",
        "nvidia-vgpu-ubuntu-580",
    ),
    "a virtual GPU": (with_pci(gpus=[{**facts()["pci"]["gpus"][0], "vgpu": True}]), {}, "P081", "GRID"),
    "unreadable GPU": (facts(gpus=["10de:fff0"]), {}, "P003", "10de:fff0"),
    "mixed GPUs": (facts(gpus=[GTX_1080_TI, RTX_5090]), {}, "P004", "GeForce GTX 1080 Ti and GeForce RTX 5090"),
    "mixed GPUs without a common branch": (facts(gpus=["10de:102d", T4, "10de:2684"]), {}, "P004", "RTX 4090"),
    "running kernel is gone": (
        facts(running="6.1.0-49-amd64", kernels=[kernel("6.1.0-50-amd64")]),
        {},
        "P005",
        "6.1.0-49-amd64",
    ),
    "nothing to build for": (facts(kernels=[], container=True), {}, "P006", "nvidia_driver_kernels"),
    "unknown branch": (facts(), {"nvidia_driver_branch": "599"}, "P007", "599"),
    "branch newer than the catalog": (facts(), {"nvidia_driver_branch": "999"}, "P090", "gpulab_trust_newer: true"),
    "CUDA newer than the catalog": (facts(), {"cuda_toolkits": ["13.9"]}, "P091", "gpulab_trust_newer: true"),
    "branch past its end": (facts(), {"nvidia_driver_branch": "535"}, "P008", 'gpulab_allow_branches: ["535"]'),
    "an old branch of a distribution that has newer ones": (
        facts("ubuntu-24.04"),
        {"nvidia_driver_source": "distribution", "nvidia_driver_branch": "535"},
        "P008",
        "535",
    ),
    "no such source": (facts("rhel-9"), {"nvidia_driver_source": "distribution"}, "P009", "distribution"),
    "pascal on 595": (facts(gpus=[GTX_1080_TI]), {"nvidia_driver_branch": "595"}, "P010", "580 at most"),
    "blackwell on 535": (facts(gpus=[RTX_5090]), {**ALLOWED, "nvidia_driver_branch": "535"}, "P010", "570"),
    "H200 on 535": (facts(gpus=["10de:2335"]), {**ALLOWED, "nvidia_driver_branch": "535"}, "P010", "550 or newer"),
    "version older than the GPU": (
        facts(gpus=["10de:31c2"], architecture="aarch64"),
        {"nvidia_driver_version": "580.65.06", "gpulab_allow_branches": ["580"]},
        "P010",
        "580.82.07",
    ),
    "open on pascal": (facts(gpus=[GTX_1080_TI]), {"nvidia_driver_kernel_modules": "open"}, "P011", "proprietary"),
    "proprietary on blackwell": (
        facts(gpus=[RTX_5090]),
        {"nvidia_driver_kernel_modules": "proprietary"},
        "P011",
        "open",
    ),
    "proprietary on grace": (
        facts(gpus=[GH200], architecture="aarch64"),
        {"nvidia_driver_kernel_modules": "proprietary"},
        "P011",
        "open",
    ),
    "proprietary 615": (
        facts(),
        {"nvidia_driver_branch": "615", "nvidia_driver_kernel_modules": "proprietary"},
        "P012",
        "615",
    ),
    "branch not carried": (
        facts("debian-13"),
        {"nvidia_driver_branch": "580"},
        "P013",
        "NVIDIA's repository for Debian 13",
    ),
    "a version of debian's own": (
        facts("debian-13"),
        {**ALLOWED, "nvidia_driver_version": "550.163.01"},
        "P048",
        "Debian 13 has only one version of branch 550",
    ),
    "another version than debian's own is pinned at": (
        facts(),
        {**ALLOWED, "nvidia_driver_kernel_modules": "open", "nvidia_driver_version": "535.309.01"},
        "P048",
        "535.309.01",
    ),
    "pascal on debian 13": (facts("debian-13", [GTX_1080_TI]), {}, "P014", "runfile (branch 580)"),
    "two wishes that exclude each other": (
        facts(),
        {"nvidia_driver_branch": "580", "nvidia_driver_version": "595.91.07"},
        "P015",
        "595.91.07",
    ),
    "open on debian 13's kernel": (
        facts("debian-13", kernels=[BROKEN_13], running=BROKEN_13["version"]),
        {**ALLOWED, "nvidia_driver_kernel_modules": "open"},
        "P016",
        "the open 550.163.01 modules do not build for kernel 6.12.117+deb13-amd64",
    ),
    "open on debian 12's kernel": (
        facts(kernels=[BROKEN_12], running=BROKEN_12["version"]),
        {**ALLOWED, "nvidia_driver_kernel_modules": "open"},
        "P016",
        "Set nvidia_driver_kernel_modules: proprietary",
    ),
    "grace on debian 13's kernel": (
        facts("debian-13", [GH200], architecture="aarch64", kernels=[BROKEN_13], running=BROKEN_13["version"]),
        ALLOWED,
        "P016",
        "580.126.09 or newer",
    ),
    "debian 13's own on 7.2": (
        facts("debian-13", running="7.2.12+deb13-amd64"),
        ALLOWED,
        "P016",
        "Stay on the 6.12 kernel of Debian 13, or use NVIDIA's driver: nvidia_driver_source: nvidia.",
    ),
    "realtime kernel": (facts(running="6.1.0-50-rt-amd64"), {}, "P016", "realtime"),
    "old 580 on 7.2": (
        facts(running="7.2.1-mine"),
        {"nvidia_driver_version": "580.159.04", "gpulab_allow_branches": ["580"]},
        "P016",
        "580.178.04",
    ),
    "below the floor": (facts(), {"nvidia_driver_version": "580.126.09"}, "P017", "580.178.04 (NVIDIA bulletin 5861)"),
    "secure boot": (UNENROLLED, {}, "P018", "mokutil --import"),
    "secure boot, and the wish that helps": (UNENROLLED, {}, "P018", "secure_boot_mok_password"),
    "secure boot for a run file": (UNENROLLED, OF_RUNFILE, "P018", "DKMS"),
    "a key that waits": (AT_THE_CONSOLE, {}, "P047", "Enroll MOK, Continue, Yes"),
    "a key that waits, requested once more": (AT_THE_CONSOLE, ENROLMENT, "P047", "Reboot the node"),
    "a password no console takes": (UNENROLLED, {"secure_boot_mok_password": "grün"}, "P046", "ASCII"),
    "run file on packages": (PACKAGED, OF_RUNFILE, "P019", "nvidia-smi"),
    "run file that nobody has pinned": (facts(), {"nvidia_driver_source": "runfile"}, "P043", "595.91.07.run"),
    "the distribution's driver, and NVIDIA's requested": (
        of_debian("nvidia-smi", "libcuda1"),
        {},
        "P038",
        "libcuda1, nvidia-smi",
    ),
    "a driver that somebody holds": (
        held(("nvidia-dkms-open", "590.48.01-0ubuntu1", "nvidia")),
        {},
        "P085",
        "apt-mark unhold",
    ),
    "a driver of the GPU Operator": (
        machines.changed(facts(), {"driver": {"in_container": True}}),
        {},
        "P086",
        "driver.enabled=false",
    ),
    "packages on a run file": (RUNFILE, {}, "P020", "To keep that driver, set nvidia_driver_source: runfile"),
    "cu122": (facts(), environment("pytorch", "2.9", index="cu122"), "P021", "cu126"),
    "tensorflow-gpu": (facts(), environment("jax", "0.9", packages=["tensorflow-gpu==2.14.0"]), "P021", "tensorflow"),
    "horovod": (facts(), environment("pytorch", "2.9", packages=["horovod[pytorch]"]), "P021", "torchrun"),
    "horovod of conda": (facts(), {"conda_environments": [{"name": "a", "packages": ["horovod"]}]}, "P021", "torchrun"),
    "pip's tensorflow-gpu in conda": (
        facts(),
        {"conda_environments": [{"name": "a", "pip": ["tensorflow-gpu"]}]},
        "P021",
        "tensorflow",
    ),
    "an extra of JAX that is gone": (
        facts(),
        environment("jax", "0.9", packages=["jax[cuda12_pip]"]),
        "P021",
        "cuda12",
    ),
    "package cuda of pip": (facts(), environment("jax", "0.9", packages=["cuda"]), "P021", "cuda-toolkit-12-9"),
    "nvidia-ml-py3": (facts(), environment("jax", "0.9", packages=["nvidia-ml-py3"]), "P021", "nvidia-ml-py."),
    "a typing error that a guide spreads": (
        facts(),
        environment("pytorch", "2.9", packages=["albumentaions"]),
        "P021",
        "albumentations.",
    ),
    "CUDA 12.2 as a package": (facts(), {"cuda_toolkits": ["cuda-12-2"]}, "P021", "cuda-toolkit-12-9"),
    "a local repository of CUDA": (
        facts(),
        {"cuda_toolkits": ["cuda-repo-ubuntu2204-12-2-local_12.2.2-1_amd64.deb"]},
        "P021",
        "network repository",
    ),
    "apt-key": (facts(), {"container_toolkit_engines": ["apt-key add -"]}, "P021", "Signed-By"),
    "nvidia-docker": (facts(), {"container_toolkit_engines": ["nvidia-docker2"]}, "P021", "container_toolkit_engines"),
    "package cuda": (facts(), {"cuda_toolkits": ["cuda"]}, "P021", "cuda-toolkit-12-9"),
    "unknown CUDA": (facts(), {"cuda_toolkits": ["12.7"]}, "P022", "12.7"),
    "CUDA 13 below 580": (facts(), {**ALLOWED, "cuda_toolkits": ["13.0"]}, "P023", "580.65.06"),
    "cuda-compat on a board for games": (
        facts(gpus=[RTX_5090]),
        {**FORWARD, "nvidia_driver_branch": "580"},
        "P077",
        "GeForce RTX 5090 is not one",
    ),
    "cuda-compat on one data-centre board of two": (
        facts(gpus=[H100, RTX_5090]),
        {**FORWARD, "nvidia_driver_branch": "580"},
        "P077",
        "or remove cuda_compat",
    ),
    "cuda-compat on an unlisted board": (
        facts(gpus=["10de:2331", "10de:2302"]),
        {**FORWARD, "nvidia_driver_branch": "580"},
        "P077",
        "unlisted Hopper",
    ),
    "cuda-compat on a branch that NVIDIA does not name": (
        facts("debian-13"),
        {**ALLOWED, **FORWARD},
        "P077",
        "535, 570, 580, 590, but the plan has 550",
    ),
    "cuda-compat of which nothing is known": (
        facts(),
        {**FORWARD, "cuda_toolkits": ["13.4"]},
        "P077",
        "Use driver 615.71.09 or newer",
    ),
    "CUDA 13 on volta": (facts(gpus=[V100]), {"cuda_toolkits": ["13.0"]}, "P024", "12.8, 12.9; or"),
    "CUDA 12.6 on blackwell": (
        facts(gpus=[RTX_5090]),
        {"cuda_toolkits": ["12.6"]},
        "P024",
        "Use CUDA 12.8, 12.9, 13.0",
    ),
    "CUDA 13 on an unlisted pascal": (facts(gpus=["10de:1b3f"]), {"cuda_toolkits": ["13.0"]}, "P024", "12.9"),
    "CUDA 12 on debian 13": (facts("debian-13"), {"cuda_toolkits": ["12.9"]}, "P025", "13.1, 13.2"),
    "CUDA that debian 12 came too late for": (facts(), {"cuda_toolkits": ["12.2"]}, "P025", "Debian 12"),
    "CUDA that ubuntu 24.04 came too late for": (
        facts("ubuntu-24.04"),
        {"cuda_toolkits": ["12.4"]},
        "P025",
        "12.5, 12.6",
    ),
    "CUDA that debian itself has not": (
        facts("debian-13"),
        {**ALLOWED, "cuda_source": "distribution", "cuda_toolkits": ["12.6"]},
        "P025",
        "Debian 13 itself has no CUDA 12.6",
    ),
    "debian's CUDA with nvidia's driver": (facts(), {"cuda_source": "distribution"}, "P039", "from nvidia"),
    "debian's CUDA on a node whose NVSwitches debian's driver cannot drive": (
        machines.changed(facts(), {"pci": SWITCHES}),
        {"cuda_source": "distribution", "nvidia_driver_source": "nvidia"},
        "P039",
        "Remedy: Set cuda_source: nvidia.",
    ),
    "wheels for debian's driver": (facts("debian-13"), {**ALLOWED, "cuda_source": "pypi"}, "P023", "580.65.06"),
    "wheels on volta": (facts(gpus=[V100]), {"cuda_source": "pypi"}, "P024", "Install no toolkit"),
    "a CUDA of which there are no wheels": (
        facts(),
        {"cuda_source": "pypi", "cuda_toolkits": ["12.9"]},
        "P025",
        "13.0, 13.1",
    ),
    "cuDNN for a toolkit of wheels": (
        facts(),
        {"cuda_source": "pypi", "cudnn_version": "9.20.0"},
        "P099",
        "cudnn_version",
    ),
    "cuda-compat for a toolkit of wheels": (
        facts(),
        {"cuda_source": "pypi", "nvidia_driver_branch": "580", **FORWARD},
        "P077",
        "NVIDIA's repository",
    ),
    "cuDNN for debian's CUDA": (
        facts("debian-13"),
        {**ALLOWED, "cuda_source": "distribution", "cudnn_version": "9.5.1"},
        "P040",
        "cudnn_version",
    ),
    "CUDA for which red hat's compiler is too new": (facts("rhel-10"), {"cuda_toolkits": ["12.6"]}, "P044", "12.8"),
    "monitoring on red hat": (facts("rhel-9"), {"monitoring_state": "present"}, "P042", "monitoring"),
    "node exporter's owner chose an address": (
        listening("--web.listen-address=:9100"),
        {"monitoring_state": "present"},
        "P070",
        "--web.listen-address=:9100",
    ),
    "node exporter's owner chose a directory": (
        listening("--collector.textfile.directory=/srv"),
        {"monitoring_state": "present"},
        "P070",
        "/srv",
    ),
    "DCGM on a board for games": (
        facts(gpus=["10de:2684"]),
        {"monitoring_state": "present", "monitoring_gpus": "dcgm", "nvidia_driver_source": "nvidia"},
        "P072",
        "4090",
    ),
    "DCGM without its repository": (
        facts(),
        {
            "monitoring_state": "present",
            "monitoring_gpus": "dcgm",
            "nvidia_driver_source": "distribution",
            "gpulab_allow_branches": ["535"],
        },
        "P072",
        "NVIDIA's repository",
    ),
    "DCGM's exporter of somebody else": (
        with_dcgm_exporter(),
        {"monitoring_state": "present", "monitoring_gpus": "dcgm", "nvidia_driver_source": "nvidia"},
        "P072",
        "already",
    ),
    "an address that the node has not": (
        facts(),
        {"monitoring_state": "present", "monitoring_listen_address": "10.9.9.9"},
        "P071",
        "10.1.2.3",
    ),
    "an address that is none": (
        facts(),
        {"monitoring_state": "present", "monitoring_listen_address": "eth0"},
        "P071",
        "eth0",
    ),
    "docker.com's packages beside others": (
        with_docker_rivals("podman-docker", "runc"),
        {"container_toolkit_engines": ["docker"], "container_toolkit_docker_source": "docker"},
        "P078",
        "podman-docker, runc",
    ),
    "no CUDA of red hat": (facts("rhel-9"), {"cuda_source": "distribution"}, "P041", "cuda_source: nvidia"),
    "default not installed": (facts(), {"cuda_toolkits": ["12.9"], "cuda_default": "13.0"}, "P026", "13.0"),
    "library without toolkit": (facts(), {"cuda_toolkits": [], "nccl_version": "2.27.5"}, "P027", "NCCL 2.27.5"),
    "unknown library": (facts(), {"cudnn_version": "8.9.7"}, "P028", "9.0.0 to 9.28.1"),
    "library of another CUDA": (facts(), {"nccl_version": "2.27.5"}, "P029", "2.27.7 to 2.32.3"),
    "cuDNN of CUDA 13 alone": (
        facts(),
        {"cuda_toolkits": ["12.9"], "cudnn_version": "9.28.1"},
        "P029",
        "9.12.0 to 9.28.0",
    ),
    "cuDNN that dropped volta": (facts(gpus=[V100]), {"cudnn_version": "9.20.0"}, "P029", "9.7.0 to 9.10.2"),
    "cuDNN before blackwell": (
        facts(gpus=[RTX_5090]),
        {"cudnn_version": "9.5.1", "cuda_toolkits": ["12.9"]},
        "P029",
        "9.7.0 to 9.10.2",
    ),
    "cuDNN that dropped an unlisted pascal": (
        facts(gpus=["10de:1b3f"]),
        {"cudnn_version": "9.20.0"},
        "P029",
        "9.7.0 to 9.10.2",
    ),
    "cuDNN before an unlisted blackwell": (
        facts(gpus=["10de:2f7e"]),
        {"cudnn_version": "9.5.1", "cuda_toolkits": ["12.9"]},
        "P029",
        "9.7.0 to 9.10.2",
    ),
    "TensorRT that dropped volta": (facts(gpus=[V100]), {"tensorrt_version": "10.16.1"}, "P029", "10.0.0 to 10.4.0"),
    "container toolkit below its floor": (facts(), {"container_toolkit_version": "1.17.8"}, "P030", "CVE-2026-24260"),
    "NVSwitch with debian's driver": (SWITCHED, ALLOWED, "P031", "nvidia_driver_source: nvidia"),
    "NVSwitch with a run file": (
        {**RUNFILE, "pci": {**RUNFILE["pci"], **SWITCHES}},
        {**ALLOWED, **OF_RUNFILE},
        "P031",
        "Run nvidia-uninstall on the node, and set nvidia_driver_source: nvidia",
    ),
    "Docker of a snap": (SNAP_DOCKER, {"container_toolkit_engines": ["docker"]}, "P127", "snap remove docker"),
    "NVSwitch with a branch that NVIDIA's source lacks": (
        SWITCHED,
        {"nvidia_driver_branch": "535", **ALLOWED},
        "P031",
        "nvidia_driver_source: nvidia, nvidia_driver_branch: null",
    ),
    "MIG of a board without": (facts(gpus=[RTX_5090]), {"gpu_settings_values": {"mig": True}}, "P093", "5090"),
    "another board's MIG profile": (
        facts(),
        {"gpu_settings_values": {"mig_instances": ["3g.20gb"]}},
        "P094",
        "1g.10gb, 1g.20gb",
    ),
    "power that no such board takes": (
        facts(gpus=[T4]),
        {"gpu_settings_values": {"power_limit_watts": 3000}},
        "P095",
        "70 W",
    ),
    "IMEX outside of a rack": (facts(), {"nvidia_driver_imex_nodes": ["10.9.9.9"]}, "P096", "H100"),
    "IMEX of a name": (in_rack(), {"nvidia_driver_imex_nodes": ["node1"]}, "P057", "node1"),
    "IMEX of the loopback": (in_rack(), {"nvidia_driver_imex_nodes": ["127.0.0.1"]}, "P057", "127.0.0.1"),
    "IMEX without the node itself": (in_rack(), {"nvidia_driver_imex_nodes": ["10.1.2.4"]}, "P058", "10.1.2.3"),
    "IMEX that somebody else keeps": (
        in_rack(nodes=["10.1.2.9"]),
        {"nvidia_driver_imex_nodes": RACK},
        "P059",
        "10.1.2.9",
    ),
    "IMEX that the source has not": (
        in_rack("debian-12"),
        {"nvidia_driver_imex_nodes": RACK},
        "P060",
        "Remove nvidia_driver_imex_nodes.",
    ),
    "two frameworks": (facts(), environment("pytorch", "2.9", tensorflow="2.20"), "P032", "pytorch and tensorflow"),
    "nothing at all": (facts(), environment("python", "3.12"), "P032", "none"),
    "unknown set": (facts(), environment("jax", "0.9", sets=["visions"]), "P073", "monitoring"),
    "set of another framework": (facts(), environment("jax", "0.9", sets=["distributed"]), "P074", "pytorch"),
    "set without wheels": (facts(), environment("pytorch", "2.9", sets=["deepspeed"]), "P098", "Build a wheel"),
    "set for other releases": (facts(), environment("pytorch", "2.15", sets=["vllm"]), "P098", "2.13.0, 2.14.0"),
    "set for another build": (
        facts(gpus=[V100]),
        environment("pytorch", "2.14.0", sets=["vllm"]),
        "P098",
        "Request a build for CUDA 13",
    ),
    "set for older Pythons": (
        facts(),
        environment("pytorch", "2.15", python="3.15", sets=["compilers"]),
        "P098",
        "Use Python 3.11 to 3.14",
    ),
    "set for newer releases": (
        facts(),
        environment("pytorch", "2.10", sets=["quantisation"]),
        "P098",
        "Request pytorch 2.11 or newer",
    ),
    "set for newer Pythons": (
        facts(),
        environment("pytorch", "2.12", python="3.10", sets=["inference"]),
        "P098",
        "Use Python 3.11 to 3.14",
    ),
    "set of a framework that is not requested": (facts(), environment("sets", ["llm"]), "P074", "no framework"),
    "build of no framework": (facts(), environment("packages", ["six"], index="cu126"), "P034", "cpu"),
    "Horovod as a set": (facts(), environment("pytorch", "2.9", sets=["horovod"]), "P021", "torchrun"),
    "unknown release": (facts(), environment("pytorch", "2.99"), "P033", "2.15.0"),
    "build of another release": (facts(), environment("pytorch", "2.15", index="cu126"), "P034", "cu130, cu132"),
    "release that dropped pascal": (
        facts(gpus=[GTX_1080_TI]),
        environment("pytorch", "2.15"),
        "P035",
        "Use pytorch 2.14.1 built for CUDA 12.6",
    ),
    "release that dropped volta from a build": (
        facts(gpus=[V100]),
        environment("pytorch", "2.11", index="cu128"),
        "P035",
        "Tesla V100",
    ),
    "JAX build for newer GPUs": (facts(gpus=[V100]), environment("jax", "0.9", index="cuda13"), "P035", "Tesla V100"),
    "release before blackwell": (facts(gpus=[RTX_5090]), environment("pytorch", "2.6"), "P035", "GeForce RTX 5090"),
    "release before an unlisted blackwell": (
        facts(gpus=["10de:2f7e"]),
        environment("pytorch", "2.6"),
        "P035",
        "unlisted Blackwell",
    ),
    "build before an unlisted blackwell": (
        facts(gpus=["10de:2f7e"]),
        environment("pytorch", "2.9", index="cu126"),
        "P035",
        "unlisted Blackwell",
    ),
    "wheels newer than the driver": (facts(), {**ALLOWED, **environment("pytorch", "2.15")}, "P035", "580.65.06"),
    "python without wheels": (facts(), environment("tensorflow", "2.20", python="3.14"), "P036", "3.9 to 3.13"),
    "python younger than the wheels": (facts(), environment("jax", "0.10", python="3.15"), "P036", "3.11 to 3.14"),
}


@pytest.mark.parametrize(("node", "given", "code", "named"), REFUSALS.values(), ids=REFUSALS)
def test_refusal(node, given, code, named):
    refused = refusal(node, **given)
    assert refused.code == code
    assert named in str(refused)


NOT_SERVED = {
    "without a wish": (
        facts("debian-13", [GH200], architecture="aarch64"),
        {},
        "P009",
        "nvidia_driver_source: runfile",
    ),
    "debian 13's own on 7.2": (
        facts("debian-13", architecture="aarch64", running="7.2.12+deb13-arm64"),
        ALLOWED,
        "P016",
        "Remedy: Stay on the 6.12 kernel of Debian 13.",
    ),
    "a library's CUDA": (
        facts("debian-13", [GH200], architecture="aarch64"),
        {**ALLOWED, "cuda_toolkits": ["12.9"], "cudnn_version": "9.5.1"},
        "P025",
        "cuda_toolkits: [], cudnn_version: null",
    ),
    "NVSwitches": (
        {
            **facts("debian-13", [GH200], architecture="aarch64"),
            "pci": {**facts("debian-13", [GH200], architecture="aarch64")["pci"], **SWITCHES},
        },
        ALLOWED,
        "P031",
        "Move the GPUs to a node",
    ),
}


@pytest.mark.parametrize(("node", "given", "code", "named"), NOT_SERVED.values(), ids=NOT_SERVED)
def test_what_no_repository_of_nvidia_serves_is_refused_with_a_way_that_is_there(node, given, code, named):
    known = copy.copy(catalog.load())
    of_nvidia = known.repositories["nvidia-cuda-debian13"]
    others = {**known.repositories, of_nvidia["id"]: {**of_nvidia, "architectures": {"x86_64": "x86_64"}}}
    vars(known)["repositories"] = others  # in place of the cached property
    refused = refusal(node, known, **given)
    assert refused.code == code
    assert named in str(refused)


def test_a_package_that_cannot_be_locked_is_refused():
    found = refusal(facts(), **environment("jax", "0.9", packages=["git+https://git.example/x@main"]))
    assert (found.code, "git+https://git.example/x@main" in found.cause) == ("E018", True)


def test_every_refusal_of_the_plan_is_met_here():
    # Two are the preview's; for P092, whose tests are in test_newer.py, the catalog has no branch today.
    of_the_plan = {code for code in CODES if code.startswith("P")} - {"P037", "P097", "P092"}
    assert of_the_plan == {code for _, _, code, _ in REFUSALS.values()}


@pytest.mark.parametrize("parts", [{"lent": [LENT]}, {"other_gpus": [AMD]}])
def test_gpus_that_are_not_the_nodes_change_nothing_for_those_that_are(parts):
    mixed, alone = plan(with_pci(**parts)), plan(facts())
    warnings = mixed.pop("warnings")
    assert [line for line in warnings if "vfio-pci" in line] == warnings[: len(parts.get("lent", []))]
    assert mixed == {part: value for part, value in alone.items() if part != "warnings"}


@pytest.mark.parametrize(
    "parts", [{"lent": [LENT]}, {"other_gpus": [AMD]}, {"gpus": [{**LENT, "driver": None, "vgpu": True}]}]
)
def test_a_driver_goes_from_a_node_whose_gpus_are_not_its_own(parts):
    node = with_pci(**{"gpus": [], **parts})
    assert plan(node, nvidia_driver_state="absent")["driver"]["packages"] == []


A10 = {"address": "0000:01:00.0", "device": "10de:2236", "class": "0302", "driver": None}


@pytest.mark.parametrize(
    ("subsystem", "vgpu", "system", "said"),
    [
        pytest.param("10de:14bb", None, {"virtualization": "microsoft"}, True, id="a-virtual-ones"),
        pytest.param("10de:1482", None, {"virtualization": "microsoft"}, False, id="the-boards"),
        pytest.param("10de:14bb", False, {"virtualization": "microsoft"}, False, id="the-capability-tells"),
        pytest.param("10de:14bb", None, {"virtualization": "none"}, False, id="bare-metal"),
        pytest.param("1028:14bb", None, {"virtualization": "kvm"}, False, id="another-makers-board"),
        pytest.param("10de:14bb", None, {"virtualization": "docker", "container": True}, False, id="a-container"),
    ],
)
def test_a_gpu_that_may_be_virtual_is_warned_of(subsystem, vgpu, system, said):
    made = plan(with_pci(facts(**system), gpus=[{**A10, "subsystem": subsystem, "vgpu": vgpu}]))
    assert any("vGPU" in line for line in made["warnings"]) is said


def test_a_board_whose_subsystems_nobody_listed_is_no_virtual_gpu():
    gpu = {**A10, "device": RTX_5090, "subsystem": "10de:9999", "vgpu": None}
    assert not any("vGPU" in line for line in plan(with_pci(facts(virtualization="kvm"), gpus=[gpu]))["warnings"])
