"""Whether a node is watched, and on which address: never on every one unasked."""

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve

from unit.plan.make import TODAY, facts


def plan(*, routed="10.1.2.3", addresses=("10.1.2.3", "127.0.0.1"), arguments=(), **given):
    node = facts()
    node["monitoring"].update(addresses=list(addresses), routed_address=routed)
    node["monitoring"]["exporter"]["arguments"] = list(arguments)
    return resolve(node, options.complete(given), catalog.load(), TODAY)["monitoring"]


def test_unasked_nothing_listens():
    assert plan()["address"] is None


@pytest.mark.parametrize(
    ("routed", "address"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("100.64.3.4", "100.64.3.4"),
        ("8.8.8.8", "127.0.0.1"),
        (None, "127.0.0.1"),
    ],
)
def test_the_address_is_the_default_routes_unless_it_is_public(routed, address):
    found = plan(monitoring_state="present", routed=routed)
    assert found["address"] == address
    assert address in found["because"][0]


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])  # noqa: S104 - asked for
def test_the_address_is_the_one_requested(address):
    assert plan(monitoring_state="present", monitoring_listen_address=address)["address"] == address


def test_the_owners_other_arguments_are_no_obstacle():
    assert plan(monitoring_state="present", arguments=["--collector.systemd"])["address"] == "10.1.2.3"


def test_dcgms_exporter_comes_on_request_only():
    assert plan(monitoring_state="present")["dcgm_packages"] == []
    asked = plan(monitoring_state="present", monitoring_gpus="dcgm", nvidia_driver_source="nvidia")
    assert asked["dcgm_packages"] == ["datacenter-gpu-manager-exporter"]


def test_the_owners_address_is_none_of_an_unwatched_nodes_affair():
    assert plan(arguments=["--web.listen-address=:9100"])["address"] is None
