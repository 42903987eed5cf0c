"""The nccl role, seen from the node."""

import pytest
import scenario

USER = "debian13"
TESTED = "debian13"


@pytest.fixture
def settings(host):
    """Return what NCCL would read: of two lines of a name, the first counts."""
    found = {}
    for line in host.file("/etc/nccl.conf").content_string.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, value)
    return found


def test_the_interface_is_the_one_that_reaches_the_world(host, settings):
    route = host.check_output("ip route show default").split()
    assert settings["NCCL_SOCKET_IFNAME"] == f"={route[route.index('dev') + 1]}"


def test_the_users_own_setting_wins(host, settings):
    own = host.check_output("hostname") == USER
    assert settings["NCCL_DEBUG"] == ("INFO" if own else "WARN")
    assert host.file("/etc/nccl.conf").content_string.startswith("NCCL_DEBUG=INFO\n# mine\n") == own
    assert host.file("/etc/nccl.conf").mode == (0o640 if own else 0o644)


def test_overrides_are_set(settings):
    assert settings["NCCL_IB_TC"] == "106"


def test_every_setting_has_its_reason_above_it(host):
    lines = host.file("/etc/nccl.conf").content_string.splitlines()
    block = lines[next(number for number, line in enumerate(lines) if "Written by gpulab" in line) :]
    for number, line in enumerate(block):
        if not line.startswith("#"):
            assert block[number - 1].startswith("# ")


def test_nccl_tests_are_built_where_they_are_requested(host):
    program = host.file("/usr/local/bin/all_reduce_perf")
    assert program.exists == (host.check_output("hostname") == TESTED)
    if program.exists:
        assert program.linked_to.startswith("/opt/gpulab-nccl-tests/")
        assert program.linked_to.endswith("-cuda13.1-nccl2.32.3-80/build/all_reduce_perf")
        assert host.run("all_reduce_perf").rc == 0


def test_a_job_starts_with_the_group_of_the_node(host):
    started = host.check_output("sh /etc/gpulab/torchrun.sh train.py --epochs 3").splitlines()
    own = host.check_output("hostname --all-ip-addresses").split()
    first = scenario.nodes()["debian12"].check_output("hostname --all-ip-addresses").split()
    options = dict(line.partition("=")[::2] for line in started if line.startswith("--") and "=" in line)
    assert options["--nnodes"] == "2"
    assert options["--local-addr"] in own
    assert options["--rdzv-endpoint"] in {f"{address}:23456" for address in first}
    assert started[-3:] == ["train.py", "--epochs", "3"]


def test_the_environment_decides_otherwise(host):
    started = host.check_output("NODES=4 RENDEZVOUS=head:1 PROCESSES=2 sh /etc/gpulab/torchrun.sh x").splitlines()
    assert {"--nnodes=4", "--rdzv-endpoint=head:1", "--nproc-per-node=2"} <= set(started)
