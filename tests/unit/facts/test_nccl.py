"""What the node tells NCCL programs is read from the files of all users."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.nccl import unmatched
from ansible_collections.gpulab.node.plugins.module_utils.core import owned_block
from ansible_collections.gpulab.node.plugins.module_utils.facts import nccl, network


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NCCL_SOCKET_IFNAME==ens1f0\n", {"NCCL_SOCKET_IFNAME": "=ens1f0"}),
        ("# NCCL_DEBUG=INFO\nNCCL_DEBUG=WARN # why\n", {"NCCL_DEBUG": "WARN"}),
        ('export NCCL_IB_HCA="mlx5_0,mlx5_1"; export X=1', {"NCCL_IB_HCA": "mlx5_0,mlx5_1"}),
        ("NCCL_DEBUG=INFO\nNCCL_DEBUG=WARN", {"NCCL_DEBUG": "WARN"}),
        ("if true; then\n  export NCCL_P2P_DISABLE=1\nfi", {}),
        ("export NCCL_SOCKET_IFNAME=$(first)\nNCCL_IB_HCA=`all`\n", {}),
        ("MY_NCCL_DEBUG=1\nPATH=/x", {}),
    ],
)
def test_settings_are_read_where_they_are_plain(text, expected):
    assert nccl.settings(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NCCL_DEBUG=INFO\nNCCL_SOCKET_IFNAME=nosuch0\nNCCL_SOCKET_IFNAME=eth0\n", "nosuch0"),
        ("NCCL_SOCKET_IFNAME=eth0 # uplink\n", "eth0 # uplink"),
        ('NCCL_SOCKET_IFNAME="eth0"', '"eth0"'),
        ("NCCL_SOCKET_IFNAME==eth0\n", "=eth0"),
        ("NCCL_SOCKET_IFNAME=$HOME\n", "$HOME"),
        ("NCCL_SOCKET_IFNAME=\nNCCL_SOCKET_IFNAME=eth0", ""),
        ("export NCCL_SOCKET_IFNAME=eth0\n", None),
        ("NCCL_DEBUG=INFO\n NCCL_SOCKET_IFNAME=eth0\n", None),
        ("#NCCL_SOCKET_IFNAME=eth0\n", None),
        ("NCCL_SOCKET_IFNAME eth0\n", None),
    ],
)
def test_nccls_own_file_is_read_letter_by_letter_and_the_first_line_counts(tree, text, expected):
    """As setEnvFile in src/misc/param.cc of NVIDIA/nccl does: no shell reads this file."""
    tree.file("/etc/nccl.conf", text)
    found = {setting["name"]: setting["value"] for setting in nccl.read(tree.node())}
    assert found.get("NCCL_SOCKET_IFNAME") == nccl.read_own(tree.node()).get("NCCL_SOCKET_IFNAME") == expected


def test_every_place_is_read(tree):
    tree.file("/etc/nccl.conf", "NCCL_DEBUG=WARN\n")
    tree.file("/etc/environment", 'NCCL_IB_HCA="mlx5"\n')
    tree.file("/etc/profile.d/nccl.sh", "export NCCL_NET=IB\n")
    tree.file("/etc/profile.d/nccl.csh", "setenv NCCL_NET IB\n")
    assert nccl.read(tree.node()) == [
        {"name": "NCCL_DEBUG", "value": "WARN", "file": "/etc/nccl.conf"},
        {"name": "NCCL_IB_HCA", "value": "mlx5", "file": "/etc/environment"},
        {"name": "NCCL_NET", "value": "IB", "file": "/etc/profile.d/nccl.sh"},
    ]


def test_bare_node_has_no_setting_and_no_interface(tree):
    assert nccl.read(tree.node()) == network.read(tree.node()) == []


@pytest.mark.parametrize(
    ("value", "vain"),
    [
        ("mlx5", []),
        ("mlx5_0:1,mlx5_1:1", []),
        ("=mlx5_1", []),
        ("=mlx5", ["mlx5"]),
        ("mlx5_0,mlx4_0", ["mlx4_0"]),
        ("^mlx4", []),
        ("^=mlx4_0", []),
        ("", []),
    ],
)
def test_patterns_match_as_in_nccl(value, vain):
    assert unmatched(value, ["mlx5_0", "mlx5_1"]) == vain


def test_own_settings_are_those_outside_of_the_block(tree):
    text = owned_block.merged("NCCL_DEBUG=INFO\n#NCCL_IB_TC=1\n", "NCCL_IB_HCA==mlx5_0:1", nccl.OWNER)
    tree.file("/etc/nccl.conf", text)
    assert nccl.read_own(tree.node()) == {"NCCL_DEBUG": "INFO"}
    assert {setting["name"] for setting in nccl.read(tree.node())} == {"NCCL_DEBUG", "NCCL_IB_HCA"}


TOPOLOGY = """<system version="1"><cpu numaid="0">
<pci busid="ffff:ff:01.0" class="0x060400"><pci busid="00000001:0B:00.0" class="0x030200"><gpu dev="0"/></pci>
<pci class='0x020700' busid='0101:00:00.0'/></pci></cpu>
<cpu><pci busid="0002:00:00.0" class="0x030000"/></cpu></system>"""
GRAPH = (
    '<graphs version="1"><graph id="0"><channel><net dev="0"/><gpu dev="0"/><gpu dev="0x7"/></channel></graph></graphs>'
)


def test_files_that_settings_name_are_read_where_they_are(tree):
    tree.file("/etc/topo.xml", TOPOLOGY).file("/etc/graph.xml", GRAPH).file(
        "/etc/nccl.conf", "NCCL_TOPO_FILE=/etc/topo.xml\n"
    )
    named = [{"value": value} for value in ("/etc/topo.xml", "/etc/graph.xml", "/etc/gone.xml", "1", "")]
    assert nccl.read_files(tree.node(), named) == {
        "/etc/topo.xml": {"gpus": ["0001:0b:00.0", "0002:00:00.0"], "devices": [0]},
        "/etc/graph.xml": {"gpus": [], "devices": [0, 7]},
    }
