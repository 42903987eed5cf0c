"""A GPU node joins a Slurm that somebody else set up, and leaves it; their files, partitions and jobs stay."""

import json
import time

import pytest
from rollouts import boot_with_a_driver

NODES = [
    {"name": "theirs", "release": "trixie", "gpu": "none", "groups": ["slurm_controllers"]},
    {"name": "n1", "release": "trixie", "gpu": "a100-pcie-2", "groups": ["training_servers"]},
]
FILES = {
    "slurm.conf": """\
ClusterName=theirs
SlurmctldHost=theirs
SlurmctldParameters=enable_configless
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
GresTypes=gpu
include nodes.conf
PartitionName=gpu Nodes=theirs Default=YES MaxTime=INFINITE State=UP
""",
    # What it gives by DEFAULT would make each node of gpulab's one that is not there yet, with one processor.
    "nodes.conf": "NodeName=theirs CPUs=2\nNodeName=DEFAULT State=FUTURE CPUs=1\n",
    "cgroup.conf": "CgroupPlugin=disabled\n",
}
INSTALL = """
apt-get update -q && apt-get install -qy --no-install-recommends slurmctld slurmd slurm-client munge
systemctl restart slurmctld slurmd
"""
pytestmark = pytest.mark.story


@pytest.fixture(scope="module")
def theirs(lab, tmp_path_factory):
    """Set up their cluster, with a job that runs; return its controller."""
    boot_with_a_driver(lab, ["n1"], tmp_path_factory.mktemp("driver"))
    node = lab.node("theirs")
    lab.node("n1").run(f"echo '{node.run('hostname -i')} theirs' >> /etc/hosts")  # there is no DNS
    for name, text in FILES.items():
        node.run(f"mkdir -p /etc/slurm && cat > /etc/slurm/{name} <<'END'\n{text}END")
    node.run(INSTALL, timeout=300)
    until(lambda: node.holds("sinfo --noheader --states=idle | grep -q theirs"), "their node takes jobs")
    node.run("cd /root && sbatch --output=/root/theirs --wrap 'until test -e end; do sleep 0.5; done; echo well'")
    until(lambda: running(node), "their job runs")
    return node


def until(holds, what):
    """Wait until holds() is true."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(1)


def running(node):
    """Tell whether their job runs."""
    return node.run("squeue --noheader --format='%T %N'") == "RUNNING theirs"


def written(node):
    """Return their files by name, but for the package's."""
    names = set(node.run("cd /etc/slurm && ls *.conf").split()) - {"plugstack.conf"}
    return {name: node.run(f"cat /etc/slurm/{name}") + "\n" for name in names}


def set_up(lab, state="present", *, join=True):
    """Run the playbook with what the inventory says of the node and of the controller."""
    groups = {"training_servers": {"slurm_state": state}, "slurm_controllers": {"slurm_join": join}}
    (lab.inventory / "slurm.yml").write_text(json.dumps({name: {"vars": wishes} for name, wishes in groups.items()}))
    return lab.play("playbooks/slurm.yml")


def test_it_is_left_alone_without_leave(lab, theirs):
    run = set_up(lab, join=False)
    assert run.rc == 2
    assert "GPULAB-F030" in run.said_of("theirs")
    assert "GPULAB-F036" in run.said_of("n1")
    assert written(theirs) == FILES
    assert running(theirs)
    assert not lab.node("n1").holds("test -e /usr/sbin/slurmd")


def test_a_node_joins_and_nothing_of_theirs_changes(lab, theirs):
    run = set_up(lab)
    assert run.rc == 0, run.output[-3000:]
    found = written(theirs)
    assert found["slurm.conf"].startswith(FILES["slurm.conf"])
    assert found["slurm.conf"].count("\n") == FILES["slurm.conf"].count("\n") + 3
    assert {name: found[name] for name in FILES if name != "slurm.conf"} == {
        name: text for name, text in FILES.items() if name != "slurm.conf"
    }
    assert running(theirs)
    assert "Nodes=theirs " in theirs.run("scontrol --oneliner show partition gpu")
    assert "CPUTot=1 " not in theirs.run("scontrol --oneliner show node n1")
    job = "srun --immediate=30 --partition=gpulab --gres=gpu:a100-pcie-40gb:1 sh -c 'hostname; echo $SLURM_STEP_GPUS'"
    assert theirs.run(f"cd / && timeout 60 {job}").split() == ["n1", "0"]


def test_a_second_run_changes_nothing(lab, theirs):
    run = set_up(lab)
    assert run.rc == 0, run.output[-3000:]
    assert {host["changed"] for host in run.recap.values()} == {0}
    assert running(theirs)


def test_the_fence_drains_it_there_and_brings_it_back(lab, theirs):
    run = lab.play("playbooks/fence.yml", "-l", "n1", "-e", "fence_reason='new fan'")
    assert run.rc == 0, run.output[-3000:]
    assert "new fan" in theirs.run("sinfo --noheader --nodes=n1 --list-reasons --format=%E")
    run = lab.play("playbooks/fence.yml", "-l", "n1", "-e", "fence_state=absent")
    assert run.rc == 0, run.output[-3000:]
    assert theirs.run("sinfo --noheader --nodes=n1 --format=%t") == "idle"


def test_it_leaves_and_their_files_are_as_they_were(lab, theirs):
    run = set_up(lab, "absent")
    assert run.rc == 0, run.output[-3000:]
    assert written(theirs) == FILES
    assert theirs.run("sinfo --noheader --Node --format=%N") == "theirs"
    assert not lab.node("n1").holds("test -e /usr/sbin/slurmd")
    assert running(theirs)
    theirs.run("touch /root/end")
    until(lambda: theirs.holds("grep -q well /root/theirs"), "their job ends")
