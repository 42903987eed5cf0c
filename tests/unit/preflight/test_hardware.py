"""Each bound of the hardware at its edge. The boards are RTX 4090, of 24 GiB and 450 W in the catalog."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.preflight import hardware

from unit import machines

from .make import GIB, PLAN, answering, found, metal, node, told

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


def test_memory_that_the_processor_shares_with_its_gpu_is_compared_with_nothing():
    """NVML of a DGX Spark does not say how much memory its GPU has: it is the machine's."""
    spark = node(gpu={"device": "10de:2e12"}, memory_mib=119 * GIB)
    assert found(answering(spark)) == []


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


def test_memory_is_not_compared_with_that_of_an_unknown_gpu():
    assert found(node(memory_mib=64 * GIB, gpu=UNLISTED)) == []


@pytest.mark.parametrize(
    ("mib", "limits", "findings"),
    [
        (int(64 * GIB * 0.9) + 1, {}, []),
        (int(64 * GIB * 0.9), {}, [("advice", "H087")]),
        (int(32 * GIB * 0.9) + 1, {}, [("advice", "H087")]),
        (int(32 * GIB * 0.9), {}, [("warn", "H087")]),
        (64 * GIB, {"memory_min_gib": 128}, [("warn", "H087")]),
        (None, {}, []),
    ],
)
def test_memory_is_compared_with_what_any_machine_needs(mib, limits, findings):
    assert found(node(memory_mib=mib, gpu=UNLISTED), **limits) == findings


@pytest.mark.parametrize(
    ("ecc", "wanted", "findings"),
    [(False, True, [("warn", "H088")]), (False, False, []), (True, True, []), (None, True, [])],
)
def test_memory_that_corrects_errors(ecc, wanted, findings):
    assert found(metal({"memory": {"ecc": ecc}}), memory_ecc=wanted) == findings


def modules(**figures):
    return {"memory": {"modules": [{**machines.MEMORY_MODULE, **figures}, machines.MEMORY_MODULE]}}


@pytest.mark.parametrize(
    ("figures", "findings"),
    [
        ({"mts": 4799, "rated_mts": 4799}, [("advice", "H089")]),
        ({"mts": 4800, "rated_mts": 5600}, [("advice", "H090")]),
        ({"type": "DDR4", "mts": 3200, "rated_mts": 3200}, []),
        ({"type": "DDR4", "mts": 2666, "rated_mts": 3200}, [("advice", "H090")]),
        ({"type": None, "mts": 100, "rated_mts": None}, []),
        ({"mts": None, "rated_mts": 5600}, []),
    ],
    ids=["below-the-bound", "below-what-it-is-made-for", "ddr4", "told-once", "unknown-type", "unknown-speed"],
)
def test_memory_speed(figures, findings):
    assert found(metal(modules(**figures))) == findings


def test_the_slow_module_is_named():
    (text,) = told(metal(modules(slot="DIMM_C1", mts=4400)))
    assert text.startswith("GPULAB-H090 the memory in DIMM_C1 runs at 4400 MT/s, but is made for 4800 MT/s.")


@pytest.mark.parametrize(("mib", "findings"), [(32, []), (31, [("warn", "H091")]), (None, [])])
def test_cpu_cache(mib, findings):
    assert found(metal({"cpu": {"l3_mib": mib}})) == findings


@pytest.mark.parametrize(
    ("cpu", "findings"),
    [
        ({"boost_mhz": 3500}, []),
        ({"boost_mhz": 3499}, [("warn", "H092")]),
        ({"boost_mhz": 3700, "base_mhz": 2500, "boosts": False}, [("advice", "H093")]),
        ({"boost_mhz": 3400, "base_mhz": 2500, "boosts": False}, [("warn", "H092")]),
        ({"boost_mhz": None, "base_mhz": 2500, "boosts": True}, []),
        ({"boost_mhz": None, "base_mhz": None, "boosts": None}, []),
    ],
    ids=["enough", "low", "boost-off", "low-and-off", "boost-unknown", "unknown"],
)
def test_cpu_clock(cpu, findings):
    assert found(metal({"cpu": cpu})) == findings


@pytest.mark.parametrize(("lanes", "findings"), [(20, []), (19, [("advice", "H094")]), (None, [])])
def test_pcie_lanes(lanes, findings):
    assert found(metal({"pcie4_lanes": lanes})) == findings


def disk(**figures):
    return {"disks": [{**machines.DISK, **figures}]}


@pytest.mark.parametrize(
    ("gb", "source", "findings"),
    [
        (960, "/dev/nvme0n1p2", []),
        (900, "/dev/nvme0n1", []),
        (899, "/dev/nvme0n1p2", [("warn", "H095")]),
        (512, "/dev/mapper/vg-root", []),
        (512, "/dev/nvme1n1p2", []),
    ],
    ids=["a-server's-terabyte", "whole-disk", "small", "lvm", "another-disk"],
)
def test_size_of_the_system_disk(gb, source, findings):
    assert found(node(root={"source": source}, of=metal(disk(gb=gb)))) == findings


def test_size_of_a_system_disk_that_is_not_nvme():
    facts = node(root={"source": "/dev/sda2", "nvme": False}, of=metal(disk(name="sda", gb=240)))
    assert found(facts) == [("warn", "H073"), ("warn", "H095")]


@pytest.mark.parametrize(
    ("mib", "limits", "findings"),
    [
        (1_716_614, {}, []),  # 1800 GB
        (1_700_000, {}, [("advice", "H095")]),
        (1_000, {"dataset_advised_gb": 0}, []),
        (None, {}, []),
    ],
)
def test_size_of_a_file_system_of_data_sets(mib, limits, findings):
    assert found(node(data={"size_mib": mib}), dataset_mounts=["/data"], **limits) == findings


@pytest.mark.parametrize(
    ("link", "port", "findings"),
    [
        ({"width": 2}, {}, [("warn", "H096")]),
        ({"width": 2}, {"max_width": 2}, []),
        ({"speed_gts": 8.0}, {}, [("warn", "H096")]),
        ({"speed_gts": 8.0}, {"max_speed_gts": 8.0}, []),
        ({"width": None, "max_width": None}, {"max_width": None}, []),
    ],
    ids=["narrow", "narrow-slot", "slow", "slow-slot", "unknown"],
)
def test_link_of_an_nvme_disk(link, port, findings):
    of_disk, of_port = ({**machines.DISK[name], **one} for name, one in (("link", link), ("port_link", port)))
    assert found(metal(disk(link=of_disk, port_link=of_port))) == findings


def test_disk_that_has_no_link_is_no_finding():
    assert found(metal(disk(link=None, port_link=None))) == []


def connected(hardware, **interface):
    return {**metal(hardware), "network": [{**machines.INTERFACE, **interface}]}


@pytest.mark.parametrize(
    ("interface", "findings"),
    [
        ({"mtu": 1500}, [("advice", "H097")]),
        ({"mtu": 9000}, []),
        ({"mtu": 1500, "speed_gbps": 10.0}, []),
        ({"mtu": 1500, "up": False}, []),
        ({"mtu": 1500, "ipv4": None}, []),
        ({"mtu": 1500, "link_layer": "infiniband"}, []),
    ],
    ids=["small", "large", "slow", "down", "without-an-address", "infiniband"],
)
def test_mtu_of_the_fast_network(interface, findings):
    assert found(connected({}, **interface), mtu_advised=9000) == findings
    assert found(connected({}, **interface)) == []


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
    "memory": (node(memory_mib=64 * GIB), {}),
    "memory_ecc": (metal({"memory": {"ecc": False}}), {"memory_ecc": True}),
    "cpu_cache": (metal({"cpu": {"l3_mib": 8}}), {}),
    "cpu_clock": (metal({"cpu": {"boost_mhz": 2000}}), {}),
    "disk_links": (metal(disk(link={**machines.LINK, "width": 1})), {}),
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


POOR = {
    "cpu": {"l3_mib": 1, "boost_mhz": 1},
    "memory": {"ecc": False, **modules(mts=1)["memory"]},
    "pcie4_lanes": 1,
    **disk(name="vda", gb=1, link={**machines.LINK, "width": 1}),
}


def poor(**system):
    root, data = {"source": "/dev/vda2", "nvme": False}, {"rotational": True}
    facts = node(
        root=root,
        data=data,
        gpu={"link": {"width": 4}},
        cpu_cores=2,
        memory_mib=GIB,
        clock_synchronized=False,
        of=connected(POOR, mtu=1500),
        **system,
    )
    limits = {"dataset_mounts": ["/data"], "psu_watts": 1, "memory_ecc": True, "mtu_advised": 9000}
    return {code for _, code in found(facts, **limits)}


def test_a_container_is_judged_by_its_gpus_only():
    assert poor(container=True, virtualization="docker") == {"H076", "H077"}


def test_a_virtual_machine_has_no_real_parts():
    assert poor(virtualization="kvm") == {"H071", "H072", "H076", "H077", "H079", "H087", "H097"}


def test_a_machine_is_judged_by_all():
    of_metal = {"H073", "H074", "H088", "H090", "H091", "H092", "H094", "H095", "H096"}
    assert poor() == {"H071", "H072", "H076", "H077", "H079", "H087", "H097"} | of_metal
