"""The files for Ray, SkyPilot and dstack, by their data."""

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.schedulers import files
from ansible_collections.gpulab.node.plugins.plugin_utils.schedulers.nodes import node, why_not

H100, L4 = "NVIDIA H100 80GB HBM3", "NVIDIA L4"
LOGIN = files.Login("deploy", "~/.ssh/deploy")


def line(*models, **more):
    gpus = [{"model": model} for model in models]
    return {
        "state": "verified",
        "verdict": "ok",
        "created": "2026-11-28T02:10:00Z",
        "simulated": None,
        "gpus": gpus,
    } | more


def fit(name, *models, **variables):
    return node(name, variables, line(*(models or [H100])))


def test_a_node_is_known_by_its_inventory_and_its_last_proof():
    one = fit("node07", L4, H100, H100, ansible_host="10.0.0.7", network_address="192.168.1.7", ansible_port="2222")
    assert (one.address, one.internal, one.port) == ("10.0.0.7", "192.168.1.7", 2222)
    assert (one.gpus, one.models) == (f"2 {H100}, 1 {L4}", "h100-80gb-hbm3-l4")


@pytest.mark.parametrize(
    ("variables", "last", "why"),
    [
        ({}, None, "no proof"),
        ({}, line(H100, verdict="fail"), "failed its last proof, of 2026-11-28"),
        ({}, line(state="unreachable"), "failed its last proof"),
        ({}, line(), "no GPU"),
        ({"ansible_connection": "local"}, line(H100), "by SSH"),
        ({"ansible_ssh_common_args": "-J bastion"}, line(H100), "through another machine"),
        ({"ansible_ssh_common_args": "-o ProxyJump=bastion"}, line(H100), "through another machine"),
    ],
)
def test_a_node_is_left_out(variables, last, why):
    assert why in why_not(variables, last)


def test_a_warning_of_the_proof_leaves_no_node_out():
    assert why_not({}, line(H100, verdict="warn")) is None
    assert why_not({"ansible_connection": "ssh"}, line(H100)) is None


def test_a_name_that_a_node_tells_of_its_gpu_stays_a_name():
    one = fit("node07", "NVIDIA\x1b[2J H100\n- evil: true" + "x" * 500)
    assert "\n" not in one.gpus
    assert "\x1b" not in one.gpus
    assert len(one.gpus) < 50
    assert one.models.startswith("h100-evil-true")


def test_ray_has_a_token_and_the_networks_addresses():
    nodes = [fit("a", ansible_host="10.0.0.1", network_address="192.168.1.1"), fit("b", ansible_host="10.0.0.2")]
    cluster = files.ray("lab", nodes, LOGIN, "/opt/venvs/ray")
    assert cluster["provider"] == {
        "type": "local",
        "head_ip": "192.168.1.1",
        "external_head_ip": "10.0.0.1",
        "worker_ips": ["10.0.0.2"],
    }
    commands = cluster["head_start_ray_commands"] + cluster["worker_start_ray_commands"]
    assert all(" RAY_AUTH_MODE=token PATH=/opt/venvs/ray/bin:$PATH ray " in command for command in commands)
    assert cluster["file_mounts"] == {"~/.ray/auth_token": "~/.ray/auth_token"}


def test_skypilot_has_a_pool_for_each_kind_of_gpu_whatever_their_number():
    pools = files.skypilot("lab", [fit("a", H100), fit("b", H100, H100), fit("c", L4)], LOGIN)
    assert {name: [host["ip"] for host in pool["hosts"]] for name, pool in pools.items()} == {
        "lab-h100-80gb-hbm3": ["a", "b"],
        "lab-l4": ["c"],
    }
    assert list(files.skypilot("lab", [fit("a")], LOGIN)) == ["lab"]


def test_dstack_has_one_fleet_with_ports_and_private_addresses():
    nodes = [
        fit("a", ansible_host="203.0.113.1", network_address="10.0.0.1", ansible_port=2222),
        fit("b", ansible_host="b.example", network_address="2001:4860::1"),
    ]
    fleet = files.dstack("lab", nodes, LOGIN)
    assert fleet["ssh_config"]["hosts"] == [
        {"hostname": "203.0.113.1", "port": 2222, "internal_ip": "10.0.0.1"},
        {"hostname": "b.example"},
    ]
    assert fleet["placement"] == "cluster"
    assert "placement" not in files.dstack("lab", nodes[:1], LOGIN)
