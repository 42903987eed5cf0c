"""A driver goes over the nodes of a Slurm while jobs run and wait: no job is lost, whatever fails on the way.

Slurm, MUNGE, MariaDB, jobs and control groups are real. The GPUs are simulated. Their driver is a stand-in for NVIDIA's
packages, with a module that DKMS builds.
"""

import json
import subprocess
import time

import pytest
from rollouts import CHANGED, FENCED, UP, record, roll, start, states, wishes_of

NODES = [
    {"name": "head", "release": "trixie", "gpu": "none", "groups": ["slurm_controllers"]},
    *({"name": name, "release": "trixie", "gpu": "a100-pcie-2", "groups": ["training_servers"]} for name in "abc"),
]
WISHES = {"rollout_batch": "2", "rollout_out_at_once": "3", "rollout_wait_minutes": 5}
FIRST, UNSOUND, BETTER, NEXT = "595.91.07", "595.95.01", "595.96.01", "595.97.01"
REBOOTS = {"gpu_settings_values": {"ecc": False}}  # a change that holds from the next boot on
# A job that runs until the test lets it end, and one that ends by itself
HOLDS = "until test -e end; do sleep 0.5; done"
SHORT = "sleep 1"
LOSE = """
systemctl stop slurmctld slurmdbd
rm -r /var/lib/slurm/slurmctld && mariadb -e 'DROP DATABASE gpulab_slurm'
"""
# As docs/fleet.md has it
RESTORE = """
cd /var/backups/gpulab-slurm
systemctl stop slurmctld slurmdbd
tar -C /var/lib/slurm -xzf $(ls state-* | tail -n 1)
mariadb -e 'CREATE OR REPLACE DATABASE gpulab_slurm'
zcat $(ls database-* | tail -n 1) | mariadb gpulab_slurm
systemctl start slurmdbd slurmctld
"""
pytestmark = [pytest.mark.story, pytest.mark.usefixtures("cluster")]


class Cluster:
    """The cluster, as people and its administrator see it from the controller."""

    def __init__(self, lab):
        """Take the lab whose nodes it has."""
        self._lab = lab
        self.head = lab.node("head")
        self.submitted = []

    def submit(self, script, *options):
        """Submit a job of the user wei's for both GPUs of a node; return its number."""
        words = " ".join(("--parsable", "--gres=gpu:2", "--chdir=/home/wei", "--output=/home/wei/%j", *options))
        self.submitted.append(self.head.run(f"runuser -u wei -- sbatch {words} --wrap '{script}'"))
        return self.submitted[-1]

    def jobs(self):
        """Return {number: (state, node)} of those that wait or run."""
        lines = self.head.run("squeue --noheader --format='%A %T %N'").splitlines()
        return {line.split()[0]: (line.split()[1], *line.split()[2:]) for line in lines}

    def running(self):
        """Return {node: number} of the jobs that run."""
        return {found[1]: number for number, found in self.jobs().items() if found[0] == "RUNNING"}

    def let_end(self, *names):
        """Let the jobs on these nodes end that hold them."""
        for name in names:
            self._lab.node(name).run("touch /home/wei/end")

    def wait(self, holds, what, seconds=120):
        """Wait until holds() is true; fail after some seconds."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"{what}\n{self.head.run('squeue; sinfo --Node --long; sinfo -R')}"
            time.sleep(1)

    def wait_until_all_have_ended(self):
        """Wait until no job runs or waits."""
        self.wait(lambda: not self.jobs(), "jobs are left")
        for name in "abc":
            self._lab.node(name).run("rm -f /home/wei/end")

    def history(self):
        """Return {number: [state, ...]}; a job that was requeued has more than one."""
        lines = self.head.run("sacct --allusers --allocations --duplicates --noheader --parsable2 --format=JobID,State")
        found = {}
        for number, state in (line.split("|") for line in lines.splitlines()):
            found.setdefault(number, []).append(state)
        return found

    def node(self, name):
        """Return (states, reason) of a node."""
        told = self.head.run(f"sinfo --noheader --nodes={name} --Format='StateComplete:50,Reason:300'")
        return set(told[:50].strip().split("+")), told[50:].strip()

    def drained(self):
        """Return the names of the drained nodes."""
        return {name for name in "abc" if "drain" in self.node(name)[0]}


@pytest.fixture(scope="module")
def wishes(lab):
    """Give the nodes a driver, and make them a cluster; return what all runs wish: a better one."""
    groups = {
        "training_servers": {"vars": {"slurm_state": "present"}},
        "slurm_controllers": {"vars": {"slurm_accounting": True}},
    }
    (lab.inventory / "slurm.yml").write_text(json.dumps(groups))
    served = lab.serve_drivers("debian13", FIRST, f"{UNSOUND}:unsound", BETTER, NEXT)
    wished = {**wishes_of(lab, WISHES), **served, "nvidia_driver_state": "present", "nvidia_driver_version": BETTER}
    first = json.dumps({**wished, "nvidia_driver_version": FIRST})
    run = lab.play("site.yml", "--tags", "nouveau,nvidia_driver,reboot", "-e", first, timeout=900)
    assert run.rc == 0, run.output[-3000:]
    run = lab.play("playbooks/slurm.yml")
    assert run.rc == 0, run.output[-3000:]
    for node in NODES:
        lab.node(node["name"]).run("id wei || useradd --create-home --uid 2000 wei")
    return wished


@pytest.fixture(scope="module")
def cluster(lab, wishes):
    """Return the cluster of the wishes."""
    del wishes
    return Cluster(lab)


def driver(lab, name):
    """Return (installed, loaded) versions of a node's driver."""
    installed = lab.node(name).run("dpkg-query -W -f '${Version}' nvidia-kernel-open-dkms")
    loaded = lab.node(name).run("grep -oE '[0-9]+[.][0-9.]+' /proc/driver/nvidia/version | head -n 1")
    return installed.removesuffix("-1"), loaded


def as_before(lab, *names):
    """Tell whether nodes are neither fenced nor changed."""
    kept = all(lab.node(name).holds(f"! {{ {FENCED}; }} && ! {CHANGED}") for name in names)
    return kept and {driver(lab, name) for name in names} == {(FIRST, FIRST)}


def refused(lab, wishes):
    """Run the rollout, which Slurm does not allow; return what it says of the canary."""
    run = roll(lab, wishes)
    assert run.rc == 2, run.output[-3000:]
    assert states(lab) == {"a": "refused", "b": "waiting", "c": "waiting"}
    assert as_before(lab, "a", "b", "c")
    said = run.said_of("a")
    assert "GPULAB-F008" in said
    return said


def test_nothing_begins_while_the_controller_is_down(lab, wishes, cluster):
    cluster.head.run("systemctl stop slurmctld")
    try:
        said = refused(lab, wishes)
    finally:
        cluster.head.run("systemctl start slurmctld")
    assert "Unable to contact slurm controller" in said


def test_nothing_begins_where_the_key_is_another(lab, wishes):
    key = "/etc/munge/munge.key"
    lab.node("a").run(f"cp -a {key} /root/key && head -c 128 /dev/urandom > {key} && systemctl restart munge")
    try:
        said = refused(lab, wishes)
    finally:
        lab.node("a").run(f"cp -a /root/key {key} && systemctl restart munge")
    assert "the MUNGE keys or the clocks of the two differ" in said


def test_nothing_begins_where_the_clock_is_wrong(lab, wishes):
    unit = "/run/systemd/system/munge.service.d/clock.conf"
    library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
    ahead = f"printf '[Service]\nEnvironment=LD_PRELOAD={library} FAKETIME=+20m\n' > {unit}"
    node = lab.node("a")
    node.run("apt-get update -q && apt-get install -qy libfaketime")
    node.run(f"mkdir -p $(dirname {unit}) && {ahead} && systemctl daemon-reload && systemctl restart munge")
    try:
        said = refused(lab, wishes)
    finally:
        node.run(f"rm {unit} && systemctl daemon-reload && systemctl restart munge")
    assert "the MUNGE keys or the clocks of the two differ" in said


def test_a_bad_driver_stops_at_the_canary_and_stops_no_job(lab, wishes, cluster):
    cluster.wait(lambda: not cluster.drained(), "the nodes take jobs")
    held = [cluster.submit(HOLDS) for _node in "abc"]
    cluster.wait(lambda: set(cluster.running()) == set("abc"), "each node has a job")
    queued = [cluster.submit(SHORT) for _node in "abc"]
    begun = start(lab, wishes, nvidia_driver_version=UNSOUND)
    begun.wait_until(lambda: cluster.drained() == {"a"}, 300, "the canary is drained")
    assert set(cluster.running().values()) == set(held)
    time.sleep(15)  # it waits
    assert lab.node("a").holds(f"! {CHANGED} && ! test -e /etc/gpulab-fence")  # people of the job can log in
    cluster.let_end("a")
    run = begun.wait(900)
    assert run.rc == 2
    assert "GPULAB-F005" in run.output
    assert states(lab) == {"a": "failed", "b": "waiting", "c": "waiting"}
    found, reason = cluster.node("a")
    assert "drain" in found
    assert reason.startswith(f"gpulab {record(lab)['run']}: the proof failed: ")
    assert "3 uncorrected" in reason
    assert lab.node("a").holds(f"{FENCED} && {CHANGED}")
    assert driver(lab, "a") == (UNSOUND, UNSOUND)
    assert cluster.drained() == {"a"}
    assert as_before(lab, "b", "c")
    assert set(cluster.running()) == {"b", "c"}
    assert {number for number, found in cluster.jobs().items() if found[0] == "PENDING"} == set(queued)


def test_a_better_driver_begins_with_that_node_and_all_jobs_come_to_their_end(lab, wishes, cluster):
    boots = {name: lab.node(name).boot() for name in "abc"}
    begun = start(lab, wishes)
    begun.wait_until(lambda: cluster.drained() == {"b"}, 600, "the canary is done, and the next one begins")
    assert set(cluster.running()) >= {"b", "c"}
    cluster.wait(lambda: set(cluster.jobs()) == set(cluster.running().values()), "the canary takes those that waited")
    cluster.let_end("b", "c")
    run = begun.wait(600)
    assert run.rc == 0, run.output[-3000:]
    assert set(states(lab).values()) == {"done"}
    assert all(lab.node(name).holds(f"! {{ {FENCED}; }} && {CHANGED}") for name in "abc")
    assert {driver(lab, name) for name in "abc"} == {(BETTER, BETTER)}
    assert all(lab.node(name).boot() != boots[name] for name in "abc")
    assert not cluster.drained()
    for name in "abc":
        cluster.submit(SHORT, f"--nodelist={name}")
    cluster.wait_until_all_have_ended()
    history = cluster.history()
    assert {number: history[number] for number in cluster.submitted} == {
        number: ["COMPLETED"] for number in cluster.submitted
    }


def test_a_job_that_never_ends_keeps_its_node_as_it_was(lab, wishes, cluster):
    endless = cluster.submit(HOLDS, "--nodelist=a")
    change = {"rollout_canary": ["b"], "rollout_wait_minutes": 1, "tuning_overrides": {"vm.swappiness": 9}, **REBOOTS}
    begun = start(lab, wishes, **change)
    begun.wait_until(lambda: cluster.drained() == {"a", "c"}, 600, "it waits for the job")
    cluster.head.run("systemctl stop slurmctld && sleep 15 && systemctl start slurmctld")  # which is no end of the wait
    run = begun.wait(600)
    assert run.rc == 2
    said = run.said_of("a")
    assert "GPULAB-F006" in said
    assert f"job {endless} of wei (running, until " in said
    assert states(lab) == {"a": "busy", "b": "done", "c": "done"}
    assert not cluster.drained()
    assert cluster.running() == {"a": endless}
    assert lab.node("a").holds(f"! {{ {FENCED}; }} && {CHANGED}")
    cluster.let_end("a")
    cluster.wait_until_all_have_ended()
    assert cluster.history()[endless] == ["COMPLETED"]


def test_a_node_with_a_job_cannot_leave(lab, cluster):
    held = cluster.submit(HOLDS, "--nodelist=c")
    cluster.wait(lambda: cluster.running() == {"c": held}, "the job runs")
    run = lab.play("playbooks/slurm.yml", "-l", "c,head", "-e", "slurm_state=absent")
    assert run.rc == 2
    assert "GPULAB-F040" in run.said_of("c")
    assert run.recap["head"]["changed"] == 0
    assert cluster.running() == {"c": held}
    cluster.let_end("c")
    cluster.wait_until_all_have_ended()
    assert cluster.history()[held] == ["COMPLETED"]


def test_a_node_that_dies_while_drained_is_the_first_of_the_next_run(lab, wishes, cluster):
    change = {"tuning_overrides": {"vm.swappiness": 9}, **REBOOTS}
    begun = start(lab, wishes, **change)
    begun.wait_until(lambda: states(lab)["a"] == "changing", 300, "the change begins")
    subprocess.run(["docker", "stop", f"{lab.name}-a"], check=True, stdout=subprocess.PIPE)
    run = begun.wait(600)
    assert run.rc != 0
    subprocess.run(["docker", "start", f"{lab.name}-a"], check=True, stdout=subprocess.PIPE)
    lab.node("a").run(UP)
    number = cluster.submit(SHORT)
    cluster.wait_until_all_have_ended()
    assert cluster.drained() == {"a"}
    assert cluster.history()[number] == ["COMPLETED"]
    run = roll(lab, wishes, **change)
    assert run.rc == 0, run.output[-3000:]
    assert set(states(lab).values()) <= {"done", "current"}
    assert not cluster.drained()


def test_jobs_go_on_without_the_database_and_the_proof_says_so(lab, wishes, cluster):
    cluster.head.run("systemctl stop mariadb")
    report = lab.directory / "report"
    try:
        number = cluster.submit(SHORT)
        lab.play(
            "playbooks/verify.yml", "-l", "b", "-e", json.dumps({**wishes, "verify_report_directory": str(report)})
        )
        cluster.wait(lambda: not cluster.jobs(), "the job ends")
    finally:
        cluster.head.run("systemctl start mariadb")
    host = json.loads((report / "report.json").read_text())["hosts"][0]
    assert {one["id"]: one["severity"] for one in host["results"] if "slurm" in one["id"]} == {
        "slurm-munge": "ok",
        "slurm-node": "ok",
        "slurm-gpus": "ok",
        "slurm-accounting": "warn",
        "slurm-door": "ok",
    }
    cluster.wait(lambda: cluster.history().get(number) == ["COMPLETED"], "the accounting knows the job")


def test_a_dump_brings_the_accounting_and_the_waiting_jobs_back(cluster):
    waits = cluster.submit(SHORT, "--hold")
    before = cluster.history()
    time.sleep(10)  # the controller writes its state every few seconds
    cluster.head.run("systemctl start gpulab-slurm-dump")
    cluster.head.run(LOSE)
    cluster.head.run(RESTORE)
    cluster.wait(lambda: cluster.head.holds("scontrol ping && sacct"), "the daemons answer")
    assert cluster.history() == before
    cluster.head.run(f"scontrol release {waits}")
    cluster.wait(lambda: cluster.history().get(waits) == ["COMPLETED"], "the job runs")


def test_a_freeze_and_another_controller_in_the_middle_leave_the_node_in_hand_alone(lab, wishes, cluster):
    begun = start(lab, wishes, nvidia_driver_version=NEXT)
    begun.wait_until(lambda: states(lab)["a"] == "changing", 300, "the change begins")
    freeze, elsewhere = lab.directory / "freeze", lab.directory / "elsewhere"
    freeze.write_text("paper deadline\n")
    places = {"rollout_directory": str(elsewhere), "rollout_freeze_file": str(elsewhere / "freeze")}
    other = roll(lab, {**wishes, **places}, "-l", "a", nvidia_driver_version=FIRST)
    run = begun.wait(900)
    freeze.unlink()
    assert other.rc == 2
    assert "GPULAB-F007" in other.said_of("a")
    assert run.rc == 2
    assert "GPULAB-F001" in run.said_of("b")
    assert states(lab) == {"a": "done", "b": "waiting", "c": "waiting"}
    assert not cluster.drained()
    found = {name: driver(lab, name) for name in "abc"}
    assert found == {"a": (NEXT, NEXT), "b": (BETTER, BETTER), "c": (BETTER, BETTER)}


def test_without_slurm_people_at_work_keep_their_driver(lab, wishes):
    lab.node("b").run("cp -r /home/admin/.ssh /home/wei && chown -R wei: /home/wei")
    change = {"fence_engine": "none", "rollout_wait_minutes": 0.5, "nvidia_driver_version": NEXT}
    working = lab.log_in("b", "exec sleep 3000", user="wei")
    try:
        run = roll(lab, wishes, **change)
        assert working.poll() is None
    finally:
        lab.node("b").run("pkill -u wei sleep")
        working.wait(60)
    assert run.rc == 2
    assert "GPULAB-F006" in run.said_of("b")
    assert (driver(lab, "b"), driver(lab, "c")) == ((BETTER, BETTER), (NEXT, NEXT))
    run = roll(lab, wishes, **change)
    assert run.rc == 0, run.output[-3000:]
    assert driver(lab, "b") == (NEXT, NEXT)
