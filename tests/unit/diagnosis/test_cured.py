"""Troubles that are made for real on this machine, and cured for real: by the command that the remedy prints."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose

from unit.checks import nodes

from . import cases
from .test_real import LISTEN, READY, free_port, gathered, with_wrong_cudnn

pytestmark = pytest.mark.slow

CORES = len(os.sched_getaffinity(0))


def found(symptom, **asked):
    """Return what is found on this machine, by rule, with the facts of a healthy node of as many processors."""
    facts = nodes.healthy("h100x8")
    facts["system"]["cpu_cores"] = CORES
    case = cases.case(facts, gathered(**asked), symptom, **asked)
    case.evidence.machine.pressure.clear()  # this machine may be busy with other tests
    return {one.id: one for one in diagnose.findings(case)}


def command(remedy):
    """Return the command that a remedy begins with."""
    return remedy.partition(";")[0]


def shell(line):
    subprocess.run(["sh", "-c", line], check=True, capture_output=True)


# What a program is given: the symptom, the rule that has to be first, and the command that cures the next start
VARIABLES = {
    "a proxy that is gone": ({"HTTPS_PROXY": "http://127.0.0.1:{port}"}, "network", "network-proxy"),
    "an interface that is not there": ({"NCCL_SOCKET_IFNAME": "eth9"}, "network", "network-interface"),
    "an interface for Gloo that is not there": ({"GLOO_SOCKET_IFNAME": "eth9"}, "network", "network-interface"),
    "each kernel waited for": ({"CUDA_LAUNCH_BLOCKING": "1"}, "slow", "slow-variable"),
    "no peer copies": ({"NCCL_P2P_DISABLE": "1"}, "slow", "slow-variable"),
    "no shared memory for NCCL": ({"NCCL_SHM_DISABLE": "1"}, "slow", "slow-variable"),
    "no InfiniBand": ({"NCCL_IB_DISABLE": "1"}, "slow", "slow-variable"),
    "each collective checked": ({"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, "slow", "slow-variable"),
    "a CUDA that is gone": ({"CUDA_HOME": "/usr/local/cuda-9.9"}, "mismatch", "mismatch-cuda-home"),
    "libraries that are gone": ({"LD_LIBRARY_PATH": "/opt/cuda-9.9/lib64"}, "mismatch", "mismatch-missing-directory"),
    "packages of another Python": (
        {"PYTHONPATH": "/opt/old/lib/python3.6/site-packages"},
        "mismatch",
        "mismatch-python-path",
    ),
    "PyTorch without its cache": ({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, "memory", "memory-caching-off"),
}


@pytest.mark.parametrize(("variables", "symptom", "rule"), VARIABLES.values(), ids=VARIABLES)
def test_a_variable_that_is_wrong(start, variables, symptom, rule):
    given = {**os.environ, **{name: value.format(port=free_port()) for name, value in variables.items()}}
    first = next(iter(found(symptom, pid=start([sys.executable, "-c", READY], env=given).pid).values()))
    assert first.id == rule
    again = ["sh", "-c", f'{command(first.remedy)}; exec "$0" -c "$1"', sys.executable, READY]
    assert rule not in found(symptom, pid=start(again, env=given).pid)


def can_lock():
    """Tell whether this machine lets root raise a limit."""
    line = "ulimit -H -l 64 && prlimit --memlock=unlimited --pid $$"
    return subprocess.run(["sh", "-c", line], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_lock(), reason="limits cannot be raised here")
def test_too_little_locked_memory(start):
    lowered = ["sh", "-c", 'ulimit -H -l 64; ulimit -S -l 64; exec "$0" -c "$1"', sys.executable, READY]
    program = start(lowered)
    first = next(iter(found("import", pid=program.pid).values()))
    assert first.id == "import-memlock"
    shell(command(first.remedy))
    assert "import-memlock" not in found("import", pid=program.pid)


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 65536, reason="limits cannot be raised here")
def test_open_files_that_are_used_up(start):
    held = f"f = [open('/dev/null') for _ in range(58)]; {READY}"
    program = start(["sh", "-c", 'ulimit -S -n 64; exec "$0" -c "$1"', sys.executable, held])
    rule = "import-open-files"
    shell(command(found("import", pid=program.pid)[rule].remedy))
    assert rule not in found("import", pid=program.pid)


@pytest.mark.skipif(CORES < 2, reason="one processor is all that there is")
def test_a_program_on_one_processor(start):
    program = start(["taskset", "-c", "0", sys.executable, "-c", READY])
    first = next(iter(found("slow", pid=program.pid).values()))
    assert first.id == "slow-few-cores"
    shell(command(first.remedy))
    assert "slow-few-cores" not in found("slow", pid=program.pid)
    assert len(os.sched_getaffinity(program.pid)) == CORES


def test_a_program_that_was_stopped(start):
    program = start([sys.executable, "-c", READY])
    program.send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    first = next(iter(found("hang", pid=program.pid).values()))
    assert first.id == "hang-stopped"
    shell(command(first.remedy))
    assert "hang-stopped" not in found("hang", pid=program.pid)


def test_a_port_that_is_taken(start):
    port = free_port()
    holder = start([sys.executable, "-c", LISTEN, str(port)])
    error = f"port: {port}, EADDRINUSE: Address already in use"
    first = next(iter(found("network", error=error).values()))
    assert first.id == "network-port-taken"
    assert f"whose process {holder.pid} is" in first.remedy
    holder.kill()
    holder.wait(5)
    assert "network-port-taken" not in found("network", error=error)
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_the_port_that_is_proposed_instead_is_free(start):
    port = free_port()
    start([sys.executable, "-c", LISTEN, str(port)])
    first = next(iter(found("network", error=f"port: {port}, Address already in use").values()))
    proposed = first.remedy.partition("--master-port ")[2].partition(" ...")[0]
    told = subprocess.run(["sh", "-c", f"echo {proposed}"], check=True, capture_output=True, text=True)
    with socket.create_server(("127.0.0.1", int(told.stdout))):
        pass


def test_a_first_rank_that_is_not_there(start):
    port = free_port()
    told = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": "1", "WORLD_SIZE": "2"}
    program = start([sys.executable, "-c", READY], env={**os.environ, **told})
    first = next(iter(found("network", pid=program.pid).values()))
    assert first.id == "network-server"
    assert first.remedy.startswith("Start the program there (rank 0 of a job first)")
    start([sys.executable, "-c", LISTEN, str(port)])
    assert "network-server" not in found("network", pid=program.pid)


def test_a_lock_of_a_compilation_that_died(start, tmp_path):
    lock = tmp_path / ".cache/torch_extensions/py312_cu128/fused_adam/lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    os.utime(lock, (time.time() - 3600,) * 2)
    program = start([sys.executable, "-c", READY], env={**os.environ, "HOME": str(tmp_path)})
    first = next(one for one in found("hang", pid=program.pid).values() if one.id == "hang-extension-lock")
    shell(command(first.remedy))
    assert not lock.exists()
    assert "hang-extension-lock" not in found("hang", pid=program.pid)


def test_a_wrong_cudnn_before_pytorchs_own(start, tmp_path):
    python, old = with_wrong_cudnn(tmp_path)
    given = {**os.environ, "LD_LIBRARY_PATH": str(old)}
    first = next(iter(found("mismatch", pid=start([python, "-c", READY], env=given).pid).values()))
    assert "LD_LIBRARY_PATH" in first.remedy
    again = ["sh", "-c", f'{command(first.remedy)}; exec "$0" -c "$1"', python, READY]
    assert first.id not in found("mismatch", pid=start(again, env=given).pid)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_shared_memory_of_64_mib(start):
    mount = 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$0" -c "$1"'
    try:
        program = start(["unshare", "--mount", "sh", "-c", mount, sys.executable, READY])
    except AssertionError:
        pytest.skip("no mount namespace here")
    first = next(iter(found("import", pid=program.pid).values()))
    assert first.id == "import-shared-memory"
    remount = next(part.strip() for part in first.remedy.split(";") if "remount" in part)
    shell(f"nsenter --mount --target {program.pid} {remount[remount.index('mount') :]}")
    assert "import-shared-memory" not in found("import", pid=program.pid)


ASK = """
import sys
sys.path.insert(0, sys.argv[1])
import conftest
from unit.diagnosis.test_cured import found
print(*found("network", pid=int(sys.argv[2])))
"""


@pytest.fixture
def two_nodes():
    """Make two network namespaces with a cable between them; return what runs a command in the first or second."""
    names = [f"gpulab-{os.getpid()}-{number}" for number in (1, 2)]
    lines = [
        *(f"ip netns add {name}" for name in names),
        f"ip link add gl{os.getpid()}a netns {names[0]} type veth peer name gl{os.getpid()}b netns {names[1]}",
        *(
            f"ip -n {name} addr add 192.0.2.{number}/24 dev gl{os.getpid()}{end}; ip -n {name} link set lo up;"
            f" ip -n {name} link set gl{os.getpid()}{end} up"
            for name, number, end in zip(names, (1, 2), "ab")
        ),
    ]
    made = subprocess.run(["sh", "-ec", "\n".join(lines)], capture_output=True, check=False)
    yield (lambda number: ["ip", "netns", "exec", names[number - 1]]) if made.returncode == 0 else None
    for name in names:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def test_a_firewall_between_two_nodes(start, two_nodes):
    if two_nodes is None or not shutil.which("iptables"):
        pytest.skip("no network namespaces or no firewall here")
    listen = LISTEN.replace("127.0.0.1", "192.0.2.2")
    start([*two_nodes(2), sys.executable, "-c", listen, "29500"])
    told = {"MASTER_ADDR": "192.0.2.2", "MASTER_PORT": "29500", "RANK": "1", "WORLD_SIZE": "2"}
    rank = start([*two_nodes(1), sys.executable, "-c", READY], env={**os.environ, **told})
    ask = [*two_nodes(1), sys.executable, "-c", ASK, str(Path(__file__).parents[2]), str(rank.pid)]

    def first():
        return subprocess.run(ask, check=True, capture_output=True, text=True).stdout.split()

    rule = ["INPUT", "--protocol", "tcp", "--dport", "29500", "--jump", "DROP"]
    assert "network-server" not in first()
    subprocess.run([*two_nodes(2), "iptables", "--append", *rule], check=True)
    assert first()[0] == "network-server"
    subprocess.run([*two_nodes(2), "iptables", "--delete", *rule], check=True)
    assert "network-server" not in first()
