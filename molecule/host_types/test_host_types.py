"""What each host type brings without any setting, seen from a node of it."""

from dataclasses import dataclass

import pytest
from scenario import task

ENGINES = {"docker": "docker.io", "podman": "podman"}
ASK = "import urllib.request; print(urllib.request.urlopen('http://{}:9100/metrics').status)"


@dataclass(frozen=True)
class Expected:
    """What a type brings: its engine, for whom metrics are, whether it has names, whether GPUs keep their state."""

    engine: str = "docker"
    metrics_for_others: bool = True
    names: bool = False
    persistence: bool = True


EXPECTED = {
    "debian12": Expected(metrics_for_others=False, persistence=False),  # a workstation
    "debian13": Expected(names=True),  # a training server
    "shared": Expected(engine="podman"),
    "inference": Expected(),
}


@pytest.fixture
def name(host):
    return host.check_output("hostname")


@pytest.fixture
def expected(name):
    return EXPECTED[name]


def test_the_distributions_engine_has_the_container_toolkit(host, expected):
    assert [engine for engine in ENGINES if host.exists(engine)] == [expected.engine]
    assert host.package(ENGINES[expected.engine]).is_installed
    assert host.package("nvidia-container-toolkit").is_installed
    assert host.exists("nvidia-ctk")


def test_metrics_answer_on_the_loopback_of_a_workstation_and_on_the_network_elsewhere(host, expected):
    own = host.check_output("hostname --all-ip-addresses").split()[0]
    (listening,) = host.check_output("ss -Hltn 'sport = :9100'").splitlines()
    address = own if expected.metrics_for_others else "127.0.0.1"
    assert f" {address}:9100 " in listening
    served = host.check_output("python3 -c %s", ASK.format(address))
    assert served == "200"


def test_only_training_servers_know_the_other_nodes_by_name(host, name, expected):
    other = "debian12" if name == "debian13" else "debian13"
    assert (other in host.file("/etc/hosts").content_string) is expected.names


def test_the_gpus_keep_their_state_without_a_client_but_for_a_workstations(host, expected):
    gpus = task(host, "gpulab.node.gpu_facts")["ansible_facts"]["gpulab"]["nvml"]["gpus"]
    assert [gpu["persistence"] for gpu in gpus] == [expected.persistence] * 2


def test_what_null_takes_away_is_not_there(host):
    assert not host.file("/opt/venvs").exists
    assert not host.exists("nvcc")
