"""Each bound of the hardware at its edge. The boards are RTX 4090, of 24 GiB and 450 W in the catalog."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.preflight import hardware

from .make import GIB, PLAN, answering, found, node, told

UNLISTED = {"device": "10de:ffff"}


def test_a_good_node_passes():
    assert found(node()) == []


@pytest.mark.parametrize(
    ("mib", "findings"),
    [
        (24 * GIB, []),
        (int(24 * GIB * 0.9) + 1, []),
        (int(24 * GIB * 0.9), [("advice", "H070")]),
        (15360, [("advice", "H070")]),  # a T4 of 16 GiB
        (int(16 * GIB * 0.9), [("warn", "H070")]),
        (8 * GIB, [("warn", "H070")]),
    ],
)
def test_gpu_memory(mib, findings):
    assert found(answering(node(), total=mib)) == findings


def test_gpu_memory_is_nvmls_before_the_catalogs():
    assert found(node()) == []
    assert found(answering(node())) == []  # NVML does not tell
    assert found(answering(node(), total=8 * GIB)) == [("warn", "H070")]


def test_alike_gpus_are_told_of_once():
    (text,) = told(answering(node(), total=8 * GIB))
    assert text.startswith(
        "GPULAB-H070 8 GiB of memory on 0000:01:00.0 (GeForce RTX 4090), 0000:02:00.0 (GeForce RTX 4090);"
        " 16 GiB are advised."
    )


@pytest.mark.parametrize(("cores", "findings"), [(8, []), (7, [("warn", "H071")]), (None, [])])
def test_cpu_cores(cores, findings):
    assert found(node(cpu_cores=cores)) == findings


@pytest.mark.parametrize(
    ("mib", "findings"),
    [
        (int(4 * 48 * GIB * 0.9) + 1, []),
        (int(4 * 48 * GIB * 0.9), [("advice", "H072")]),
        (int(2 * 48 * GIB * 0.9) + 1, [("advice", "H072")]),
        (int(2 * 48 * GIB * 0.9), [("warn", "H072")]),
        (None, []),
    ],
)
def test_memory_is_compared_with_that_of_all_gpus(mib, findings):
    assert found(node(memory_mib=mib)) == findings


def test_memory_is_not_judged_where_that_of_a_gpu_is_unknown():
    assert found(node(memory_mib=GIB, gpu=UNLISTED)) == []


@pytest.mark.parametrize(
    ("root", "findings"),
    [
        ({"source": "/dev/sda2", "nvme": False}, [("warn", "H073")]),
        ({"source": "overlay", "nvme": None}, []),
        ({"source": "/dev/mapper/vg-root", "nvme": False}, []),
        ({"source": "/dev/md0", "nvme": False}, []),
    ],
    ids=["sata", "unknown", "lvm", "raid"],
)
def test_system_disk(root, findings):
    assert found(node(root=root)) == findings


@pytest.mark.parametrize(
    ("data", "mounts", "findings"),
    [
        ({"rotational": True}, ["/data"], [("warn", "H074")]),
        ({"rotational": True}, [], []),
        ({"rotational": True, "source": "/dev/mapper/vg-data"}, ["/data"], []),
        ({"rotational": None, "source": "nas:/data"}, ["/data"], []),
        ({}, ["/data"], []),
        ({}, ["/datasets"], [("warn", "H075")]),
    ],
    ids=["turns", "not-declared", "lvm", "network", "ssd", "not-mounted"],
)
def test_dataset_disks(data, mounts, findings):
    assert found(node(data=data), dataset_mounts=mounts) == findings


@pytest.mark.parametrize(("width", "findings"), [(8, []), (4, [("warn", "H076")]), (None, [])])
def test_pcie_width(width, findings):
    assert found(node(gpu={"link": {"width": width}})) == findings


@pytest.mark.parametrize(
    ("psu", "findings"),
    [(None, []), (1312, []), (1311, [("warn", "H077")])],  # (2 x 450 + 150) + 25 % = 1312.5, rounded to even
)
def test_power_is_that_of_gpus_and_processors_and_a_reserve(psu, findings):
    assert found(node(), psu_watts=psu) == findings


def test_power_limits_are_nvmls_before_the_catalogs():
    assert found(answering(node(), watts=300), psu_watts=937) == [("warn", "H077")]  # (600 + 150) + 25 % = 938
    assert found(answering(node(), watts=300), psu_watts=938) == []


SUPPLY = 1000  # leaves the GPUs 650 W; they would draw 900 W
PLANNED = {
    "one limit for all": ({"all": {"power_limit_watts": 325}}, []),
    "one limit that is too high": ({"all": {"power_limit_watts": 330}}, [("fail", "H077")]),
    "limits of each": ({"gpus": {0: {"power_limit_watts": 400}, "0000:02:00.0": {"power_limit_watts": 250}}}, []),
    "a limit of one alone": ({"gpus": {0: {"power_limit_watts": 250}}}, [("fail", "H077")]),
    "shares of what is left": ({"power_budget_watts": 650}, []),
    "a share beside a limit": ({"gpus": {0: {"power_limit_watts": 400}}, "power_budget_watts": 650}, []),
    "limits that leave nothing to share": (
        {"gpus": {0: {"power_limit_watts": 650}}, "power_budget_watts": 650},
        [("fail", "H077")],
    ),
    "limits that no share helps": (
        {"all": {"power_limit_watts": 400}, "power_budget_watts": 650},
        [("fail", "H077")],
    ),
    "a limit left alone": ({"all": {"power_limit_watts": None}}, [("fail", "H077")]),
}


@pytest.mark.parametrize(("settings", "findings"), PLANNED.values(), ids=PLANNED)
@pytest.mark.parametrize("made", [node(), answering(node(), watts=450)], ids=["without a driver", "with one"])
def test_power_is_what_the_run_leaves_the_gpus(made, settings, findings):
    plan = {**PLAN, "gpu_settings": {"settings": settings}}
    assert found(made, plan=plan, psu_watts=SUPPLY, required=["power"]) == findings


def test_power_of_an_unknown_board_cannot_be_added_up():
    assert found(node(gpu=UNLISTED), psu_watts=100) == [("advice", "H078")]


@pytest.mark.parametrize(("synchronized", "findings"), [(True, []), (False, [("warn", "H079")]), (None, [])])
def test_clock(synchronized, findings):
    assert found(node(clock_synchronized=synchronized)) == findings


SHORT = {
    "gpu_memory": (answering(node(memory_mib=2048 * GIB), total=8 * GIB), {}),
    "cpu_cores": (node(cpu_cores=4), {}),
    "memory": (node(memory_mib=16 * GIB), {}),
    "system_disk": (node(root={"source": "/dev/sda2", "nvme": False}), {}),
    "dataset_disks": (node(data={"rotational": True}), {"dataset_mounts": ["/data"]}),
    "pcie_width": (node(gpu={"link": {"width": 4}}), {}),
    "power": (node(), {"psu_watts": 850}),
    "clock": (node(clock_synchronized=False), {}),
}


@pytest.mark.parametrize("name", hardware.NAMES)
def test_what_is_required_fails_and_all_else_warns(name):
    facts, limits = SHORT[name]
    others = [other for other in hardware.NAMES if other != name]
    assert [severity for severity, _ in found(facts, required=others, **limits)] == ["warn"]
    assert [severity for severity, _ in found(facts, required=[name], **limits)] == ["fail"]


def test_advice_never_fails():
    assert found(answering(node(), total=16 * GIB), required=["gpu_memory"]) == [("advice", "H070")]


def poor(**system):
    root, data = {"source": "/dev/vda2", "nvme": False}, {"rotational": True}
    facts = node(
        root=root,
        data=data,
        gpu={"link": {"width": 4}},
        cpu_cores=2,
        memory_mib=GIB,
        clock_synchronized=False,
        **system,
    )
    return {code for _, code in found(facts, dataset_mounts=["/data"], psu_watts=1)}


def test_a_container_is_judged_by_its_gpus_only():
    assert poor(container=True, virtualization="docker") == {"H076", "H077"}


def test_a_virtual_machine_has_no_real_disks():
    assert poor(virtualization="kvm") == {"H071", "H072", "H076", "H077", "H079"}


def test_a_machine_is_judged_by_all():
    assert poor() == {"H071", "H072", "H073", "H074", "H076", "H077", "H079"}
