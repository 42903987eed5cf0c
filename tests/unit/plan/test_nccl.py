"""NCCL's settings of made-up topologies: what is set, why, and what is left to NCCL."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve
from ansible_collections.gpulab.node.plugins.plugin_utils.plan.host_types import TypesOfHost

from .make import TODAY, facts

RTX_4090, A100_PCIE, H100_SXM, V100_SXM = "10de:2684", "10de:20f1", "10de:2330", "10de:1db1"


def nic(name, speed=1.0, *, route=False, up=True, kind="physical"):
    return {
        "name": name,
        "kind": kind,
        "link_layer": "ethernet",
        "driver": "mlx5_core",
        "speed_gbps": speed,
        "up": up,
        "default_route": route,
    }


def port(device, rate=400.0, layer="infiniband", state="active"):
    return {"device": device, "port": 1, "link_layer": layer, "state": state, "rate_gbps": rate}


@dataclass
class Topology:
    """A node's topology, and NCCL's settings for it; said is a piece of a reason, warned one of a warning."""

    gpus: list[str]
    settings: dict[str, str]
    said: str
    network: list[dict[str, Any]] = field(default_factory=lambda: [nic("eno1", route=True)])
    ports: list[dict[str, Any]] = field(default_factory=list)
    acs: list[str] | None = field(default_factory=list)  # the bridges at which it redirects
    iommu: str | None = None
    system: dict[str, Any] = field(default_factory=dict)
    wishes: dict[str, Any] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)
    warned: str | None = None
    host_type: str = "training_servers"
    alone: bool = False

    def plan(self):
        """Return the whole plan."""
        node = facts(gpus=self.gpus, **self.system)
        for gpu in node["pci"]["gpus"]:
            gpu.update(redirecting_bridges=self.acs, iommu=self.iommu)
        node.update(network=self.network, infiniband=self.ports, nccl_own=self.own)
        types = TypesOfHost((self.host_type,))
        return resolve(node, options.complete(self.wishes), catalog.load(), TODAY, types, alone=self.alone)


SWITCH = ["0000:02:08.0"]
ENO1, WARN, NO_PCIE = {"NCCL_SOCKET_IFNAME": "=eno1"}, {"NCCL_DEBUG": "WARN"}, {"NCCL_P2P_LEVEL": "NVL"}
HGX_PORTS = [port(f"mlx5_{number}") for number in range(8)]
HGX_HCAS = {"NCCL_IB_HCA": "=" + ",".join(f"mlx5_{number}:1" for number in range(8))}

TOPOLOGIES = {
    "workstation, two GeForce behind one root port": Topology(
        [RTX_4090] * 2, {**WARN, **ENO1}, "Neither ACS nor the IOMMU", host_type="workstations"
    ),
    "the same, its IOMMU translating": Topology(
        [RTX_4090] * 2, {**WARN, **ENO1, **NO_PCIE}, "IOMMU translates", iommu="DMA-FQ", host_type="workstations"
    ),
    "one GeForce": Topology([RTX_4090], {**WARN, **ENO1}, "uses sockets", acs=SWITCH, iommu="DMA"),
    "4 A100 PCIe with ACS on": Topology([A100_PCIE] * 4, {**WARN, **ENO1, **NO_PCIE}, "ACS is on", acs=SWITCH),
    "4 A100 PCIe, ACS unread": Topology([A100_PCIE] * 4, {**WARN, **ENO1}, "could not be read", acs=None),
    "4 A100 PCIe in a virtual machine": Topology(
        [A100_PCIE] * 4, {**WARN, **ENO1}, "virtual machine", acs=SWITCH, iommu="DMA", system={"virtualization": "kvm"}
    ),
    "4 A100 PCIe, the IOMMU about to pass through": Topology(
        [A100_PCIE] * 4, {**WARN, **ENO1}, "Neither ACS nor the IOMMU", iommu="DMA", host_type="training_servers"
    ),
    "HGX with 8 InfiniBand adapters": Topology(
        [H100_SXM] * 8, {**WARN, **ENO1, **HGX_HCAS}, "dma-buf", ports=HGX_PORTS, acs=SWITCH
    ),
    "HGX with a slower adapter and one that is down": Topology(
        [H100_SXM] * 8,
        {**WARN, **ENO1, **HGX_HCAS},
        "mlx5_8:1, mlx5_9:1, mlx5_10:1 left out",
        ports=[*HGX_PORTS, port("mlx5_8", 100.0), port("mlx5_9", state="down"), port("mlx5_10", layer="ethernet")],
    ),
    "proprietary kernel modules and InfiniBand": Topology(
        [V100_SXM] * 4,
        {**WARN, **ENO1, "NCCL_IB_HCA": "=mlx5_0:1"},
        "nvidia-peermem",
        ports=[port("mlx5_0", 100.0)],
        modules=["nvidia-peermem"],
    ),
    "proprietary kernel modules in a container": Topology(
        [V100_SXM] * 4,
        {**WARN, **ENO1, "NCCL_IB_HCA": "=mlx5_0:1"},
        "InfiniBand",
        ports=[port("mlx5_0", 100.0)],
        system={"container": True},
    ),
    "RoCE": Topology(
        [A100_PCIE] * 2,
        {**WARN, "NCCL_SOCKET_IFNAME": "=ens1np0", "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1"},
        "The RoCE ports that are up, at 100 Gb/s",
        network=[nic("ens1np0", 100.0, route=True), nic("ens2np0", 100.0)],
        ports=[port("mlx5_0", 100.0, "ethernet"), port("mlx5_1", 100.0, "ethernet")],
    ),
    "one NIC named enp1s0f0np0": Topology(
        [RTX_4090],
        {**WARN, "NCCL_SOCKET_IFNAME": "=enp1s0f0np0"},
        "default route",
        network=[nic("docker0", None, kind="bridge"), nic("enp1s0f0np0", 25.0, route=True)],
    ),
    "bond": Topology(
        [RTX_4090],
        {**WARN, "NCCL_SOCKET_IFNAME": "=bond0"},
        "default route",
        network=[nic("bond0", 50.0, route=True, kind="bond"), nic("eno1", 25.0), nic("eno2", 25.0)],
    ),
    "an owner's line that leaves the loopback": Topology(
        [RTX_4090],
        WARN,
        "which is kept",
        own={"NCCL_SOCKET_IFNAME": "^docker0"},
        warned="Write NCCL_SOCKET_IFNAME=^docker0,lo",
    ),
    "the same, and no other node": Topology(
        [RTX_4090], WARN, "NCCL chooses", own={"NCCL_SOCKET_IFNAME": "^docker0"}, alone=True
    ),
    "no other node": Topology(
        [RTX_4090], WARN, "NCCL chooses", network=[nic("eno1", route=True), nic("ens1", 100.0)], alone=True
    ),
    "no other node, and an interface that was named": Topology(
        [RTX_4090], {**WARN, **ENO1}, "nccl_interface", wishes={"nccl_interface": "eno1"}, alone=True
    ),
    "wireless": Topology(
        [RTX_4090],
        WARN,
        "wlp2s0, with the default route, is a wireless interface",
        network=[nic("eno1", up=False), nic("wlp2s0", None, route=True, kind="wireless")],
    ),
    "a tunnel": Topology(
        [RTX_4090],
        WARN,
        "NCCL chooses",
        network=[nic("eno1"), nic("wg0", None, route=True, up=False, kind="tunnel")],
    ),
    "a container's own": Topology(
        [RTX_4090],
        {**WARN, "NCCL_SOCKET_IFNAME": "=eth0"},
        "default route",
        network=[nic("eth0", 10.0, route=True, kind="virtual")],
        system={"container": True},
    ),
    "no network": Topology([RTX_4090], WARN, "NCCL chooses", network=[]),
    "a fast network beside the default route": Topology(
        [RTX_4090],
        {**WARN, **ENO1},
        "default route",
        network=[nic("eno1", 1.0, route=True), nic("ens1", 100.0), nic("ens2", 200.0, up=False)],
        warned="set nccl_interface: ens1",
    ),
    "the interface that was named": Topology(
        [RTX_4090],
        {**WARN, "NCCL_SOCKET_IFNAME": "=ens1"},
        "nccl_interface",
        network=[nic("eno1", 1.0, route=True), nic("ens1", 100.0)],
        wishes={"nccl_interface": "ens1"},
    ),
    "overrides": Topology(
        [RTX_4090],
        {"NCCL_SOCKET_IFNAME": "=eno1", "NCCL_IB_TC": "106"},
        "nccl_overrides",
        wishes={"nccl_overrides": {"NCCL_DEBUG": None, "NCCL_IB_TC": 106}},
    ),
    "a setting that is in the file already": Topology(
        [RTX_4090], ENO1, "NCCL_DEBUG=INFO, which is kept", own={"NCCL_DEBUG": "INFO", "NCCL_IB_TC": "1"}
    ),
    "image without a GPU": Topology([], WARN, "image", wishes={"gpulab_without_gpu": True}, ports=HGX_PORTS),
}


@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_topology(topology):
    whole = topology.plan()
    plan = whole["nccl"]
    assert {setting["name"]: setting["value"] for setting in plan["settings"]} == topology.settings
    assert topology.said in " ".join(plan["because"])
    assert plan["modules"] == topology.modules
    warnings = [warning for warning in whole["warnings"] if re.search("nccl_interface|NCCL_", warning)]
    assert bool(warnings) == bool(topology.warned)
    assert all(topology.warned in warning for warning in warnings)


@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_the_file_is_as_nccl_reads_it(topology):
    """Each setting has its reason above it, in a line that no version of NCCL takes for a setting."""
    plan = topology.plan()["nccl"]
    lines = plan["file"].splitlines()
    assert lines[1::2] == [f"{one['name']}={one['value']}" for one in plan["settings"]]
    assert lines[::2] == [f"# {one['because']}" for one in plan["settings"]]
    assert not any("=" in line for line in lines[::2])


def on_roce(version, *tables):
    """Return NCCL's settings of a node whose ports of RoCE have IPv4 addresses at these indexes, and the reasons."""
    ports = [
        {
            **port(f"mlx5_{number}", layer="ethernet"),
            "gids": [{"index": 0, "gid": "fe80::1", "type": "RoCE v2", "ipv4": None}]
            + [{"index": index, "gid": "::ffff:10.9.0.1", "type": "RoCE v2", "ipv4": "10.9.0.1"} for index in table],
        }
        for number, table in enumerate(tables)
    ]
    node = facts(gpus=[H100_SXM])
    node.update(infiniband=ports)
    wishes = {"nvidia_driver_source": "nvidia", "cuda_toolkits": ["12.4"], "nccl_version": version}
    plan = resolve(node, options.complete(wishes), catalog.load(), TODAY)["nccl"]
    return {one["name"]: one["value"] for one in plan["settings"]}, " ".join(plan["because"])


def test_an_nccl_that_does_not_look_for_its_address_is_told_the_index_that_fits_all_ports():
    assert on_roce("2.20.5", [1, 3], [3])[0]["NCCL_IB_GID_INDEX"] == "3"


def test_an_nccl_that_finds_its_address_is_told_none():
    assert "NCCL_IB_GID_INDEX" not in on_roce("2.21.5", [3], [3])[0]


def test_no_index_is_named_that_some_port_does_not_have():
    settings, because = on_roce("2.20.5", [1], [3])
    assert "NCCL_IB_GID_INDEX" not in settings
    assert "none in common" in because


def programs(**changes):
    """Return the packages for adapters, those that go, and the reasons, of a node with one port that is down."""
    wishes = {name: changes.pop(name) for name in ("nccl_state", "nccl_rdma_state") if name in changes}
    node = facts(changes.pop("platform", "debian-12"), gpus=[H100_SXM], **changes.pop("system", {}))
    node.update({"infiniband": [port("mlx5_0", state="down")], **changes})
    plan = resolve(node, options.complete(wishes), catalog.load(), TODAY)["nccl"]
    return plan["packages"], plan["retired"], " ".join(plan["because"])


def test_a_node_with_adapters_gets_what_programs_need_to_use_them():
    names, retired, because = programs()
    assert {"rdma-core", "ibverbs-providers", "perftest", "infiniband-diags"} <= set(names)
    assert (retired, "rdma-core" in because) == ([], True)
    assert {"rdma-core", "libibverbs-utils", "perftest"} <= set(programs(platform="rhel-9")[0])


def test_what_comes_with_the_cards_software_is_left_alone():
    names, retired, because = programs(ofed=True)
    assert (names, retired) == ([], [])
    assert "DOCA-OFED" in because


@pytest.mark.parametrize("changes", [{"infiniband": []}, {"system": {"container": True}}])
def test_without_adapters_of_its_own_a_node_gets_nothing_and_keeps_what_it_has(changes):
    assert programs(**changes)[:2] == ([], [])


@pytest.mark.parametrize("wish", [{"nccl_rdma_state": "absent"}, {"nccl_state": "absent"}])
def test_what_is_not_wanted_goes(wish):
    names, retired, _because = programs(**wish)
    assert names == []
    assert "rdma-core" in retired


TESTS = {
    "nvidia_driver_source": "nvidia",
    "cuda_toolkits": ["13.1"],
    "nccl_version": "2.32.3",
    "nccl_tests_url": "https://mirror.example/nccl-tests.tar.gz",
    "nccl_tests_sha256": "a" * 64,
}


def test_nccl_tests_are_built_anew_for_what_they_depend_on():
    def directory(gpus=("10de:20f1",), **changes):
        given = options.complete({**TESTS, **changes})
        return resolve(facts(gpus=gpus), given, catalog.load(), TODAY)["nccl"]["tests"]["directory"]

    assert directory() == "/opt/gpulab-nccl-tests/aaaaaaaaaaaa-cuda13.1-nccl2.32.3-80"
    others = {
        directory(nccl_tests_sha256="b" * 64),
        directory(cuda_toolkits=["13.0"]),
        directory(nccl_version="2.28.3"),
        directory(gpus=["10de:2684"]),
    }
    assert len(others - {directory()}) == 4


def test_nccl_tests_are_built_for_the_nodes_gpus():
    mixed = resolve(facts(gpus=["10de:20f1", "10de:2330"]), options.complete(TESTS), catalog.load(), TODAY)
    expected = "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90"
    assert mixed["nccl"]["tests"]["gencode"] == expected


def test_no_nccl_tests_unasked():
    assert resolve(facts(), options.complete({}), catalog.load(), TODAY)["nccl"]["tests"] is None
