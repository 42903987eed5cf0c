"""Jobs that fail are told of: Slurm, MUNGE, the sockets and the signals are real; who mails is a stand-in."""

import json
import time

import pytest
import testinfra
from scenario import LAB, nodes

MAILS = "/var/tmp/mails"
SENDMAIL = f"""#!/bin/sh
cat >> {MAILS}
"""
XID = "kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
LOG = "/run/gpulab-simulation/kernel.log"


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

    def look(self, *silent):
        """Let the nodes report, and the controller look, as their timers do every minute."""
        time.sleep(2.5)  # Slurm gives whole seconds, and what a node said in that of the end may be from before
        for name, node in self.nodes.items():
            if name not in silent:
                node.check_output("systemctl start gpulab-watch.service")
        self.wait(
            lambda: not self.head.check_output("systemctl list-units --plain --no-legend 'gpulab-watch-reports@*'")
        )
        self.head.check_output("systemctl start gpulab-watch-judge.service")

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
        host.check_output("id wei || useradd --create-home --uid 2000 --comment Wei,wei@lab.example wei")
    made.head.check_output("usermod --comment Wei,wei@lab.example wei")
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
    job = cluster.submit("exit 3", "-N2")
    ended(cluster, job)
    cluster.look()
    (mail,) = cluster.mails()
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
