"""Network interfaces from a sysfs tree, and whose the default route is."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.facts import network

HEADER = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
ZEROS = "0" * 32


def route(name, metric=0, destination="00000000", mask="00000000", flags="0003"):
    return f"{name}\t{destination}\t0102A8C0\t{flags}\t0\t0\t{metric}\t{mask}\t0\t0\t0\n"


def route6(name, metric="00000400", flags="00000003", destination=ZEROS, length="00"):
    return f"{destination} {length} {ZEROS} 00 {'f' * 32} {metric} 00000001 00000000 {flags} {name}\n"


@pytest.mark.parametrize(
    ("ipv4", "ipv6", "found"),
    [
        pytest.param("", "", None, id="no-network"),
        pytest.param(HEADER + route("eno1"), "", "eno1", id="one"),
        pytest.param(HEADER + route("wlan0", 600) + route("eno1", 100), "", "eno1", id="lowest-metric"),
        pytest.param(HEADER + route("eno1", destination="0002A8C0", mask="00FFFFFF"), "", None, id="a-subnet-only"),
        pytest.param(HEADER + route("tun0", destination="00000000", mask="00000080"), "", None, id="half-of-the-world"),
        pytest.param(HEADER + route("eno1", flags="0002"), "", None, id="down"),
        pytest.param("", route6("lo", "ffffffff", "00200200") + route6("eno1"), "eno1", id="ipv6-only"),
        pytest.param(HEADER + route("eno1", 900), route6("eno2", "00000001"), "eno1", id="ipv4-first"),
        pytest.param("", route6("eno1", length="40", destination="fd" + "0" * 30), None, id="ipv6-subnet-only"),
    ],
)
def test_default_interface(ipv4, ipv6, found):
    assert network.default_interface(ipv4, ipv6) == found


def interface(tree, name, number=1, **files):
    home = f"/sys/class/net/{name}"
    for file, text in {"type": number, "operstate": "up", "speed": -1, "uevent": "", **files}.items():
        tree.file(f"{home}/{file}", f"{text}\n")
    return home


def test_interfaces(tree):
    tree.file("/proc/net/route", HEADER + route("bond0"))
    tree.file("/sys/class/net/bonding_masters", "bond0\n")
    interface(tree, "lo", 772, operstate="unknown")
    home = interface(tree, "enp1s0f0np0", speed=100000, mtu=9000)
    tree.link(f"{home}/device/driver", "/sys/bus/pci/drivers/mlx5_core")
    tree.directory(f"{interface(tree, 'bond0', speed=25000)}/bonding")
    tree.directory(f"{interface(tree, 'docker0', operstate='down')}/bridge")
    interface(tree, "bond0.42", uevent="DEVTYPE=vlan\nINTERFACE=bond0.42")
    interface(tree, "ib0", 32)
    interface(tree, "veth1")
    wireless = interface(tree, "wlp2s0", uevent="DEVTYPE=wlan\nINTERFACE=wlp2s0")
    tree.link(f"{wireless}/device/driver", "/sys/bus/pci/drivers/iwlwifi")
    interface(tree, "wg0", 65534, operstate="unknown", uevent="DEVTYPE=wireguard\nINTERFACE=wg0")
    interface(tree, "ppp0", 512, operstate="unknown")
    interface(tree, "tap0", operstate="unknown", tun_flags="0x1002")
    found = {one["name"]: one for one in network.read(tree.node())}
    assert "lo" not in found
    assert {name: one["kind"] for name, one in found.items()} == {
        "bond0": "bond",
        "bond0.42": "vlan",
        "docker0": "bridge",
        "enp1s0f0np0": "physical",
        "ib0": "virtual",
        "veth1": "virtual",
        "wlp2s0": "wireless",
        "wg0": "tunnel",
        "ppp0": "tunnel",
        "tap0": "tunnel",
    }
    assert found["enp1s0f0np0"] == {
        "name": "enp1s0f0np0",
        "kind": "physical",
        "link_layer": "ethernet",
        "driver": "mlx5_core",
        "speed_gbps": 100.0,
        "mtu": 9000,
        "up": True,
        "default_route": False,
        "ipv4": None,
    }
    assert found["ib0"]["link_layer"] == "infiniband"
    assert [name for name, one in found.items() if one["default_route"]] == ["bond0"]
    assert found["veth1"]["speed_gbps"] is None


def test_address_is_the_kernels_own_answer():
    assert Node().ipv4("lo") == "127.0.0.1"
    assert Node().ipv4("gpulab-none") is None


def test_another_root_has_no_address_of_this_machine(tree):
    assert tree.node().ipv4("lo") is None
