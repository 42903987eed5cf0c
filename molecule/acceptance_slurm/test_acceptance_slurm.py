"""Nodes of a live Slurm are accepted: no job is hurt, and nothing stays behind.

Slurm, its jobs, PyTorch (its build without CUDA) and Gloo are real. The GPUs are simulated.
"""

import json
import time
from pathlib import Path

import pytest
import testinfra
from scenario import LAB, cut_off, each, nodes, playbook, start

FLOOR = {"board": "NVIDIA GeForce RTX 4090", "transport": "gloo", "value_gbs": 0.001, "source": "this test"}
SHOW = "scontrol --oneliner show reservation"
FENCED = "test -e /var/lib/gpulab/fence.json -o -e /etc/gpulab-fence"


class Cluster:
    """The cluster, as Wei sees it, who submits jobs, and whoever runs it."""

    def __init__(self):
        """Find its controller."""
        (self.head,) = testinfra.get_hosts(["ansible://head"], ansible_inventory=str(LAB / "inventory"), sudo=True)

    def submit(self, script, *options):
        """Submit a job of Wei's; return its number."""
        words = " ".join(("--parsable", "--chdir=/tmp", "--output=/tmp/%j.out", *options))
        return self.head.check_output(f"runuser -u wei -- sbatch {words} --wrap '{script}'")

    def state(self, job):
        """Return the state of a job, and how often it was started again."""
        return self.head.check_output(
            f"squeue --noheader --states=all --job={job} --Format=State:20,RestartCnt:5"
        ).split()

    def wait(self, holds, seconds=120):
        """Wait until holds() is true."""
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, self.head.run(f"squeue --states=all; sinfo -N; {SHOW}").stdout
            time.sleep(0.5)

    def runs(self, script, *options):
        """Submit a job of Wei's, and wait until it runs; return its number."""
        job = self.submit(script, *options)
        self.wait(lambda: self.state(job)[0] == "RUNNING")
        return job

    def reserved(self):
        """Return {reservation: nodes}."""
        lines = [line.split() for line in self.head.check_output(SHOW).splitlines() if line.startswith("Reservation")]
        told = [dict(word.partition("=")[::2] for word in words) for words in lines]
        return {one["ReservationName"]: one["Nodes"] for one in told}

    def in_service(self):
        """Tell whether no node is reserved, drained or fenced."""
        drained = self.head.check_output("sinfo --noheader --states=drain --format=%n")
        return not self.reserved() and not drained and not any(each(lambda host: not host.run(FENCED).rc).values())


@pytest.fixture(scope="module")
def people():
    made = Cluster()
    for host in (made.head, *nodes().values()):
        host.check_output("id wei || useradd --create-home --uid 2000 wei")
    return made


@pytest.fixture
def cluster(people):
    people.wait(lambda: not people.head.check_output("squeue --noheader"))
    yield people
    people.head.check_output("scancel --user=wei")


@pytest.fixture
def settings(tmp_path):
    """Return what each run is given. The proof of each node, which is other scenarios' affair, is left out of it."""
    return {
        "acceptance_directory": str(tmp_path / "acceptances"),
        "acceptance_key": str(tmp_path / "keys/signing"),
        "acceptance_fence": True,
        "acceptance_floors": [FLOOR],
        "acceptance_proof": False,
        "verify_report_directory": str(tmp_path / "report"),
    }


def certificate(settings):
    """Return the newest certificate."""
    path = max(Path(settings["acceptance_directory"]).glob("*/certificate.json"))
    return json.loads(path.read_bytes())


def test_a_job_ends_one_waits_and_a_run_that_was_killed_comes_to_its_end(cluster, settings):
    running = cluster.runs("sleep 45; echo well", "--nodelist=one")
    begun = start("playbooks/acceptance.yml", **settings)
    cluster.wait(lambda: len(cluster.reserved()) == 3)
    waiting = cluster.submit("sleep 1", "--nodelist=two")
    begun.kill()
    begun.communicate()
    assert cluster.state(running) == ["RUNNING", "0"]
    assert cluster.state(waiting) == ["PENDING", "0"]
    names = cluster.reserved()

    def measured():
        records = [*Path(settings["acceptance_directory"]).glob("*/acceptance.json")]
        assert cluster.reserved() == names
        assert cluster.state(waiting)[0] == "PENDING"
        return bool(json.loads(records[0].read_text())["results"])

    cut_off("playbooks/acceptance.yml", when=measured, timeout=600, **settings)
    assert cluster.state(running) == ["COMPLETED", "0"]
    assert cluster.reserved() == names
    again = playbook("playbooks/acceptance.yml", **settings)
    assert again.status == 0, again.output
    assert {node["verdict"] for node in certificate(settings)["nodes"].values()} == {"passed"}
    assert cluster.in_service()
    cluster.wait(lambda: cluster.state(waiting) == ["COMPLETED", "0"])
    assert nodes()["one"].check_output(f"cat /tmp/{running}.out") == "well"


def test_check_mode_says_whom_it_waits_for_and_reserves_nothing(cluster, settings):
    running = cluster.runs("sleep 600", "--nodelist=one")
    told = playbook("playbooks/acceptance.yml", "--check", **settings)
    assert told.status == 0, told.output
    assert f"one: waits for job {running} of wei (running, until " in told.output
    assert cluster.in_service()


def test_without_a_fence_a_node_with_a_job_is_refused(cluster, settings):
    running = cluster.runs("sleep 600", "--nodelist=one")
    refused = playbook("playbooks/acceptance.yml", **{**settings, "acceptance_fence": False})
    assert refused.status == 2
    assert "GPULAB-F140" in refused.output
    assert f"job {running} of wei" in refused.output


def test_a_reservation_of_somebody_else_is_refused_before_any_node_is_taken(cluster, settings):
    times = "StartTime=now+3hours EndTime=now+5hours"
    cluster.head.check_output(f"scontrol create reservation ReservationName=course {times} Nodes=three Users=wei")
    try:
        refused = playbook("playbooks/acceptance.yml", **settings)
        assert refused.status == 2
        assert "GPULAB-F016" in refused.output
        assert "three cannot be reserved" in refused.output
        assert cluster.reserved() == {"course": "three"}
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 7200))
        accepted = playbook("playbooks/acceptance.yml", acceptance_until=until, **settings)
        assert accepted.status == 0, accepted.output
        assert cluster.reserved() == {"course": "three"}
    finally:
        cluster.head.check_output("scontrol delete ReservationName=course")


def test_a_job_that_does_not_end_in_time_keeps_its_node_and_the_others_are_measured(cluster, settings):
    running = cluster.runs("sleep 600", "--nodelist=one")
    ended = playbook("playbooks/acceptance.yml", acceptance_wait_minutes=0.3, **settings)
    assert ended.status == 2
    assert "GPULAB-F148" in ended.output
    found = certificate(settings)["nodes"]
    assert {name: node["verdict"] for name, node in found.items()} == {
        "one": "not tested",
        "two": "passed",
        "three": "passed",
    }
    assert f"job {running} of wei" in found["one"]["why"]
    assert cluster.state(running) == ["RUNNING", "0"]
    assert cluster.in_service()


def test_nodes_that_are_never_given_back_come_back_by_themselves(cluster, settings):
    """The controller dies for good: Slurm ends the reservation, and a job that waits begins."""
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 150))
    cut_off(
        "playbooks/acceptance.yml",
        when=lambda: len(cluster.reserved()) == 3,
        **{**settings, "acceptance_until": until, "acceptance_minutes_each": 0.2},
    )
    waiting = cluster.submit("sleep 1", "--nodelist=two")
    cluster.wait(lambda: cluster.state(waiting) == ["COMPLETED", "0"], 300)
    assert cluster.reserved() == {}
    ended = playbook("playbooks/acceptance.yml", **settings)
    assert ended.status == 0, ended.output
    assert cluster.in_service()
