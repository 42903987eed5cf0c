"""Ports of InfiniBand and RoCE are read from the kernel's files, from ibv_devinfo and from dcb."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.facts import infiniband, nccl

# As recorded of soft-RoCE on Debian 13: Linux 6.12, rdma-core 56.
RXE = {
    "parent": "ens4",
    "ports/1/link_layer": "Ethernet",
    "ports/1/state": "4: ACTIVE",
    "ports/1/phys_state": "5: LinkUp",
    "ports/1/rate": "2.5 Gb/sec (1X SDR)",
    "ports/1/hw_counters/link_downed": "1",
    "ports/1/gids/0": "fe80:0000:0000:0000:5054:00ff:fe99:0001",
    "ports/1/gids/1": "0000:0000:0000:0000:0000:ffff:0a63:0001",
    "ports/1/gids/2": "0000:0000:0000:0000:0000:0000:0000:0000",
    "ports/1/gid_attrs/types/0": "RoCE v2",
    "ports/1/gid_attrs/types/1": "RoCE v2",
    "ports/1/gid_attrs/ndevs/0": "ens4",
    "ports/1/gid_attrs/ndevs/1": "ens4",
}
DEVINFO = """hca_id:\trxe0
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t0.0.0
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t1024 (3)
\t\t\tsm_lid:\t\t\t0
\t\t\tport_lid:\t\t0
\t\t\tlink_layer:\t\tEthernet

"""
SOFT = {
    "device": "rxe0",
    "port": 1,
    "link_layer": "ethernet",
    "state": "active",
    "physical_state": "linkup",
    "rate_gbps": 2.5,
    "card": None,
    "interface": "ens4",
    "opens": True,
    "mtu": 1024,
    "gids": [
        {"index": 0, "gid": RXE["ports/1/gids/0"], "type": "RoCE v2", "ipv4": None},
        {"index": 1, "gid": RXE["ports/1/gids/1"], "type": "RoCE v2", "ipv4": "10.99.0.1"},
    ],
    "downed": 1,
    "hours": 0.5,
    "lossless": None,
}
CARD = {"device/vendor": "0x15b3", "device/device": "0x1021", "device/net/ibs1/mtu": "2044"}
HDR = {
    "ports/1/link_layer": "InfiniBand",
    "ports/1/state": "4: ACTIVE",
    "ports/1/phys_state": "5: LinkUp",
    "ports/1/rate": "400 Gb/sec (4X NDR)",
    "ports/1/counters/link_downed": "0",
}


def adapter(tree, device, files):
    for name, text in files.items():
        tree.file(f"/sys/class/infiniband/{device}/{name}", f"{text}\n")
    return tree


def read(tree):
    return infiniband.InfinibandQuery(tree.node()).facts()


def test_soft_roce_is_read_as_it_is(tree):
    adapter(tree, "rxe0", RXE).prints("ibv_devinfo", DEVINFO).file("/proc/uptime", "1800.02 3000.11\n")
    assert read(tree) == [SOFT]


def test_a_port_that_is_off_keeps_its_addresses(tree):
    adapter(tree, "rxe0", {**RXE, "ports/1/state": "1: DOWN", "ports/1/phys_state": "3: Disabled"})
    (port,) = read(tree)
    assert (port["state"], port["physical_state"], len(port["gids"])) == ("down", "disabled", 2)


def test_a_card_of_infiniband_is_read(tree):
    (port,) = read(adapter(tree, "mlx5_0", {**CARD, **HDR}))
    told = {name: port[name] for name in ("card", "interface", "rate_gbps", "downed", "mtu", "opens", "gids")}
    assert told == {
        "card": "15b3:1021",
        "interface": "ibs1",
        "rate_gbps": 400.0,
        "downed": 0,
        "mtu": None,
        "opens": False,
        "gids": [],
    }


def test_whether_programs_open_a_port_is_not_told_without_ibv_devinfo(tree):
    adapter(tree, "mlx5_0", HDR).file("/usr/lib/x86_64-linux-gnu/libibverbs.so.1")
    assert [port["opens"] for port in read(tree)] == [None]


def test_a_port_that_ibv_devinfo_does_not_list_opens_for_nobody(tree):
    adapter(tree, "mlx5_0", HDR).file("/usr/lib/x86_64-linux-gnu/libibverbs.so.1").prints("ibv_devinfo", "")
    assert [port["opens"] for port in read(tree)] == [False]


def test_every_address_of_a_long_table_with_gaps_is_found(tree):
    empty = {f"ports/1/gids/{index}": "0000:" * 7 + "0000" for index in range(40)}
    adapter(tree, "rxe0", {**RXE, **empty, "ports/1/gids/12": RXE["ports/1/gids/1"]})
    assert [gid["index"] for gid in read(tree)[0]["gids"]] == [12]


def test_each_port_has_the_mtu_of_its_own():
    text = DEVINFO + DEVINFO.replace("rxe0", "mlx5_0").replace("1024 (3)", "4096 (5)")
    text += "\t\tport:\t2\n\t\t\tactive_mtu:\t\t256 (1)\n"
    assert infiniband.active_mtus(text) == {("rxe0", "1"): 1024, ("mlx5_0", "1"): 4096, ("mlx5_0", "2"): 256}


@pytest.mark.parametrize(
    ("printed", "priorities"),
    [
        ('{"pfc_cap":8,"macsec_bypass":false,"delay":0,"prio_pfc":[false,false,false,true]}', [3]),
        ('{"prio_pfc":["off","on"]}', [1]),
        ('{"prio_pfc":[false,false]}', []),
        ("", None),
        ("{}", None),
    ],
)
def test_the_priorities_that_pause_are_those_that_dcb_tells(tree, printed, priorities):
    adapter(tree, "rxe0", RXE).prints("dcb -j pfc show dev ens4", printed)
    assert [port["lossless"] for port in read(tree)] == [priorities]


@pytest.mark.parametrize(("mtu", "packet"), [(1500, 1024), (4191, 2048), (4192, 4096), (9000, 4096), (300, None)])
def test_the_largest_packet_is_what_the_kernel_finds_room_for(mtu, packet):
    assert infiniband.path_mtu(mtu) == packet


def test_bare_node_has_no_ports_and_asks_nobody(tree):
    assert read(tree) == []


def test_rate_that_is_none():
    assert infiniband.rate_gbps("") is None


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("mlx5", True),
        ("=mlx5_0", True),
        ("=mlx5_0:1", True),
        ("=mlx5_0:2", False),
        ("=mlx5", False),
        ("^mlx5_1", False),
    ],
)
def test_a_list_of_nccl_names_ports_as_nccl_reads_it(value, named):
    assert nccl.names_port(value, "mlx5_0", 1) is named
