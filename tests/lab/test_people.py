"""Ten people in two groups come to three bare machines by one run, and live there.

Accounts, keys, control groups, jobs and their accounting are real. The GPUs are simulated, so nothing computes on them:
the day on which somebody held one idle is written into the accounting and into Prometheus by the test.
"""

import json
import shlex
import subprocess
import time

import pytest
from laboratory import ROOT

GPU = {"release": "trixie", "gpu": "a100-pcie-2", "groups": ["training_servers"]}
NODES = [
    {"name": "head", "release": "trixie", "gpu": "none", "groups": ["slurm_controllers", "monitoring_server"]},
    {"name": "a", **GPU},
    {"name": "b", **GPU},
]
GROUPS = {"vision": ["ada", "ben", "eve", "fay", "gus"], "robots": ["ida", "jan", "kim", "leo", "mia"]}
NAMES = [name for names in GROUPS.values() for name in names]
LIMIT = 200  # processes of somebody's sessions
MOST = 300  # processes of somebody who has jobs
DRIVER, BETTER = "595.91.07", "595.96.01"
SETTINGS = {
    "gpu-nodes": {
        "nvidia_driver_state": "present",
        "nvidia_driver_version": DRIVER,
        "cuda_state": "absent",
        "container_toolkit_state": "absent",
        "monitoring_state": "present",
        "slurm_state": "present",
        "slurm_processes_per_user": MOST,
    },
    "slurm_controllers": {"slurm_accounting": True, "slurm_accounts": True, "slurm_private": True},
}
HUB = {
    "gpulab_environments": [{"name": "lab", "packages": ["six"], "jupyter": True}],
    "jupyter_state": "present",
    "jupyter_url": "https://localhost:8443",
    "jupyter_users": ["vision"],
    "jupyter_choices": [{"name": "one GPU", "gpus": 1, "hours": 1, "memory": "500M"}],
}
# What machines have before gpulab comes: by these people may start programs.
SCHEDULERS = "at busybox-static cron dbus-user-session fuse-overlayfs podman uidmap"
# Says which GPUs open: where the control group lets it, the kernel finds no driver behind the file.
OPENS = """\
#!/bin/sh
for gpu in /dev/nvidia[0-9]*; do (: < $gpu) 2>&1 | grep -q "not permitted" || echo "opens $gpu"; done
echo tried
"""
SEVEN_WAYS = {
    "SSH": "opens",
    "su": "echo secret | su - ben -c opens",
    "cron": "echo '* * * * * opens > ~/told' | crontab -; until grep tried ~/told; do sleep 1; done; crontab -r",
    "at": "echo 'opens > ~/told' | at now; until grep tried ~/told; do sleep 1; done",
    "timer": "systemd-run --user --on-active=1 sh -c 'opens > ~/told'; until grep tried ~/told; do sleep 1; done",
    "systemd-run": "systemd-run --user --pipe --wait -p DevicePolicy=auto -p DeviceAllow='/dev/nvidia0 rwm' opens",
    "Podman": """
        mkdir -p root/bin root/dev root/proc root/sys root/etc
        cp /bin/busybox root/bin/sh && cp /bin/busybox root/bin/grep && cp /usr/bin/opens root/bin
        mkdir -p .config/containers && printf '[containers]\ndefault_sysctls=[]\n' > .config/containers/containers.conf
        gpus='-v /dev/nvidia0:/dev/nvidia0 -v /dev/nvidia1:/dev/nvidia1'
        podman run --rm --network=none --pid=host $gpus --rootfs ~/root opens""",
}
# Each is refused, by what it says.
ATTACKS = {
    "cat /home/ada/thesis": "Permission denied",
    "cat /proc/{process}/environ": "Permission denied",
    "kill {process}": "not permitted",
    "mknod own c 195 0": "not permitted",
    "scancel {job}": "Access/permission denied",
    "srun --jobid={job} --overlap --immediate=30 opens": "Access/permission denied|Invalid job id",
    "sacctmgr --immediate modify user gus set adminlevel=admin": "permission denied",
    "sbatch --account=robots --wrap true": "Invalid account",
    "crontab -u ada -r": "privileged",
    "sudo -n true": "command not found|password is required",
    "cat /etc/munge/munge.key": "Permission denied",
    "cat /var/lib/gpulab/people.json": "Permission denied",
}
# More often than any limit. Its children sleep: what thrashes in the memory that is left to somebody keeps a small
# machine of tests from all else.
FORKS = """python3 -c '
import os, time
for number in range(400):
    try:
        if not os.fork():
            break
    except OSError:
        time.sleep(0.2)
time.sleep(3600)
'"""
pytestmark = pytest.mark.story


class People:
    """The people of the inventory, each with a key, and what they do."""

    def __init__(self, lab):
        """Make their keys."""
        self._lab = lab
        (lab.directory / "keys").mkdir(exist_ok=True)
        self.of = {
            name: {"name": name, "uid": 20001 + NAMES.index(name), "groups": [group], "keys": [self.new_key(name)]}
            for group, names in GROUPS.items()
            for name in names
        }

    def new_key(self, name):
        """Make somebody a key, also in place of a former one; return its public part."""
        path = self._lab.directory / "keys" / name
        if not path.exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path], check=True)
        return path.with_suffix(".pub").read_text().strip()

    def write(self):
        """Write them into the inventory."""
        path = self._lab.inventory / "group_vars/all/people.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        groups = [{"name": name, "gid": 21000 + number} for number, name in enumerate(GROUPS)]
        limits = {"memory": "2G", "tasks": LIMIT}
        path.write_text(
            json.dumps({"users_groups": groups, "users_people": list(self.of.values()), "users_limits": limits})
        )

    def start(self, name, node, command, key=None):
        """Start a command of somebody's on a node, by SSH."""
        argv = self._lab.ssh(node, command, name, key=f"keys/{key or name}")
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(argv, text=True, **pipes)

    def run(self, name, node, command, key=None):
        """Run a command of somebody's on a node, by SSH; return (status, output, errors)."""
        process = self.start(name, node, command, key)
        output, errors = process.communicate(timeout=100)
        return process.returncode, output.strip(), errors

    def submit(self, name, script, *options):
        """Submit a job of somebody's; return its number."""
        words = " ".join(("--parsable", "--output=/dev/null", *options))
        status, number, errors = self.run(name, "head", f"sbatch {words} --wrap '{script}'")
        assert status == 0, errors
        return number


@pytest.fixture(scope="module")
def people(lab):
    """Write the inventory, and give the machines what they have before gpulab comes; return the people."""
    served = lab.serve_drivers("debian13", DRIVER, BETTER)
    settings = {**SETTINGS, "gpu-nodes": {**SETTINGS["gpu-nodes"], **served}}
    (lab.inventory / "lab.yml").write_text(json.dumps({name: {"vars": found} for name, found in settings.items()}))
    (lab.inventory / "host_vars").mkdir(exist_ok=True)
    (lab.inventory / "host_vars/b.json").write_text(json.dumps({**HUB, **certificate(lab.directory)}))
    for name in "ab":
        install = f"apt-get update -q && apt-get install -qy --no-install-recommends {SCHEDULERS}"
        lab.node(name).run(f"{install}; printf '%s' '{OPENS}' > /usr/bin/opens; chmod 0755 /usr/bin/opens", timeout=600)
    people = People(lab)
    people.write()
    return people


def certificate(directory):
    """Make a certificate of the hub that is its own authority; return the settings that name it and its key."""
    paths = {"jupyter_certificate": str(directory / "hub.pem"), "jupyter_key": str(directory / "hub.key")}
    if not (directory / "hub.pem").exists():
        argv = "openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=lab -addext subjectAltName=DNS:localhost"
        files = ["-out", paths["jupyter_certificate"], "-keyout", paths["jupyter_key"]]
        subprocess.run([*argv.split(), *files], check=True, capture_output=True)
    return paths


def wait(holds, what, seconds=60):
    """Wait until holds() is true."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(1)


def state(lab, job):
    """Return the state of a job."""
    return lab.node("head").run(f"scontrol --oneliner show job {job} | grep -o 'JobState=[A-Z]*'").partition("=")[2]


def change(lab, people):
    """Run what docs/people.md has for a change of people."""
    people.write()
    return lab.play("playbooks/users.yml", "playbooks/slurm.yml")


@pytest.mark.usefixtures("people")
def test_one_run_makes_the_lab_of_bare_machines(lab):
    run = lab.play("playbooks/whole_lab.yml", timeout=1800)
    assert run.rc == 0, run.output[-3000:]
    for node in NODES:
        numbers = lab.node(node["name"]).run(f"id --user {' '.join(NAMES)} | xargs; id --groups --name jan")
        assert numbers == " ".join(str(20001 + number) for number in range(len(NAMES))) + "\njan robots"
    report = json.loads((ROOT / "reports/latest/report.json").read_text())
    results = [result for host in report["hosts"] for result in host["results"]]
    proven = {result["id"] for result in results if result["severity"] == "ok"}
    assert {"slurm-node", "slurm-gpus", "slurm-door", "users-accounts", "users-limits"} <= proven
    assert not [result for result in results if result["severity"] in {"warn", "fail"}]


@pytest.mark.usefixtures("people")
def test_a_second_run_changes_nothing(lab):
    run = lab.play("playbooks/whole_lab.yml", timeout=900)
    assert run.rc == 0, run.output[-3000:]
    assert {name: host["changed"] for name, host in run.recap.items()} == {"head": 0, "a": 0, "b": 0}


def test_ten_people_ask_at_once_and_each_gets_one_gpu_and_no_other(people):
    asked = [people.start(name, "head", "srun --gres=gpu:1 opens") for name in NAMES]
    for name, process in zip(NAMES, asked, strict=True):
        output, errors = process.communicate(timeout=200)
        opened, *more = output.split("\n")
        assert opened.startswith("opens /dev/nvidia"), f"{name}: {output}{errors}"
        assert more == ["tried", ""], name


@pytest.mark.parametrize("way", SEVEN_WAYS)
def test_no_way_around_slurm_opens_a_gpu(lab, people, way):
    node = lab.node("a")
    assert node.run("opens").splitlines() == ["opens /dev/nvidia0", "opens /dev/nvidia1", "tried"]  # root's do
    node.run("echo ben:secret | chpasswd")
    command = f"rm -f told; {SEVEN_WAYS[way]}; cat told"
    _status, output, errors = people.run("ada", "a", command)
    node.run("usermod --password '*' ben")
    assert set(output.splitlines()) == {"tried"}, errors


@pytest.fixture(scope="module")
def target(lab, people):
    """Return what others of Ada's may be attacked: a file, a program and a job."""
    people.run("ada", "a", "echo work > ~/thesis && chmod 0666 ~/thesis")
    job = people.submit("ada", "sleep 3000", "--nodelist=a", "--gres=gpu:1")
    process = lab.node("a").run("timeout 60 sh -c 'until pgrep -u ada -x sleep; do sleep 1; done'")
    return {"job": job, "process": process.split()[0]}


@pytest.mark.parametrize("attack", ATTACKS)
def test_nobody_reaches_what_others_have(lab, people, target, attack):
    status, output, errors = people.run("gus", "a", attack.format(**target))
    assert status != 0
    assert any(expected in output + errors for expected in ATTACKS[attack].split("|")), output + errors
    assert state(lab, target["job"]) == "RUNNING"


def test_jobs_of_others_are_not_even_seen(people, target):
    assert target["job"] in people.run("ada", "head", "squeue --noheader")[1]
    assert people.run("gus", "head", "squeue --noheader; sacct --allusers --noheader --user=ada")[1] == ""


def test_who_forks_without_end_stops_at_the_limit_and_others_work(lab, people, target):
    bomb = people.start("kim", "a", f"exec {FORKS}")
    count = f"systemctl show --property=TasksCurrent --value user-{people.of['kim']['uid']}.slice"
    wait(lambda: lab.node("a").run(count) == str(LIMIT), "the limit is reached")
    assert people.run("ida", "a", "srun --nodelist=a --gres=gpu:1 opens | tail -n 1")[1] == "tried"
    assert people.run("kim", "head", "srun --nodelist=b --gres=gpu:1 opens | tail -n 1")[1] == "tried"  # elsewhere
    assert state(lab, target["job"]) == "RUNNING"
    assert lab.node("a").run(count) == str(LIMIT)
    lab.node("a").run("loginctl terminate-user kim")
    bomb.wait(60)
    wait(lambda: not lab.node("a").holds("pgrep -u kim"), "all of it ends")
    lab.node("head").run(f"scancel {target['job']}")


def test_a_job_that_forks_without_end_stops_at_the_limit_and_others_work(lab, people):
    """The nodes of a lab are containers of one kernel, which counts what somebody has on all of them."""
    bomb = people.start("kim", "head", f"exec srun --nodelist=a --mem=1G {FORKS}")

    def count():
        return int(lab.node("a").run("ps -L --no-headers -U kim | wc -l"))

    wait(lambda: count() > MOST - 20, "the limit is near")
    assert people.run("ida", "a", "srun --nodelist=a --gres=gpu:1 opens | tail -n 1")[1] == "tried"
    assert count() <= MOST
    lab.node("head").run("scancel --user=kim")
    bomb.wait(60)
    wait(lambda: not lab.node("a").holds("pgrep -u kim"), "all of it ends")


def test_who_moves_has_the_rights_of_the_new_group_and_none_of_the_former(lab, people):
    held = people.submit("jan", "sleep 3000", "--gres=gpu:1")
    wait(lambda: state(lab, held) == "RUNNING", "his job runs")
    people.of["jan"]["groups"] = ["vision"]
    assert change(lab, people).rc == 0
    for node in NODES:
        assert people.run("jan", node["name"], "id --groups --name")[1] == "jan vision"
    assert state(lab, held) == "RUNNING"
    assert "AssocGrpSubmitJobsLimit" in people.run("jan", "head", "sbatch --account=robots --wrap true")[2]
    people.submit("jan", "true", "--account=vision")
    lab.node("head").run(f"scancel {held}")


def test_a_lost_key_lets_nobody_in_and_a_new_one_does(lab, people):
    path = lab.directory / "keys/ida"
    path.rename(path.with_name("lost"))
    people.of["ida"]["keys"] = [people.new_key("ida")]
    people.write()
    run = lab.play("playbooks/users.yml")
    assert run.rc == 0, run.output[-3000:]
    for node in NODES:
        status, _output, errors = people.run("ida", node["name"], "true", key="lost")
        assert (status, "Permission denied" in errors) == (255, True)
        assert people.run("ida", node["name"], "id --user --name")[1] == "ida"


def test_who_leaves_gets_no_more_and_loses_nothing(lab, people):
    people.run("ben", "a", "echo work > ~/thesis && mkdir -m 0700 ~/.aws && echo secret > ~/.aws/token")
    held = people.submit("ben", "sleep 3000", "--nodelist=a", "--gres=gpu:2")
    wait(lambda: state(lab, held) == "RUNNING", "his job runs")
    waits = people.submit("ben", "true", "--nodelist=a", "--gres=gpu:2")
    people.of["ben"].update(state="leaving", heir="ada")
    run = change(lab, people)
    assert run.rc == 0, run.output[-3000:]
    assert f"ben leaves and still has jobs of Slurm: {held}" in " ".join(run.output.split())
    assert (state(lab, held), state(lab, waits)) == ("RUNNING", "CANCELLED")
    for node in NODES:
        assert people.run("ben", node["name"], "true")[0] == 255
    assert lab.node("a").run("cat /home/ben/thesis") == "work"
    people.of["ben"]["state"] = "absent"
    run = change(lab, people)
    assert (run.rc, "GPULAB-U009" in run.said_of("a")) == (2, True)  # his job runs, and his files are there


def test_the_heir_gets_the_files_and_the_number_stays_his(lab, people):
    lab.node("head").run("scancel --user=ben")
    for name in ("a", "b", "head"):
        lab.node(name).run("timeout 60 sh -c 'while pgrep -u ben; do sleep 1; done'")
        for command in hand_over():
            lab.node(name).run(command)
        lab.node(name).run("rm -r --one-file-system /home/ben")
    assert people.run("ada", "a", "cat /home/from-ben/thesis && ls -A /home/from-ben")[1] == "work\nthesis"
    assert change(lab, people).rc == 0
    for node in NODES:
        assert not lab.node(node["name"]).holds("id ben")
    assert "ben" in lab.node("head").run("sacct --allusers --noheader --allocations --format=User")
    people.of["new"] = {"name": "new", "uid": people.of.pop("ben")["uid"], "groups": ["vision"]}
    people.write()
    run = lab.play("playbooks/users.yml")
    assert (run.rc, "was 'ben''s, who left" in " ".join(run.output.split())) == (2, True)
    del people.of["new"]
    people.write()


def hand_over():
    """Return the commands with which docs/people.md hands Ben's files over to Ada, but for that which only looks."""
    text = (ROOT / "docs/people.md").read_text().partition("### The heir gets the files")[2]
    commands = [line.partition("#")[0].strip() for line in text.split("```")[1].strip().splitlines()]
    return [command for command in commands if not command.startswith("find / ")]


def test_a_gpu_held_idle_for_a_day_is_on_the_page_of_the_month(lab, people, tmp_path):
    """The day is simulated: the times of a job of Fay's, and what Prometheus had recorded of it."""
    head = lab.node("head")
    job = people.submit("fay", "true", "--gres=gpu:1", "--nodelist=a")
    wait(lambda: "COMPLETED" in head.run(f"sacct --noheader --allocations --jobs={job} --format=State"), "it ends")
    day = int(time.time()) // 86400 * 86400 - 40 * 86400
    times = f"time_submit={day}, time_eligible={day}, time_start={day}, time_end={day + 86400}"
    head.run(f"mariadb gpulab_slurm -e 'UPDATE gpulab_job_table SET {times} WHERE id_job={job}'")  # noqa: S608 - a number
    series = {"node_hours": 1, "gpu_hours": 2, "gpu_busy_hours": 0}
    lines = []
    for name, value in series.items():
        lines.append(f"# TYPE gpulab:{name}:1h gauge")
        lines += [f'gpulab:{name}:1h{{instance="a"}} {value} {day + hour * 3600 + 1800}' for hour in range(24)]
    text = "\\n".join([*lines, "# EOF", ""])
    blocks = "promtool tsdb create-blocks-from openmetrics /tmp/day /var/lib/prometheus/metrics2"
    head.run(f"printf '{text}' > /tmp/day && {blocks} && chown -R prometheus: /var/lib/prometheus/metrics2")
    head.run("systemctl restart prometheus && until promtool query instant http://127.0.0.1:9090 up; do sleep 1; done")
    month = time.strftime("%Y-%m", time.gmtime(day))
    asked = {"usage_month": month, "usage_names": True, "usage_directory": str(tmp_path)}
    run = lab.play("playbooks/usage.yml", "-e", json.dumps(asked))
    assert run.rc == 0, run.output[-3000:]
    data = json.loads((tmp_path / month / "usage.json").read_text())
    (fay,) = (user for user in data["users"] if user["name"] == "fay")
    assert (fay["held"], fay["used"], fay["idle"]) == (24, 0, 24)


@pytest.fixture(scope="module")
def ada(lab):
    """Return what Ada does at the hub, as molecule/jupyter/person.py has it, with a token of hers."""
    node, given = lab.node("b"), {"name": "ada"}
    program = shlex.quote((ROOT / "molecule/jupyter/person.py").read_text())
    node.run(f"printf %s {program} > /usr/bin/person; echo ada:secret | chpasswd")

    def run(what, **options):
        asked = shlex.quote(json.dumps({**given, "do": what, **options}))
        python = "/usr/local/lib/gpulab-jupyter/hub/bin/python"
        return json.loads(node.run(f"{python} /usr/bin/person {HUB['jupyter_url']} {asked}"))

    given["token"] = run("login", password="secret")  # noqa: S106 - on a throw-away node
    return run


def test_a_new_driver_waits_for_a_notebook_which_lives_until_its_owner_ends_it(lab, ada):
    node, head = lab.node("b"), lab.node("head")
    installed = "dpkg-query -W -f '${Version}' nvidia-kernel-open-dkms"
    assert ada("spawn", choice="one GPU")["ready"]
    kernel = ada("kernel", kind="venv-lab")
    opened = ada("cell", kernel=kernel, code="remembered = 42; print(__import__('os').popen('opens').read(), end='')")
    assert opened in {f"opens /dev/nvidia{gpu}\ntried\n" for gpu in (0, 1)}
    number, end = head.run("squeue --noheader --name=gpulab-jupyter --format='%A %e'").split()
    change = {
        "nvidia_driver_version": BETTER,
        "rollout_directory": str(lab.directory / "rollouts"),
        "rollout_level": "quick",
        "rollout_wait_minutes": 15,
    }
    begun = lab.start("playbooks/rollout.yml", "-l", "b", "-e", json.dumps(change))
    until = f"until {end.replace('T', ' ')} at the latest"
    told = f"in use: the notebook of ada (job {number}, running, {until})"
    begun.wait_until(lambda: told in " ".join(begun.output.split()), 300, "the notebook is waited for")
    assert "gpulab" in head.run("sinfo --noheader --nodes=b --format='%T %100E'")
    time.sleep(20)  # which it goes on to be
    assert ada("cell", kernel=kernel, code="print(remembered)") == "42\n"
    assert node.run(installed) == f"{DRIVER}-1"
    assert ada("stop") in {202, 204}
    run = begun.wait(900)
    assert run.rc == 0, run.output[-3000:]
    assert node.run(installed) == f"{BETTER}-1"
    wait(lambda: node.holds("ss -Hltn | grep -q :8443"), "the hub is there again")
    assert ada("spawn", choice="one GPU")["ready"]
    assert ada("stop") in {202, 204}
