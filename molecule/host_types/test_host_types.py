"""What a host type brings without any setting, seen from the nodes: a workstation and a training server."""

import pytest

SERVER = "debian13"
ASK = "import urllib.request; print(urllib.request.urlopen('http://{}:9100/metrics').status)"


@pytest.fixture
def is_server(host):
    return host.check_output("hostname") == SERVER


def test_the_distributions_docker_has_the_container_toolkit(host):
    assert host.package("docker.io").is_installed
    assert host.package("nvidia-container-toolkit").is_installed
    assert host.exists("nvidia-ctk")
    assert not host.exists("podman")


def test_metrics_answer_on_the_loopback_of_a_workstation_and_on_the_network_of_a_server(host, is_server):
    own = host.check_output("hostname --all-ip-addresses").split()[0]
    (listening,) = host.check_output("ss -Hltn 'sport = :9100'").splitlines()
    address = own if is_server else "127.0.0.1"
    assert f" {address}:9100 " in listening
    served = host.check_output("python3 -c %s", ASK.format(address))
    assert served == "200"


def test_only_servers_know_the_other_nodes_by_name(host, is_server):
    other = "debian12" if is_server else "debian13"
    assert (other in host.file("/etc/hosts").content_string) is is_server


def test_what_null_takes_away_is_not_there(host):
    assert not host.file("/opt/venvs").exists
    assert not host.exists("nvcc")
