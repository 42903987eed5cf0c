"""A node without a fabric has nothing to answer for; nor has one whose RoCE ports work, or serve something else."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks.runner import verify

from . import loaded, nodes
from .faults import all_of, put
from .nccl_faults import nccl
from .roce_faults import ACROSS, ALONE, healthy, on_rail, roce_port

FABRIC = ("infiniband", "gpudirect", "rdma-programs", "port-downs", "memlock")
ON_ROCE = ("roce-ports", "roce-mtu", "roce-address", "roce-pause")


def severities(facts, checks):
    return {r.id: r.severity for r in verify(nodes.node(facts)) if r.id in checks}


def results(check, *injections):
    facts = healthy("h100x8")
    all_of(*injections)(facts)
    return [r for r in verify(nodes.node(facts)) if r.id == check]


def test_unused_adapter_and_ethernet_are_no_finding():
    facts = nodes.healthy("l40s")
    port = {"device": "mlx5_0", "port": 1, "state": "down", "physical_state": "disabled", "rate_gbps": 10.0}
    facts["infiniband"] = [{**port, "link_layer": layer} for layer in ("infiniband", "ethernet")]
    assert set(severities(facts, FABRIC + ON_ROCE).values()) == {"inapplicable"}


def test_open_modules_need_no_peermem():
    facts = nodes.healthy("h100x8")
    facts["modules"]["nvidia_peermem"]["loaded"] = False
    assert severities(facts, ["gpudirect"]) == {"gpudirect": "ok"}


def test_roce_that_works_has_no_finding():
    facts = healthy("h100x8")
    assert set(severities(facts, FABRIC[1:] + ON_ROCE).values()) == {"ok"}
    assert [r for r in verify(nodes.node(facts)) if r.severity in ("warn", "fail", "unknown")] == []


def test_ports_that_can_do_roce_on_a_server_without_peers_serve_something_else():
    facts = healthy("h100x8")
    all_of(ALONE, put("limits.sessions.memlock", 8 << 20), put("infiniband.0.state", "down"))(facts)
    assert set(severities(facts, FABRIC + ON_ROCE).values()) == {"inapplicable"}


def test_beside_infiniband_ports_that_can_do_roce_serve_something_else():
    facts = nodes.healthy("h100x8")
    facts["infiniband"].append({**roce_port(9), "mtu": 1024})
    assert severities(facts, ["roce-mtu"]) == {"roce-mtu": "inapplicable"}


def test_a_port_without_cable_and_without_address_is_spare():
    spare = {**roce_port(9), "state": "down", "physical_state": "polling", "gids": [roce_port(9)["gids"][0]]}
    (result,) = results("roce-ports", lambda facts: facts["infiniband"].append(spare))
    assert result.severity == "ok"


def test_a_slower_card_of_another_kind_is_no_finding():
    slower = {**roce_port(9), "card": "15b3:101d", "rate_gbps": 25.0}
    (result,) = results("roce-ports", lambda facts: facts["infiniband"].append(slower))
    assert result.severity == "ok"


@pytest.mark.parametrize(
    ("index", "severity"), [("3", "ok"), ("-1", "ok"), ("0", "fail"), ("1", "fail"), ("7", "fail")]
)
def test_the_index_has_to_lead_to_an_address_that_routers_pass_on_every_port(index, severity):
    found = results("roce-address", nccl("NCCL_IB_GID_INDEX", index))
    assert {result.severity for result in found} == {severity}
    assert len(found) == (2 if severity == "fail" else 1)


def test_a_switch_that_was_maintained_is_no_flapping_link():
    both = all_of(put("infiniband.0.downed", 40), put("infiniband.1.downed", 42))
    assert [r.severity for r in results("port-downs", both)] == ["ok"]


def test_a_few_downs_in_a_long_time_are_no_flapping_link():
    assert [r.severity for r in results("port-downs", put("infiniband.0.downed", 9))] == ["ok"]


def test_what_was_not_read_is_said_and_is_not_good():
    assert [r.severity for r in results("roce-pause", put("infiniband.0.lossless", None))] == ["info", "ok"]
    both = all_of(put("infiniband.0.lossless", None), put("infiniband.1.lossless", None))
    assert [r.severity for r in results("roce-pause", both)] == ["info"]
    assert [r.severity for r in results("roce-mtu", put("infiniband.0.mtu", None))] == ["info"]
    assert [r.severity for r in results("rdma-programs", put("infiniband.0.opens", None))] == ["info"]


def test_small_packets_on_a_fast_link_are_worth_a_word():
    small = [all_of(put(f"infiniband.{n}.mtu", 1024), put(f"network.{n + 1}.mtu", 1500)) for n in (0, 1)]
    found = results("roce-mtu", *small)
    assert {(r.severity, r.observed) for r in found} == {("info", 1024)}
    assert "4200" in found[0].summary


def test_soft_roce_has_no_card_to_judge():
    soft = all_of(*(put(f"infiniband.{number}.card", None) for number in (0, 1)))
    assert [r.severity for r in results("gpudirect", soft)] == ["inapplicable"]
    assert [r.severity for r in results("roce-pause", soft)] == ["inapplicable"]


def test_a_list_of_nccl_says_which_ports_count():
    """Only the port that NCCL is told of has to be right."""
    named = nccl("NCCL_IB_HCA", "=mlx5_1:1")
    assert [r.severity for r in results("roce-mtu", named, put("infiniband.0.mtu", 1024))] == ["ok"]
    facts = healthy("h100x8")
    all_of(ALONE, named, put("infiniband.1.state", "down"))(facts)
    assert severities(facts, ["roce-ports"]) == {"roce-ports": "warn"}


def over_nodes(*injections):
    facts = loaded.measured("h100x8")
    all_of(*injections)(facts)
    return [r for r in verify(nodes.node(facts, **ACROSS)) if r.id == "rdma-nodes"]


def test_rdma_between_nodes_is_told_with_its_figures():
    (result,) = over_nodes()
    assert (result.severity, result.observed, result.unit) == ("ok", 390.0, "Gb/s")
    assert result.summary == "RDMA with node2: 390 Gb/s or more, latency 1.9 us or less"


def test_soft_roces_rate_is_not_judged():
    soft = [put(f"infiniband.{number}.card", None) for number in range(8)]
    (result,) = over_nodes(*soft, on_rail(write_gbps=0.05))
    assert (result.severity, result.reason) == ("ok", "soft-RoCE: the rate is not judged")


def test_one_node_is_not_blamed_for_another_that_did_not_come():
    pair = {"peer": "node2", "state": "missing", "reason": "ib_write_bw is not installed (package perftest)"}
    (result,) = over_nodes(put("measurements.nodes_rdma.pairs", [pair]))
    assert (result.severity, result.reason) == ("unknown", "node2: ib_write_bw is not installed (package perftest)")
