"""Slurm, seen from its nodes: daemons, control groups and jobs are real, the GPUs behind the device files are not."""

import json
import time
from datetime import datetime, timezone

import pytest
import testinfra
from scenario import LAB, nodes, playbook

CONTROLLER = {"debian13": "head", "debian12": "debian12"}
TYPE = {"debian13": "a100-pcie-40gb", "debian12": "rtx-4090"}
# What a job can open: where the control group lets it, the kernel finds no driver behind the file.
OPENS = 'for gpu in 0 1; do (: < /dev/nvidia$gpu) 2>&1 | grep -q "not permitted" || echo "opens $gpu"; done'


@pytest.fixture
def name(host):
    return host.check_output("hostname")


@pytest.fixture
def node(host, name):
    """Return a function that returns what Slurm says of the node, by name."""

    def shown():
        fields = host.check_output("scontrol --oneliner show node %s", name).split()
        return dict(field.split("=", 1) for field in fields if "=" in field)

    return shown


def wait(what, seconds=30):
    end = time.monotonic() + seconds
    while not (answer := what()) and time.monotonic() < end:
        time.sleep(0.5)
    return answer


def test_the_node_takes_jobs_and_has_the_planned_gpus(node, name):
    shown = node()
    assert shown["State"] == "IDLE"
    assert shown["Gres"] == f"gpu:{TYPE[name]}:2"
    assert shown["Sockets"] == "1"


def test_a_job_has_its_gpu_and_no_other(host, name):
    job = f"sh -c '{OPENS}; echo sees $CUDA_VISIBLE_DEVICES'"
    told = host.check_output(f"timeout 60 srun --immediate=30 --gres=gpu:{TYPE[name]}:1 {job}")
    assert told.splitlines() == ["opens 0", "sees 0"]


def test_a_login_that_is_no_job_opens_no_gpu(host):
    """A slice of its own is what a login gets; Ansible's user is 1000, and its slice and root's are exempt."""
    login = "systemd-run --quiet --pipe --wait --collect --slice=user-%s.slice --uid=%s sh -c %s"
    assert host.check_output(login, "65534", "65534", OPENS) == ""
    assert host.check_output(login, "1000", "65534", OPENS).splitlines() == ["opens 0", "opens 1"]
    assert host.check_output(login, "0", "0", OPENS).splitlines() == ["opens 0", "opens 1"]


def test_a_job_that_asks_for_no_time_ends(host):
    shown = host.check_output("scontrol --oneliner show partition gpu")
    assert "DefaultTime=1-00:00:00" in shown
    assert "MaxTime=7-00:00:00" in shown


def test_two_jobs_share_a_node_without_asking_for_memory(host):
    job = "timeout 60 srun --immediate=30 --gres=gpu:1 sh -c 'sleep 2; echo $SLURM_STEP_GPUS' > /tmp/job.$n &"
    host.check_output(f"for n in 1 2; do {job} done; wait")
    assert sorted(host.file(f"/tmp/job.{n}").content_string for n in (1, 2)) == ["0\n", "1\n"]


def test_nodes_have_no_files_of_their_own(host, name):
    assert host.file("/etc/slurm/slurm.conf").exists == (name == CONTROLLER[name])


def test_a_partition_per_host_type(host, name):
    expected = {"debian13": {"gpu*", "training_servers"}, "debian12": {"gpu*", "workstations"}}
    assert set(host.check_output("sinfo --noheader --format=%P").split()) == expected[name]


def test_the_key_is_private_and_random(host):
    key = host.file("/etc/munge/munge.key")
    assert (key.user, key.mode & 0o077, key.size) == ("munge", 0, 128)
    assert host.run("munge --no-input | unmunge").rc == 0


def test_accounting_knows_the_jobs(host, name):
    def seen():
        return "gres/gpu=1" in host.check_output("sacct --allusers --noheader --parsable2 --format=AllocTRES")

    if CONTROLLER[name] == "head":  # which keeps accounts
        assert wait(seen)


def test_the_watch_knows_why_a_job_failed(host, name):
    """Debian 12's squeue has the same columns as Debian 13's."""
    (head,) = testinfra.get_hosts(
        [f"ansible://{CONTROLLER[name]}"], ansible_inventory=str(LAB / "inventory"), sudo=True
    )
    job = host.check_output("cd /tmp && sbatch --parsable --output=/dev/null --wrap 'exit 3'")

    def found():
        host.check_output("systemctl start gpulab-watch.service")
        head.check_output("sleep 2; systemctl start gpulab-watch-judge.service")
        state = json.loads(head.file("/var/lib/gpulab-watch/state.json").content_string)
        return [(one["kind"], one["cause"], one["nodes"]) for one in state["found"] if one["job"] == int(job)]

    assert wait(found) == [("program", "it ended with exit status 3", [name])]


def test_the_page_of_the_month_knows_what_was_held_by_somebody_who_has_left(tmp_path):
    """Her association is deleted before the page is written; the other controller keeps no accounting, and says so."""
    (head,) = testinfra.get_hosts(["ansible://head"], ansible_inventory=str(LAB / "inventory"), sudo=True)
    head.check_output("sacctmgr --immediate add account vision")
    head.check_output("sacctmgr --immediate add user daemon account=vision")
    there = nodes()["debian13"]
    there.check_output("cd /tmp && runuser -u daemon -- salloc --immediate=30 --no-shell --gres=gpu:2 && sleep 6")
    there.check_output("scancel --user=daemon")
    ended = "sacct --allusers --noheader --allocations --parsable2 --user=daemon --format=End"
    assert wait(lambda: head.check_output(ended) not in ("", "Unknown"))
    head.check_output("sacctmgr --immediate delete user daemon")
    run = playbook(
        "playbooks/usage.yml",
        usage_month=f"{datetime.now(timezone.utc):%Y-%m}",
        usage_directory=str(tmp_path),
        usage_names=True,
    )
    assert run.status == 0, run.output
    assert set(run.changed.values()) == {0}, run.output
    (file,) = tmp_path.glob("*/usage.json")
    data = json.loads(file.read_text(encoding="utf-8"))
    known = {source["name"]: source["known"] for source in data["sources"]}
    assert known == {"Slurm on head": True, "Slurm on debian12": False, "Prometheus": False}
    (vision,) = [group for group in data["groups"] if group["name"] == "vision"]
    (daemon,) = [user for user in data["users"] if user["name"] == "daemon"]
    (node,) = [node for node in data["nodes"] if node["name"] == "debian13"]
    assert 0.002 < vision["held"] == daemon["held"] <= node["held"] < 1
    assert (vision["used"], vision["kwh"]) == (None, None)
