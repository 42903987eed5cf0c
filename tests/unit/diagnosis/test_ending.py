"""No remedy ends what belongs to somebody: who owns a process, and what is said of it."""

import os
import re
import socket
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import keepers, processes
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose, ending

from unit.checks import nodes
from unit.facts.test_people import process

from . import cases
from .troubles import TROUBLES

ROOT = Path(__file__).parents[3]
USER = "/user.slice/user-1000.slice"
RANK = {"LOCAL_RANK": "0"}
# Words of a command that ends processes, takes files or mounts away, or slows others down
ENDS = re.compile(
    r"\b(?:kill(?! -CONT)|pkill|killall|renice|fuser -k|umount|systemctl (?:stop|kill)|docker (?:rm|stop|kill))\b"
)


def keeper(tree, place, *, parent=1, environment=None, command="python3"):
    process(tree, 1, "systemd", "/init.scope", parent=0, uid=0)
    process(tree, 700, "torchrun", f"{USER}/session-3.scope")
    process(tree, 800, "systemd", f"{USER}/user@1000.service/init.scope")
    process(tree, 4711, command, place, parent=parent)
    return keepers.keeper(tree.node(), 4711, parent, environment or {})


@pytest.mark.parametrize(
    ("place", "changes", "owner"),
    [
        pytest.param("/system.slice/triton.service", {}, "triton.service", id="an-idle-service-for-inference"),
        pytest.param(
            f"{USER}/user@1000.service/app.slice/serve.service", {"parent": 800}, "serve.service", id="a-users"
        ),
        pytest.param(
            "/system.slice/docker-4f4f4f4f4f4f4f4f.scope", {}, "container 4f4f4f4f4f4f of Docker", id="docker"
        ),
        pytest.param(
            "/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope", {}, "a container or a guest", id="pod"
        ),
        pytest.param("/lxc.payload.c1", {}, "a container or a guest", id="lxc"),
        pytest.param("/", {"environment": {"SLURM_JOB_ID": "7"}}, "job 7 of Slurm", id="slurm"),
        pytest.param("/system.slice/slurmstepd.scope/job_8/step_0", {}, "job 8 of Slurm", id="slurm-by-its-group"),
        pytest.param(f"{USER}/session-3.scope", {}, "session 3", id="somebody-is-logged-in"),
        pytest.param("/", {"parent": 700}, "its parent, torchrun (PID 700)", id="its-program-lives"),
        pytest.param(f"{USER}/session-9.scope", {}, None, id="left-behind-by-a-login-that-has-ended"),
        pytest.param(f"{USER}/session-9.scope", {"parent": 800}, None, id="taken-over-by-the-users-systemd"),
        pytest.param("/", {"parent": 4000}, None, id="its-parent-has-just-ended"),
    ],
)
def test_who_owns_a_process(tree, place, changes, owner):
    tree.file("/run/systemd/sessions/3", "LEADER=700\n")
    tree.file("/run/systemd/sessions/9", "LEADER=5000\n")
    assert keeper(tree, place, **changes) == owner


def test_in_a_container_the_first_process_may_be_the_program_itself(tree):
    process(tree, 1, "torchrun", "/", parent=0)
    assert keepers.keeper(tree.node(), 4711, 1, {}) == "its parent, torchrun (PID 1)"


@pytest.mark.parametrize(
    ("table", "line", "connected"),
    [
        ("tcp", "0: 0100007F:1F40 00000000:0000 0A 0:0 0:0 0 1000 0 55 1", True),
        ("tcp6", "0: 00:1F40 00:0050 01 0:0 0:0 0 1000 0 55 1", True),
        ("tcp", "0: 0100007F:1F40 0100007F:0050 08 0:0 0:0 0 1000 0 55 1", False),  # its peer has gone
        ("tcp", "0: 0100007F:1F40 00000000:0000 0A 0:0 0:0 0 1000 0 56 1", False),
        ("unix", "0000: 00000002 00000000 00010000 0001 01 55 /run/x.sock", True),
        ("unix", "0000: 00000003 00000000 00000000 0001 03 55", True),
        ("unix", "0000: 00000002 00000000 00000000 0002 01 55", False),
    ],
)
def test_what_is_connected(tree, table, line, connected):
    tree.file(f"/proc/4711/net/{table}", f"heading\n{line}\n")
    assert keepers.is_connected(tree.node(), 4711, [55]) is connected
    assert not keepers.is_connected(tree.node(), 4711, [])


def test_a_real_socket_that_listens_is_seen():
    with socket.create_server(("127.0.0.1", 0)) as server:
        inode = int(re.search(r"\d+", str(Path(f"/proc/self/fd/{server.fileno()}").readlink()))[0])
        assert keepers.is_connected(Node(), os.getpid(), [inode])
    with socket.socket() as unused:
        inode = int(re.search(r"\d+", str(Path(f"/proc/self/fd/{unused.fileno()}").readlink()))[0])
        assert not keepers.is_connected(Node(), os.getpid(), [inode])


def told(**changes):
    """Return what is said of a worker of bob's that holds half of a GPU."""
    facts = nodes.healthy("h100x8")
    idle = {"pid": 3001, "user": "bob", "parent": 1, "state": "S", "cores": 0.0, "environment": RANK, "keeper": None}
    found = cases.evidence(facts, processes=[cases.process(**{**idle, **changes})])
    pid = found["processes"][0]["pid"]
    for gpu in found["gpus"]:
        gpu["used_mib"] = gpu["total_mib"]
    found["gpus"][0] |= {"used_mib": 40000, "holders": [{"pid": pid, "memory_mib": 40000, "later_mib": 40000}]}
    return diagnose.findings(cases.case(facts, found, "memory"))


def test_a_worker_that_nobody_has_is_left_over():
    assert {one.id: one.remedy for one in told()}["memory-left-over"] == "kill 3001"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"keeper": "triton.service"},
            "bob about PID 3001, which belongs to triton.service: systemctl status triton.service",
        ),
        ({"keeper": "session 3"}, "belongs to session 3: loginctl session-status 3"),
        ({"keeper": "job 7 of Slurm"}, "belongs to job 7 of Slurm: scontrol show job 7"),
        ({"connected": True}, "belongs to somebody who is connected to it"),
        ({"keeper": processes.UNKNOWN}, "belongs to somebody who could not be found out"),
        ({"pid": 1}, "PID 1 is the system's first process"),
    ],
)
def test_a_worker_that_somebody_has_is_not(changes, says):
    findings = told(**changes)
    assert "memory-left-over" not in {one.id for one in findings}
    assert any(says in one.remedy for one in findings)
    assert not any(ENDS.search(one.remedy) for one in findings)


@pytest.mark.parametrize("name", [name for name, one in TROUBLES.items() if one.rule != "memory-left-over"])
def test_no_other_remedy_ends_anything(name):
    trouble = TROUBLES[name]
    facts = nodes.healthy(trouble.model)
    found = cases.at_work(facts)
    trouble.change(found, facts)
    case = cases.case(facts, found, trouble.symptom, **trouble.asked)
    for finding in diagnose.findings(case):
        if finding.id == "hang-storage":  # a file server that never comes back, with what that costs
            assert "can lose" in finding.remedy or "umount" not in finding.remedy
        else:
            assert not ENDS.search(finding.remedy), finding


def test_no_remedy_of_an_errors_text_ends_anything():
    remedies = [record["remedy"] for record in catalog.load().error_texts]
    assert len(remedies) > 50
    assert [one for one in remedies if ENDS.search(one) or "rm /dev/shm" in one] == []


def test_gpulab_itself_is_never_looked_into(tree):
    process(tree, 1, "systemd", "/init.scope", parent=0, uid=0)
    process(tree, 3001, "ansible-playboo", f"{USER}/session-3.scope")
    process(tree, 3002, "python3", f"{USER}/session-3.scope", parent=3001)
    process(tree, 3003, "python3", "/system.slice/gpulab-metrics.service")
    process(tree, 3004, "python3", "/system.slice/other.service")
    pids = dict.fromkeys((1, 3001, 3002, 3003, 3004))
    assert keepers.of_gpulab(tree.node(), 3002, pids) == {1, 3001, 3002, 3003}


def test_what_shows_a_process():
    assert ending.show(7, None) == "ps -o pid,ppid,user,lstart,args -p 7"
    assert ending.show(7, "a@b.service") == "systemctl status a@b.service"
