"""A network file system whose server is gone, for real: a mount of FUSE that nobody serves. Every look at it hangs.

It stands for NFS, which needs a kernel that has it: whoever asks either of them waits in the kernel in the same way.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.active import mounts
from ansible_collections.gpulab.node.plugins.module_utils.checks import runner
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Node as Checked
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.facts.collect import collect
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose
from ansible_collections.gpulab.node.plugins.plugin_utils.proof import catalog

from unit.checks import nodes

from . import cases
from .test_real import NO_LIBRARY, gathered

NOSUID_NODEV = 6
WAITS = "import os, sys; print('ready', flush=True); os.stat(sys.argv[1])"


def mount(place):
    """Mount a file system that answers nothing, not even to its greeting."""
    descriptor = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={descriptor},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    called = ctypes.CDLL(None, use_errno=True).mount(b"nas:/data", place.encode(), b"fuse.sshfs", NOSUID_NODEV, options)
    if called:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def timed(work):
    begun = time.monotonic()
    return work(), time.monotonic() - begun


def diagnosed(pid):
    case = cases.case(nodes.healthy("h100x8"), gathered(pid=pid), "hang", pid=pid)
    return [(one.id, one.cause, one.remedy) for one in diagnose.findings(case)]


def look(place):
    """Print what the diagnosis and the proof say of a dead mount, with how long it took, as JSON."""
    mount(place)
    program = subprocess.Popen([sys.executable, "-c", WAITS, place], stdout=subprocess.PIPE, text=True)
    assert program.stdout.readline() == "ready\n"
    time.sleep(0.2)
    found = {"pid": program.pid}
    found["diagnosis"], found["diagnosis_seconds"] = timed(lambda: diagnosed(program.pid))
    facts, found["facts_seconds"] = timed(lambda: collect(Node(), 2, NO_LIBRARY))
    results = runner.verify(Checked(Facts(json.loads(json.dumps(facts))), None, catalog()))
    found["proof"] = [[one.id, one.severity] for one in results if place in one.summary]
    found["measured"], found["measured_seconds"] = timed(lambda: mounts.measure(place, 1.0))
    subprocess.run(["sh", "-c", found["diagnosis"][0][2].rpartition("written there: ")[2]], check=True)
    program.kill()
    program.wait()
    found["cured"] = diagnosed(os.getpid())
    print(json.dumps(found))


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        pytest.skip("no FUSE here")
    place = tmp_path_factory.mktemp("data")
    path = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); import conftest"
    told = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", f"{path}; from {__name__} import look; look({str(place)!r})"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "Error" in told.stderr and ("not permitted" in told.stderr or "not supported" in told.stderr):
        pytest.skip("no FUSE in a mount namespace here")
    assert told.returncode == 0, told.stderr
    return {"place": str(place), **json.loads(told.stdout)}


@pytest.mark.slow
def test_a_dead_mount_is_named_with_who_waits_for_it(seen):
    id_, cause, remedy = seen["diagnosis"][0]
    assert id_ == "hang-storage"
    assert f"{seen['place']} (fuse.sshfs from nas:/data) does not answer" in cause
    assert f"PID {seen['pid']}" in cause
    assert remedy.endswith(f"umount -l {seen['place']}")


@pytest.mark.slow
def test_the_remedy_as_printed_cures_it(seen):
    assert "hang-storage" not in [one[0] for one in seen["cured"]]


@pytest.mark.slow
def test_the_proof_names_a_dead_mount_too(seen):
    assert seen["proof"], seen
    assert {severity for _check, severity in seen["proof"]} == {"fail"}
    assert seen["measured"]["state"] == "late"


@pytest.mark.slow
def test_all_of_them_keep_their_deadline(seen):
    assert seen["diagnosis_seconds"] < 20
    assert seen["facts_seconds"] < 20
    assert seen["measured_seconds"] < 3
