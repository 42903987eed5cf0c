"""InfiniBand ports are read from the kernel's files; a node without a fabric has nothing to answer for."""

from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.facts import infiniband

from . import nodes


def test_ports_are_read(tmp_path):
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    files = {"link_layer": "InfiniBand", "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)"}
    for name, text in files.items():
        (port / name).write_text(f"{text}\n", encoding="utf-8")
    assert infiniband.read(Node(tmp_path)) == [
        {
            "device": "mlx5_0",
            "port": 1,
            "link_layer": "infiniband",
            "state": "active",
            "physical_state": "linkup",
            "rate_gbps": 400.0,
        }
    ]


def test_bare_node_has_no_ports(tmp_path):
    assert infiniband.read(Node(tmp_path)) == []


def test_rate_that_is_none():
    assert infiniband.rate_gbps("") is None


def test_unused_adapter_and_ethernet_are_no_finding():
    facts = nodes.healthy("l40s")
    port = {"device": "mlx5_0", "port": 1, "state": "down", "physical_state": "disabled", "rate_gbps": 10.0}
    facts["infiniband"] = [{**port, "link_layer": layer} for layer in ("infiniband", "ethernet")]
    assert {r.severity for r in verify(nodes.node(facts)) if r.id in ("infiniband", "gpudirect")} == {"inapplicable"}


def test_open_modules_need_no_peermem():
    facts = nodes.healthy("h100x8")
    facts["modules"]["nvidia_peermem"]["loaded"] = False
    assert {r.severity for r in verify(nodes.node(facts)) if r.id == "gpudirect"} == {"ok"}
