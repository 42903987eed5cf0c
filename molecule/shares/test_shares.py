"""A shared server that is its own controller: people by data, each with a GPU by a job, and no other in any way."""

import time

import pytest
import scenario
from scenario import task

# What a program can open: where the control group lets it, the kernel finds no driver behind the file.
OPENS = 'for gpu in 0 1; do (: < /dev/nvidia$gpu) 2>&1 | grep -q "not permitted" || echo "opens $gpu"; done'
LOGIN = "systemd-run --quiet --pipe --wait --collect --slice=user-20001.slice --uid=ada --working-directory=/tmp "


def as_person(host, name, command):
    """Run a command as one of the people, as a service of the system would; return its result."""
    return host.run(f"runuser -u {name} -- sh -c %s < /dev/null", f"cd /tmp; {command}")


def wait(what, seconds=30):
    end = time.monotonic() + seconds
    while not (answer := what()) and time.monotonic() < end:
        time.sleep(0.5)
    return answer


@pytest.fixture
def jobs(host):
    """Return a function that tells the states and reasons of a person's jobs; all jobs end with the test."""
    yield lambda name: host.check_output(f"squeue --noheader --user={name} --sort=i --format=%T:%r").splitlines()
    host.check_output("scancel --user=ada; scancel --user=ben")
    assert wait(lambda: host.check_output("squeue --noheader") == "", 60)


def test_a_job_has_its_gpu_and_no_other(host):
    host.check_output("printf '%%s' %s > /tmp/opens", f"{OPENS}; echo sees $CUDA_VISIBLE_DEVICES")
    done = as_person(host, "ada", "timeout 60 srun --immediate=30 --gres=gpu:1 sh /tmp/opens")
    assert done.stdout.splitlines() == ["opens 0", "sees 0"], done.stderr


def test_a_login_that_is_no_job_opens_no_gpu_and_says_how_to_get_one(host):
    assert host.check_output(LOGIN + "sh -c %s", OPENS) == ""
    assert "srun --gres=gpu:1 --pty bash" in host.check_output(
        LOGIN + "bash -i -c '. /etc/profile.d/gpulab-slurm.sh' 2>&1"
    )
    for quiet in ("--setenv=SLURM_JOB_ID=7 bash -i", "bash"):  # in a job, and where nobody reads it
        assert "srun" not in host.check_output(f"{LOGIN}{quiet} -c '. /etc/profile.d/gpulab-slurm.sh' 2>&1")


def test_groups_are_accounts_with_shares_and_people_are_in_them(host):
    rows = host.check_output(
        "sacctmgr --noheader --parsable2 show association format=account,user,fairshare"
    ).splitlines()
    expected = {"vision||3", "robots||1", "vision|ada|1", "robots|ben|1", "vision|ben|1", "root||1", "root|root|1"}
    assert set(rows) == expected


def test_who_has_no_group_and_who_asks_for_more_than_a_person_may_have_is_refused_at_once(host):
    assert "Invalid account" in as_person(host, "eve", "sbatch --gres=gpu:1 --wrap true").stderr
    assert "QOSMaxGRESPerUser" in as_person(host, "ada", "sbatch --gres=gpu:2 --wrap true").stderr
    late = as_person(host, "ada", "sbatch --partition=interactive --time=9:00:00 --gres=gpu:1 --wrap true")
    assert "time limit" in late.stderr


def test_a_person_has_one_gpu_at_a_time_and_one_in_the_interactive_partition_beside(host, jobs):
    for options in ("", "", "--partition=interactive"):
        done = as_person(host, "ada", f"sbatch {options} --mem=10 --gres=gpu:1 --output=/dev/null --wrap 'sleep 300'")
        assert done.rc == 0, done.stderr
    assert wait(lambda: jobs("ada") == ["RUNNING:None", "PENDING:QOSMaxGRESPerUser", "RUNNING:None"]), jobs("ada")
    assert as_person(host, "ben", "squeue --noheader").stdout == ""  # they are hers
    assert "ada" not in as_person(host, "ben", "sacct --allusers --noheader --format=user").stdout
    assert len(as_person(host, "ada", "squeue --noheader").stdout.splitlines()) == 3


EXAM = {"name": "exam", "start": "2035-01-05T08:00:00", "duration": "04:00:00", "gpus": 1, "groups": ["vision"]}


def reserve(host, *entries, check=False):
    """Let Slurm keep what these entries of slurm_reservations say, that of the role, and no more."""
    return task(host, "gpulab.node.slurm_reservations", host="node", reservations=[EXAM, *entries], check=check)


@pytest.fixture
def course(host):
    """Reserve both GPUs for a group from now on, and nothing after the test."""
    start = host.check_output("date +%FT%T --date=-1hour")
    yield {"name": "course", "start": start, "duration": "1-0", "gpus": 2, "groups": ["robots"]}
    assert not reserve(host).get("failed")


def test_reserved_gpus_go_to_nobody_else(host, jobs, course):
    assert not reserve(host)["changed"]  # the role has made that of the inventory
    assert reserve(host, course, check=True)["changed"]
    assert "course" not in host.check_output("scontrol show reservation")
    assert reserve(host, course)["changes"] == [{"action": "make", "what": "reservation course"}]
    assert not reserve(host, course)["changed"]
    done = as_person(host, "ada", "sbatch --mem=10 --gres=gpu:1 --time=60 --output=/dev/null --wrap true")
    assert done.rc == 0, done.stderr
    assert wait(lambda: jobs("ada") and jobs("ada")[0].startswith("PENDING:"))
    assert "denied" in as_person(host, "ada", "sbatch --reservation=course --wrap true").stderr
    used = "timeout 60 srun --immediate=30 --account=robots --reservation=course --gres=gpu:1 sh -c %s"
    assert as_person(host, "ben", used % "'echo $CUDA_VISIBLE_DEVICES'").stdout == "0\n"
    assert jobs("ada")[0].startswith("PENDING:")
    changed = {**course, "gpus": 1, "groups": [], "users": ["ada"]}
    assert [one["action"] for one in reserve(host, changed)["changes"]] == ["delete", "make"]
    assert not reserve(host, changed)["changed"]


def test_a_reservation_goes_when_no_job_has_it_and_others_stay(host, jobs, course):
    host.check_output("scontrol create ReservationName=theirs StartTime=now Duration=5 Users=ada Nodes=ALL Flags=MAINT")
    try:
        assert reserve(host, {**course, "name": "theirs"})["refusal"]["code"] == "F055"
        assert "ReservationName=theirs" in host.check_output("scontrol show reservation")
    finally:
        host.check_output("scontrol delete ReservationName=theirs")
    reserve(host, course)
    job = "sbatch --account=robots --reservation=course --mem=10 --gres=gpu:1 --output=/dev/null --wrap 'sleep 300'"
    assert as_person(host, "ben", job).rc == 0
    assert wait(lambda: jobs("ben") == ["RUNNING:None"]), jobs("ben")
    assert reserve(host)["refusal"]["code"] == "F055"
    assert jobs("ben") == ["RUNNING:None"]
    host.check_output("scancel --user=ben")
    assert wait(lambda: jobs("ben") == [])
    assert reserve(host)["changed"]


def test_a_job_in_an_image_of_work_has_its_gpu_and_no_other_and_after_a_change_the_new_driver(host):
    host.check_output("apt-get install --yes --quiet busybox-static")
    program = str(scenario.PROJECT / "tests/stubs/work_images.py")
    assert not task(host, "ansible.builtin.copy", src=program, dest="/root/images.py").get("failed")
    image = {"name": "tools", "source": "/mnt/stick", "digest": host.check_output("python3 /root/images.py").split()[0]}
    run = scenario.playbook("site.yml", "--tags=work_images", work_images_list=[image])
    assert run.status == 0, run.output[-3000:]
    look = f"{OPENS}; echo sees $CUDA_VISIBLE_DEVICES; ls -l ${{LD_LIBRARY_PATH%%:*}}/libcuda.so.1"
    host.check_output("printf %%s %s > /tmp/look", look)
    host.check_output("mkdir -p /opt/lab; echo /opt/lab > /etc/ld.so.conf.d/00-lab.conf")
    try:
        for version in ("570.26", "580.1"):
            library = f"/opt/lab/libcuda.so.{version}"
            host.check_output(f"rm -f /opt/lab/*; cp /usr/lib/gpulab-simulation/libcuda.so.1 {library} && ldconfig")
            done = as_person(host, "ada", "timeout 60 srun --immediate=30 --gres=gpu:1 work-run tools sh /tmp/look")
            assert done.stdout.splitlines()[:2] == ["opens 0", "sees 0"], done.stderr
            assert done.stdout.rstrip().endswith(f"/libcuda.so.{version}"), done.stdout
    finally:
        host.check_output("rm -r /opt/lab /etc/ld.so.conf.d/00-lab.conf; ldconfig")
