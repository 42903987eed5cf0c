"""Jobs that fail are told of: Slurm, MUNGE, the sockets and the signals are real; who mails is a stand-in."""

import json
import time

import pytest
import testinfra
from scenario import LAB, nodes, playbook

MAILS = "/var/tmp/mails"
SENDMAIL = f"""#!/bin/sh
cat >> {MAILS}
"""
XID = "kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
LOG = "/run/gpulab-simulation/kernel.log"
RETRY = "--comment=gpulab:retry=2"
# Kills the watch, which started it, instead of asking Slurm or after that
KILLS = """#!/bin/sh
test "$1" = requeue || exec /usr/bin/scontrol "$@"
rm /usr/local/bin/scontrol
{first}
kill -KILL $PPID
"""

# Two ranks that meet ten times a second, as in a collective operation, until the second one is told otherwise.
RANKS = """
import os, pathlib, socket, time
rank = int(os.environ["SLURM_PROCID"])
told = pathlib.Path("/tmp/told")
if rank:
    for _try in range(100):
        try:
            peer = socket.create_connection((os.environ["MEETS"], 29500))
            break
        except OSError:
            time.sleep(0.1)
else:
    peer = socket.create_server(("", 29500)).accept()[0]
while True:
    peer.sendall(bytes(1 << 16))
    got = 0
    while got < 1 << 16:
        more = len(peer.recv(1 << 16))
        assert more
        got += more
    time.sleep(0.1)
    what = told.read_text() if rank and told.exists() else ""
    while what == "loop":
        pass
    end = time.monotonic() + 100
    while what == "write" and time.monotonic() < end:
        with open("/tmp/checkpoint", "wb") as stream:
            stream.write(bytes(1 << 20))
        time.sleep(1)
        told.unlink(missing_ok=True)
"""


class Cluster:
    """The cluster, as Wei sees it, who submits jobs, and whoever runs it."""

    def __init__(self):
        """Find its hosts."""
        (self.head,) = testinfra.get_hosts(["ansible://head"], ansible_inventory=str(LAB / "inventory"), sudo=True)
        self.nodes = nodes()

    def submit(self, script, *options):
        """Submit a job of Wei's; return its number."""
        words = " ".join(("--parsable", "--chdir=/tmp", "--output=/tmp/%j.out", *options))
        return self.head.check_output(f"runuser -u wei -- sbatch {words} --wrap '{script}'")

    def state(self, job):
        """Return the state of a job."""
        return self.head.check_output(f"squeue --noheader --states=all --job={job} --format=%T")

    def wait(self, holds, seconds=60):
        """Wait until holds() is true."""
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, self.head.run("squeue --states=all; sinfo; sinfo -R").stdout
            time.sleep(0.5)

    def shown(self, job):
        """Return what Slurm says of a job, by name."""
        words = self.head.check_output(f"scontrol --oneliner show job {job}").split()
        return dict(word.partition("=")[::2] for word in words)

    def look(self, *silent):
        """Let the nodes report, and the controller look, as their timers do every minute."""
        self.report(*silent)
        self.head.check_output("systemctl start gpulab-watch-judge.service")

    def report(self, *silent):
        """Let the nodes report."""
        time.sleep(2.5)  # Slurm gives whole seconds, and what a node said in that of the end may be from before
        for name, node in self.nodes.items():
            if name not in silent:
                node.check_output("systemctl start gpulab-watch.service")
        self.wait(
            lambda: not self.head.check_output("systemctl list-units --plain --no-legend 'gpulab-watch-reports@*'")
        )

    def watch(self, job, seconds):
        """Look for some time, as the timers do, but faster, until something is found on a job."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.found(job):
            self.look()
            time.sleep(10)

    def mails(self):
        """Return what was mailed since the last call."""
        text = self.head.check_output(f"cat {MAILS} 2>/dev/null; rm -f {MAILS}")
        return [mail for mail in text.split("To: ") if mail]

    def found(self, job):
        """Return what the watch has found on a job."""
        state = json.loads(self.head.file("/var/lib/gpulab-watch/state.json").content_string)
        return [one for one in state["found"] if one["job"] == int(job)]


@pytest.fixture(scope="module")
def cluster():
    made = Cluster()
    for host in (made.head, *made.nodes.values()):
        host.check_output("id wei || useradd --create-home --uid 2000 --comment wei@lab.example wei")
    made.head.check_output("usermod --comment wei@lab.example wei")
    made.head.check_output(
        f"cat > /usr/sbin/sendmail <<'END'\n{SENDMAIL}END\nchmod 755 /usr/sbin/sendmail; rm -f {MAILS}"
    )
    made.head.check_output("scancel --user=wei")
    made.wait(lambda: not made.head.check_output("squeue --noheader"))
    made.look()
    made.mails()
    yield made
    made.head.check_output("rm /usr/sbin/sendmail")


def ended(cluster, job, state="FAILED"):
    cluster.wait(lambda: cluster.state(job) == state)


def test_jobs_that_end_well_or_are_cancelled_are_no_news(cluster):
    well, cancelled = cluster.submit("true", "-N2"), cluster.submit("sleep 600")
    cluster.wait(lambda: cluster.state(cancelled) == "RUNNING")
    cluster.head.check_output(f"scancel {cancelled}")
    ended(cluster, cancelled, "CANCELLED")
    ended(cluster, well, "COMPLETED")
    cluster.look()
    assert cluster.mails() == []


def test_a_program_that_fails_on_two_nodes_is_told_once_with_its_class(cluster):
    job = cluster.submit("exit 3", "-N2", RETRY)
    ended(cluster, job)
    cluster.look()
    (mail,) = cluster.mails()
    assert cluster.state(job) == "FAILED"  # it does not start again
    assert mail.startswith("wei@lab.example\nSubject: a job that failed\n")
    assert f"job {job} on one, two: it ended with exit status 3\n" in mail
    (log,) = cluster.head.check_output(f"journalctl -t gpulab-watch --output=cat --grep='job {job} '").splitlines()
    assert log == f"crash, program, wei: job {job} on one, two: it ended with exit status 3"
    cluster.look()
    assert cluster.mails() == []


def test_a_rank_that_somebody_killed_is_of_no_known_cause(cluster):
    job = cluster.submit("srun --kill-on-bad-exit=1 sleep 601", "-N2")
    sleeps = "pgrep --full --oldest '^[^ ]*sleep 601$'"
    cluster.wait(lambda: cluster.nodes["two"].run(sleeps).rc == 0)
    cluster.nodes["two"].check_output(f"kill -9 $({sleeps})")
    ended(cluster, job)
    cluster.look()
    (found,) = cluster.found(job)
    assert (found["kind"], found["evidence"]) == ("unknown", [])
    assert "SIGTERM" in found["cause"]  # which srun sent to the other rank
    assert len(cluster.mails()) == 1


def test_memory_that_was_not_asked_for_is_the_programs_affair(cluster):
    job = cluster.submit('python3 -c "bytearray(300 << 20)"', "--mem=20M")
    ended(cluster, job, "OUT_OF_MEMORY")
    cluster.look()
    assert [(one["kind"], one["cause"]) for one in cluster.found(job)] == [
        ("program", "it needed more memory than it had asked for")
    ]
    assert len(cluster.mails()) == 1


def test_a_gpu_that_is_lost_while_a_job_ends_makes_it_the_affair_of_that_node(cluster):
    two = cluster.nodes["two"]
    job = cluster.submit("sleep 1; exit 1", "-N2")
    two.check_output(f'echo "$(date +%Y-%m-%dT%H:%M:%S%z) two {XID}" >> {LOG}')
    ended(cluster, job)
    cluster.look()
    two.check_output(f"sed -i '$d' {LOG}")
    (found,) = cluster.found(job)
    assert (found["kind"], found["nodes"]) == ("node", ["two"])
    assert found["cause"].startswith("XID 79")
    (mail,) = cluster.mails()
    assert "not your program" in mail
    assert cluster.state(job) == "FAILED"  # nobody asked for more


@pytest.fixture
def fails_by_its_node(cluster):
    """Return a function that lets a job end while the GPUs of nodes are lost; it returns the job and its nodes."""

    def fails(*options, script="sleep 2; exit 1", job=None, nodes=None):
        job = job or cluster.submit(script, RETRY, *options)
        cluster.wait(lambda: cluster.state(job) == "RUNNING")
        names = nodes or cluster.shown(job)["NodeList"].split(",")
        for name in names:
            cluster.nodes[name].check_output(f'echo "$(date +%Y-%m-%dT%H:%M:%S%z) {name} {XID}" >> {LOG}')
        ended(cluster, job)
        return job, names

    yield fails
    for node in cluster.nodes.values():
        node.check_output(f"sed -i '/Xid/d' {LOG}")
    cluster.head.check_output("rm -f /usr/local/bin/scontrol; scancel --user=wei")
    cluster.wait(lambda: not cluster.head.check_output("squeue --noheader"))
    cluster.look()
    cluster.mails()


def test_a_job_whose_node_failed_starts_again_on_another_one_as_its_owner_asked(cluster, fails_by_its_node):
    job, (bad,) = fails_by_its_node(script="test $SLURM_RESTART_COUNT && exit 0; sleep 3; exit 1")
    cluster.look()
    said = f"it was put back into the queue (1 of 2) and keeps away from {bad}"
    shown = cluster.shown(job)
    assert (shown["JobState"], shown["Restarts"], shown["ExcNodeList"]) == ("PENDING", "1", bad)
    (mail,) = cluster.mails()
    assert mail.endswith(f"a node is the cause; {said}.\ngpulab has ended nothing.")
    assert f"retry, node, wei: job {job}: {said}" in cluster.head.check_output(
        "journalctl -t gpulab-watch --output=cat"
    )
    cluster.look()
    assert (cluster.shown(job)["Restarts"], cluster.mails()) == ("1", [])
    cluster.head.check_output(f"scontrol update jobid={job} StartTime=now")  # in place of two minutes
    ended(cluster, job, "COMPLETED")
    assert cluster.shown(job)["NodeList"] != bad


def test_a_job_that_needs_both_nodes_starts_again_and_may_get_them(cluster, fails_by_its_node):
    job, _both = fails_by_its_node("-N2")
    cluster.look()
    shown = cluster.shown(job)
    assert (shown["JobState"], shown["Restarts"], shown["ExcNodeList"]) == ("PENDING", "1", "(null)")
    (mail,) = cluster.mails()
    assert "may get the same nodes: too few other nodes are left to keep it away from one, two." in mail


def test_of_an_array_the_one_task_starts_again_and_the_others_go_on(cluster, fails_by_its_node):
    script = "test $SLURM_ARRAY_TASK_ID = 1 && exec sleep 603; sleep 4; exit 1"
    array = cluster.submit(script, RETRY, "--array=0-1", "--mem=100M")
    job, _nodes = fails_by_its_node(job=f"{array}_0")
    cluster.look()
    assert (cluster.shown(job)["JobState"], cluster.shown(job)["Restarts"]) == ("PENDING", "1")
    other = cluster.shown(f"{array}_1")
    assert (other["JobState"], other["Restarts"]) == ("RUNNING", "0")


@pytest.mark.parametrize("first", ["", '/usr/bin/scontrol "$@"'])
def test_a_watch_that_is_killed_around_its_command_puts_a_job_back_once(cluster, fails_by_its_node, first):
    program, text = "/usr/local/bin/scontrol", KILLS.format(first=first)
    cluster.head.check_output(f"cat > {program} <<'END'\n{text}END\nchmod 755 {program}")
    job, (bad,) = fails_by_its_node()
    cluster.report()
    cluster.head.run("systemctl start gpulab-watch-judge.service")
    cluster.wait(lambda: not cluster.head.file(program).exists)
    cluster.head.run("systemctl reset-failed gpulab-watch-judge.service")
    cluster.look()
    shown = cluster.shown(job)
    assert (shown["JobState"], shown["Restarts"], shown["ExcNodeList"]) == ("PENDING", "1", bad)
    (mail,) = cluster.mails()
    assert "put back into the queue (1 of 2)" in mail


def test_the_diagnosis_of_a_node_tells_what_the_watch_noted(cluster):
    job = cluster.submit("exit 4", "--nodelist=one")
    ended(cluster, job)
    cluster.look()
    cluster.mails()
    told = playbook("playbooks/diagnose.yml", "--limit=one,two", diagnose_seconds=0.5)
    assert told.status == 0, told.output
    assert told.output.count(f"job {job} on this node: it ended with exit status 4 (class program)") == 1


def test_a_node_that_has_not_reported_leaves_the_cause_open(cluster):
    job = cluster.submit("exit 5", "-N2")
    ended(cluster, job)
    cluster.look("one")
    assert cluster.found(job) == []  # it waits for the other node
    cluster.look()
    (found,) = cluster.found(job)
    assert found["kind"] == "program"
    cluster.mails()


def test_nobody_but_root_of_a_node_reports(cluster):
    """One of people is refused, and so is one that is no credential, and one that comes twice."""
    one = cluster.nodes["one"]
    forged = '{"node": "three", "sent": 0, "readable": true, "troubles": [], "killed": [], "unfit": [], "received": 0}'
    send = (
        "python3 -c 'import socket, sys; socket.create_connection((\"head\", 6821)).sendall(sys.stdin.buffer.read())'"
    )
    one.check_output(f"echo '{forged}' > /tmp/forged; chmod 644 /tmp/forged")
    one.check_output(f"runuser -u wei -- munge --restrict-uid=0 --input=/tmp/forged | {send}")
    one.check_output(f"{send} < /tmp/forged")
    time.sleep(4)
    assert not cluster.head.file("/run/gpulab-watch/three.json").exists
    one.check_output(f"munge --restrict-uid=0 --input=/tmp/forged > /tmp/sealed; {send} < /tmp/sealed")
    cluster.wait(lambda: cluster.head.file("/run/gpulab-watch/three.json").exists)
    cluster.head.check_output("rm /run/gpulab-watch/three.json")
    one.check_output(f"{send} < /tmp/sealed")
    time.sleep(4)
    assert not cluster.head.file("/run/gpulab-watch/three.json").exists
    assert one.run("runuser -u wei -- unmunge --input=/tmp/sealed").rc != 0


def test_a_node_that_slurm_loses_is_told_and_its_job_waits_again(cluster):
    two = cluster.nodes["two"]
    job = cluster.submit("sleep 602", "-N2")
    cluster.wait(lambda: cluster.state(job) == "RUNNING")
    cluster.look()
    two.check_output("systemctl kill --signal=KILL slurmd.service; systemctl stop slurmd.service")
    try:
        cluster.wait(lambda: cluster.state(job) == "PENDING", 180)
        cluster.look()
        (found,) = cluster.found(job)
        assert (found["kind"], found["nodes"], found["cause"]) == ("node", ["two"], "Slurm lost the node")
        cluster.look()
        assert len(cluster.mails()) == 1
        assert cluster.state(job) == "PENDING"  # nothing has ended it
    finally:
        two.check_output("systemctl start slurmd.service")
        cluster.head.check_output(f"scancel {job}")


@pytest.fixture
def ranks(cluster):
    """Return the number of a job with a rank on each node, which runs, and the PID of the second one."""
    for node in cluster.nodes.values():
        node.check_output(f"cat > /tmp/ranks.py <<'END'\n{RANKS}END\nrm -f /tmp/told")
    job = cluster.submit("MEETS=$(hostname) srun python3 /tmp/ranks.py", "-N2")
    second = "pgrep --full --oldest '^[^ ]*python3 /tmp/ranks.py$'"
    cluster.wait(lambda: all(node.run(second).rc == 0 for node in cluster.nodes.values()))
    yield job, cluster.nodes["two"].check_output(second)
    cluster.nodes["two"].run("pkill --signal CONT --full /tmp/ranks.py")
    cluster.head.check_output(f"scancel {job}")
    cluster.wait(lambda: not cluster.head.check_output("squeue --noheader"))
    cluster.look()  # it may have failed
    cluster.mails()


def test_a_job_that_goes_on_and_one_that_writes_for_long_are_no_hang(cluster, ranks):
    job, _second = ranks
    cluster.watch(job, 40)
    cluster.nodes["two"].check_output("echo -n write > /tmp/told; chown wei /tmp/told")
    cluster.watch(job, 110)
    assert cluster.found(job) == []
    assert cluster.mails() == []


def test_a_stopped_rank_is_found_while_the_other_waits(cluster, ranks):
    job, second = ranks
    cluster.watch(job, 20)
    cluster.nodes["two"].check_output(f"kill -STOP {second}")
    cluster.watch(job, 200)
    (found,) = cluster.found(job)
    assert (found["seen"], found["cause"]) == ("hang", "rank 1 on two is stopped, and the others wait")
    assert cluster.nodes["two"].check_output(f"ps -o state= -p {second}") == "T"  # nobody has let it go on
    (mail,) = cluster.mails()
    assert "Subject: a job that hangs\n" in mail
    assert f"scancel {job}" in mail
    assert cluster.state(job) == "RUNNING"


def test_a_rank_that_died_is_found_while_the_other_waits(cluster, ranks):
    """The others of a task that was killed go on, if srun is not asked otherwise."""
    job, second = ranks
    cluster.nodes["one"].check_output("kill -STOP $(pgrep --full --oldest '^[^ ]*python3 /tmp/ranks.py$')")
    cluster.nodes["two"].check_output(f"kill -9 {second}")
    cluster.watch(job, 200)
    (found,) = cluster.found(job)
    assert (found["seen"], found["cause"]) == ("hang", "rank 1 of 2 is gone, and the others wait")
    cluster.nodes["one"].check_output("pkill --signal CONT --full /tmp/ranks.py")


def test_a_rank_that_only_computes_is_suspected(cluster, ranks):
    job, _second = ranks
    cluster.nodes["two"].check_output("echo -n loop > /tmp/told")
    cluster.watch(job, 200)
    (found,) = cluster.found(job)
    assert (found["seen"], found["cause"]) == (
        "suspicion",
        "rank 1 on two computes and sends nothing, and the others wait",
    )
    assert len(cluster.mails()) == 1
