"""Troubles that are made for real on this machine: the module's evidence and the rules find each, and end nothing."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import (
    evidence,
    keepers,
    libraries,
    machine,
    processes,
    reach,
)
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis.shapes import DiagnosisQuestion, NetworkMount
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose
from sim.build import build

from unit.checks import nodes

from . import cases

pytestmark = pytest.mark.slow

SIM = Path(__file__).parents[2] / "sim"
NO_LIBRARY = "libgpulab-no-such.so"


@pytest.fixture
def start(start):
    """Return what starts a Python program, waits until it says that it is ready, and returns it."""

    def run(code, *arguments, python=sys.executable, **settings):
        return start([python, "-c", code, *arguments], **settings)

    return run


def gathered(seconds=0.2, own=-1, library=NO_LIBRARY, **asked):
    read = asdict(evidence.gather(Node(), DiagnosisQuestion(seconds=seconds, **asked), own, 5, library))
    read["machine"]["killed"] = []  # the kernel's log is that of all tests that run on this machine
    return read


def found(symptom, seconds=0.2, library=NO_LIBRARY, **asked):
    """Return the ids of what is found on this machine, with the facts of a healthy node."""
    facts = nodes.healthy("h100x8")
    told = {name: value for name, value in asked.items() if name != "address"}
    case = cases.case(facts, gathered(seconds, library=library, **asked), symptom, **told)
    return {one.id: one for one in diagnose.findings(case)}


READY = "import sys, time; print('ready', flush=True); time.sleep(60)"


LISTEN = """
import socket, sys, time
with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
    print("ready", flush=True); time.sleep(60)
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_port_that_is_taken_names_its_owner(start):
    port = free_port()
    program = start(LISTEN, str(port))
    first = found("network", error=f"port: {port}, EADDRINUSE: Address already in use")["network-port-taken"]
    assert f"port {port}" in first.cause
    assert f"PID {program.pid}" in first.cause
    assert f"about PID {program.pid}" in first.remedy or f"whose process {program.pid} is" in first.remedy


def test_a_free_port_is_not_taken():
    port = free_port()
    assert "network-port-taken" not in found("network", error=f"port: {port}, Address already in use")


LEAK = """
import time
kept = []
print("ready", flush=True)
while True:
    kept.append(bytearray(b"x") * (8 << 20)); time.sleep(.05)
"""


def test_a_leak_that_grows_is_measured(start):
    record = one(gathered(2.0, pid=start(LEAK).pid))
    assert record["later_mib"] - record["rss_mib"] > 15


def one(read):
    (record,) = read["processes"]
    return record


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    """Return what lets the simulated driver say who holds memory of its eight H100, and the driver's library."""
    if not shutil.which("gcc"):
        pytest.skip("no compiler here")
    settings = tmp_path / "gpu.conf"
    monkeypatch.setenv("GPULAB_SIMULATION", str(settings))

    def hold(*changes):
        written = settings.with_suffix(".new")
        written.write_text("\n".join([(SIM / "models/h100-sxm-8.conf").read_text(), *changes]) + "\n")
        written.replace(settings)
        return library

    library = str(build(tmp_path / "sim") / "libnvidia-ml.so.1")
    return hold


def test_who_holds_a_gpu_is_named_with_the_gpus_that_are_free(start, gpus):
    program = start(READY)
    told = found("memory", library=gpus(f"gpu.0.processes = {program.pid}:60000"))
    first = next(iter(told.values()))
    assert first.id == "memory-held"
    assert f"PID {program.pid}" in first.cause
    assert first.remedy == "export CUDA_VISIBLE_DEVICES=1,2,3,4,5,6,7"


def test_memory_that_grows_on_a_gpu_is_measured(start, gpus):
    program = start(READY)
    library = gpus(f"gpu.3.processes = {program.pid}:1000")
    later = threading.Timer(0.7, gpus, [f"gpu.3.processes = {program.pid}:9000"])
    later.start()
    told = found("memory", 2.0, library, pid=program.pid)
    later.join()
    assert next(iter(told)) == "memory-grows", told
    assert "GPU 3" in told["memory-grows"].cause


ORPHAN = """
import os, sys, time
if os.fork() == 0:
    os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)"], {"LOCAL_RANK": "0"})
print("ready", flush=True)
"""


def test_what_a_dead_program_left_on_a_gpu_is_named_and_not_ended(start, gpus, monkeypatch):
    program = start(ORPHAN, start_new_session=True)
    program.wait()
    time.sleep(0.3)
    (left,) = [pid for pid, stat in processes.table(Node()).items() if os.getsid(pid) == program.pid]
    try:
        if processes.table(Node())[left].parent != 1:
            pytest.skip("another process than init takes orphans here")
        init = Path("/proc/1/comm").read_text().strip()
        monkeypatch.setattr(keepers, "INITS", {init})
        told = found("memory", library=gpus(f"gpu.0.processes = {left}:40000"))
        assert next(iter(told)) == "memory-left-over", told
        assert told["memory-left-over"].remedy == f"kill {left}"
        assert left in processes.table(Node())
    finally:
        os.kill(left, signal.SIGKILL)


def test_a_stopped_process_is_found_and_stays_stopped(start):
    program = start(READY)
    program.send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    first = next(iter(found("hang", pid=program.pid).values()))
    assert first.id == "hang-stopped"
    assert f"kill -CONT {program.pid}" in first.remedy
    assert processes.table(Node())[program.pid].state == "T"
    assert program.poll() is None


RANKS = """
import os, subprocess, sys, time
ranks = []
for rank in "01":
    told = {**os.environ, "LOCAL_RANK": rank, "RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    ranks.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=told))
time.sleep(.3); ranks[1].kill(); time.sleep(.2)
print("ready", flush=True); time.sleep(60)
"""


def test_a_rank_that_was_killed_is_found(start):
    program = start(RANKS, start_new_session=True)
    try:
        hung = found("hang", pid=program.pid)
        assert next(iter(hung)) == "hang-dead-rank", hung
    finally:
        os.killpg(program.pid, signal.SIGKILL)


LOCK = (
    "import fcntl, sys, time; f = open(sys.argv[1], 'w'); {before}fcntl.flock(f, fcntl.LOCK_EX); {after}time.sleep(60)"
)
SAY = "print('ready', flush=True); "


def test_who_waits_for_a_files_lock_is_found(start, tmp_path):
    holder = start(LOCK.format(before="", after=SAY), str(tmp_path / "lock"))
    waiter = start(LOCK.format(before=SAY, after=""), str(tmp_path / "lock"))
    time.sleep(0.2)
    read = gathered(pid=waiter.pid)
    if not read["waiting"]:
        pytest.skip("the kernel of this machine shows no locks")
    assert read["waiting"] == [[waiter.pid, holder.pid]]


def test_a_lock_that_a_dead_compilation_left_is_found(start, tmp_path):
    lock = tmp_path / ".cache/torch_extensions/py312_cu128/fused_adam/lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    os.utime(lock, (time.time() - 3600,) * 2)
    program = start(READY, env={**os.environ, "HOME": str(tmp_path)})
    first = next(one for one in found("hang", pid=program.pid).values() if str(lock) in one.remedy)
    assert "rm" in first.remedy
    assert lock.exists()


def test_a_lock_that_somebody_has_open_is_left_alone(start, tmp_path):
    lock = tmp_path / ".cache/torch_extensions/py312_cu128/fused_adam/lock"
    lock.parent.mkdir(parents=True)
    code = f"f = open({str(lock)!r}, 'w'); {READY}"
    program = start(code, env={**os.environ, "HOME": str(tmp_path)})
    assert gathered(pid=program.pid)["locks"][0]["held_by"] == [program.pid]
    assert not [one for one in found("hang", pid=program.pid).values() if str(lock) in one.remedy]


def test_open_files_that_are_used_up_are_found(start):
    code = f"f = [open('/dev/null') for _ in range(60)]; {READY}"
    program = start(code, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
    assert "import-open-files" in found("import", pid=program.pid)


def test_variables_of_a_program_are_read_without_its_secrets(start):
    told = {
        "NCCL_DEBUG": "INFO",
        "LD_LIBRARY_PATH": "/opt/old",
        "HF_TOKEN": "hf_secret",
        "HTTPS_PROXY": "http://u:pw@p:1",
    }
    record = one(gathered(pid=start(READY, env={**os.environ, **told}).pid))
    assert record["environment"]["NCCL_DEBUG"] == "INFO"
    assert record["environment"]["LD_LIBRARY_PATH"] == "/opt/old"
    assert "hf_secret" not in str(record)
    assert "pw" not in record["environment"].get("HTTPS_PROXY", "")


def with_wrong_cudnn(directory):
    """Make a PyTorch with its cuDNN, and another cuDNN beside it; return the interpreter and the other's directory."""
    old = directory / "old"
    old.mkdir()
    (old / "libcudnn.so.9.1.0").touch()
    (old / "libcudnn.so.9").symlink_to("libcudnn.so.9.1.0")
    site = directory / "venv/lib/python3.12/site-packages"
    (site / "nvidia/cudnn/lib").mkdir(parents=True)
    (site / "nvidia/cudnn/lib/libcudnn.so.9").touch()
    for name in ("torch-2.9.1+cu128", "nvidia_cudnn_cu12-9.10.2.21"):
        (site / f"{name}.dist-info").mkdir()
    (directory / "venv/bin").mkdir()
    python = directory / "venv/bin/python3"
    python.symlink_to(sys.executable)
    return python, old


def test_a_wrong_cudnn_in_the_path_of_a_program_is_first(start, tmp_path):
    python, old = with_wrong_cudnn(tmp_path)
    program = start(READY, python=str(python), env={**os.environ, "LD_LIBRARY_PATH": str(old)})
    mismatch = found("mismatch", pid=program.pid)
    first = next(iter(mismatch.values()))
    assert str(old) in first.cause + " ".join(first.evidence), mismatch
    assert "LD_LIBRARY_PATH" in first.remedy


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_small_shared_memory_is_seen_as_the_program_sees_it():
    mount = 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$0" -c "$1"'
    program = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", mount, sys.executable, READY], stdout=subprocess.PIPE, text=True
    )
    try:
        if program.stdout.readline() != "ready\n":
            pytest.skip("no mount namespace here")
        assert one(gathered(pid=program.pid))["shared_memory"]["size_mib"] == 64
        assert "import-shared-memory" in found("import", pid=program.pid)
    finally:
        program.kill()
        program.wait()


def test_who_keeps_processors_busy_is_named(start):
    program = start("print('ready', flush=True)\nwhile True: pass")
    read = gathered(1.0)
    assert program.pid in {one["pid"] for one in read["busy"]}
    assert next(one for one in read["busy"] if one["pid"] == program.pid)["cores"] > 0.1


def test_the_asker_and_what_it_started_are_left_out(start):
    program = start("print('ready', flush=True)\nwhile True: pass")
    read = gathered(0.5, own=os.getpid(), pid=program.pid)
    assert program.pid not in {one["pid"] for one in read["busy"]}
    assert read["processes"] == []


@pytest.mark.parametrize(
    ("module", "name", "part"),
    [
        (processes, "read", "processes"),
        (libraries, "read", "libraries"),
        (reach, "read", "network"),
        (machine, "read", "machine"),
    ],
)
def test_a_part_that_hangs_is_late_and_the_others_stand(module, name, part, monkeypatch, start):
    monkeypatch.setattr(evidence, "PART_SECONDS", 0.5)
    pid = start(READY).pid
    if part == "processes":  # as the memory map of a process that is stuck in the kernel
        monkeypatch.setattr(processes, "inside", lambda *_arguments: time.sleep(60))
    else:
        monkeypatch.setattr(module, name, lambda *_arguments: time.sleep(60))
    begun = time.monotonic()
    read = gathered(pid=pid)
    assert time.monotonic() - begun < 8
    assert part in read["late"]
    if part == "processes":
        assert read["stuck"] == pid
        assert one(read)["pid"] == pid  # what cannot hang was read before
    else:
        assert one(read)["arguments"]


def test_a_mount_that_does_not_answer_is_not_waited_for(monkeypatch):
    text = "36 25 0:43 / /srv/data rw - nfs4 nas:/data rw\n"
    monkeypatch.setattr(machine, "_ask", lambda _path, _emit: time.sleep(60))
    read = Node.text
    monkeypatch.setattr(Node, "text", lambda self, path: text if path.endswith("mountinfo") else read(self, path))
    begun = time.monotonic()
    found = machine.MountsQuery(Node(), 0.3).evidence()
    assert time.monotonic() - begun < 3
    assert found == [NetworkMount("/srv/data", "nfs4", "nas:/data", None)]


def test_a_driver_that_hangs_is_not_waited_for(tmp_path, start):
    source = tmp_path / "hang.c"
    source.write_text("#include <unistd.h>\nint nvmlInit_v2(void) { for (;;) pause(); }\n")
    library = tmp_path / "libnvidia-ml.so.1"
    if not shutil.which("gcc"):
        pytest.skip("no compiler here")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    pid = start(READY).pid
    begun = time.monotonic()
    read = asdict(evidence.gather(Node(), DiagnosisQuestion(pid=pid, seconds=0.1), -1, 1, str(library)))
    assert time.monotonic() - begun < 10
    assert read["gpus"] == []
    assert one(read)["pid"] == pid
