"""People at the hub: who comes in, what a server of theirs is and opens, and what others can do to it."""

import json
import os
import shlex
import time
from pathlib import Path

import pytest
import scenario
from fresh import take_away
from window import PRINTED, Window, flags

PLAYBOOK = "playbooks/jupyter.yml"
PYTHON = "/usr/local/lib/gpulab-jupyter/hub/bin/python"
PASSWORD = "six words that nobody else has"  # noqa: S105 - on a throw-away node
ADDRESS = "https://lab.example:8443"
PERSON = Path(__file__).with_name("person.py")
PLACE = "/usr/local/bin/person.py"  # which a rebuild brings back
CAPTURES = scenario.EPHEMERAL / "captures"
# What takes long and other scenarios rebuild.
LONG = "nvidia_driver,secure_boot,cuda,nccl,environments,conda,reboot,gpu_settings,container_toolkit,monitoring"
CHOSEN = {"choice": "no GPU: 0 GPU, 1 h", "environment": "lab (venv)"}
# Where the control group lets it, the kernel finds no driver behind the file.
OPENS = """
for gpu in 0, 1:
    try:
        open(f"/dev/nvidia{gpu}")
    except OSError as error:
        print(gpu, error.errno)
"""


@pytest.fixture(scope="module")
def node():
    (host,) = scenario.nodes().values()
    scenario.task(host, "ansible.builtin.copy", dest=PLACE, content=PERSON.read_text(), mode="0644")
    return host


@pytest.fixture(scope="module")
def does(node):
    """Return a function by which somebody does something at the hub."""

    def run(name, what, **options):
        given = json.dumps({"name": name, "do": what, **options})
        return json.loads(node.check_output(f"{PYTHON} {PLACE} {ADDRESS} {shlex.quote(given)}"))

    return run


@pytest.fixture(scope="module")
def ada(does):
    """Return what ada does with a token of hers."""
    token = does("ada", "login", password=PASSWORD)
    return lambda what, **options: does("ada", what, token=token, **options)


@pytest.fixture(scope="module")
def ben(does):
    token = does("ben", "login", password=PASSWORD)
    return lambda what, **options: does("ben", what, token=token, **options)


@pytest.fixture(scope="module")
def kernel(ada):
    """Return the number of a kernel in a server of ada's with one GPU."""
    assert ada("spawn", choice="one GPU")["ready"]
    return ada("kernel", kind="venv-lab")


@pytest.fixture
def window(node, tmp_path):
    address = node.check_output("getent ahostsv4 lab.example").split()[0]
    browser = Window(tmp_path, *flags((scenario.EPHEMERAL / "hub.pem").read_text(), "lab.example", address))
    yield browser
    browser.close()


def jobs(node):
    return node.check_output("squeue --noheader --name=gpulab-jupyter --format='%u %b'").split("\n")


@pytest.mark.parametrize(
    ("name", "password"), [("ada", "wrong"), ("ada", ""), ("eve", PASSWORD), ("root", PASSWORD), ("nobody", "x")]
)
def test_nobody_else_comes_in(does, name, password):
    assert does(name, "login", password=password) is None


def test_a_name_is_the_same_in_capitals(does):
    assert does("Ada", "login", password=PASSWORD)


def test_a_server_is_a_job_of_the_person_with_its_gpu(node, kernel):
    assert kernel
    assert jobs(node) == ["ada gres/gpu:1"]


def test_a_cell_runs_in_the_environment_and_opens_its_gpu_and_no_other(ada, kernel):
    assert "venv-lab" in ada("specs")
    assert ada("cell", kernel=kernel, code="import sys; print(sys.prefix)").startswith("/opt/venvs/")
    assert ada("cell", kernel=kernel, code="import os; print(os.getuid() > 0, os.getcwd())") == "True /home/ada\n"
    assert ada("cell", kernel=kernel, code=OPENS).splitlines() == ["0 6", "1 1"]


def test_nobody_but_its_owner_reaches_a_server(ada, ben, kernel, does):
    assert kernel
    assert ada("get", path="/user/ada/api/kernels") == 200
    assert ben("get", path="/user/ada/api/kernels") == 403
    assert ben("get", path="/hub/api/users/ada") == 404
    assert does("ada", "get", token="0" * 32, path="/user/ada/api/kernels") == 403


def test_servers_and_the_hub_listen_on_the_node_alone_but_for_the_proxy(node, kernel):
    assert kernel
    listening = node.check_output("ss --no-header --listening --tcp --numeric --processes").splitlines()
    ours = [line.split()[3] for line in listening if "jupyterhub" in line or '"node"' in line or "python" in line]
    assert [place for place in ours if not place.startswith(("127.", "[::1]:"))] == ["*:8443"]


def test_secrets_are_the_hubs_alone(node):
    """Neither the key, nor the record of people, nor a server's token in its environment."""
    for path in ("/etc/gpulab-jupyter/key.pem", "/var/lib/gpulab-jupyter", "/etc/sudoers.d/gpulab-jupyter"):
        assert node.run(f"runuser --user ben -- head -c 1 {path}").rc != 0
        assert node.run(f"runuser --user ben -- ls {path}/").rc != 0
    assert (
        node.run("runuser --user ben -- sh -c 'cat /proc/[0-9]*/environ 2>/dev/null'").stdout.count("JUPYTERHUB") == 0
    )
    assert node.run("runuser --user ben -- sh -c 'cat /proc/[0-9]*/cmdline'").stdout.count("TOKEN") == 0


def test_a_server_tells_the_hub_its_port_and_nothing_else(node, ada, does, kernel):
    """The handler of batchspawner takes commands from whoever holds the server's token, and runs them as the hub."""
    token = ada("cell", kernel=kernel, code="import os; print(os.environ['JUPYTERHUB_API_TOKEN'])").strip()
    command = "touch /var/lib/gpulab-jupyter/taken; /usr/bin/sudo --non-interactive --user={username}"
    for body in (
        {"exec_prefix": command},
        {"batch_query_cmd": f"/usr/bin/squeue -h -n gpulab-jupyter -j {{job_id}} -o %T; {command} true"},
        {"port": 8888, "exec_prefix": command},
        *({"port": port} for port in (80, 65536, True, "8888", None)),
        [],
    ):
        assert does("ada", "post", token=token, path="/hub/api/batchspawner", body=body) == 400, body
    assert ada("post", path="/hub/api/batchspawner", body={"port": 8888}) == 400  # no server's token
    time.sleep(20)  # the hub has asked for the server's job
    assert not node.file("/var/lib/gpulab-jupyter/taken").exists
    assert ada("get", path="/user/ada/api/kernels") == 200


@pytest.mark.parametrize(
    "command",
    [
        "sudo -n -u root /usr/bin/sbatch --parsable",
        "sudo -n -u daemon /usr/bin/sbatch --parsable",
        "sudo -n -u eve /usr/bin/sbatch --parsable",
        "sudo -n -u ada /usr/bin/sbatch --parsable --wrap=id",
        "sudo -n -u ada /usr/bin/scancel 1 --user=ben",
        "sudo -n -u ada /usr/bin/scancel --user=ada",
        "sudo -n -u ada /usr/bin/squeue -h -j 1 -o %T",  # any job of hers, which is no server
        "sudo -n -u ada /usr/bin/squeue -h -n gpulab-jupyter -j 1 -o %T --me",
        "sudo -n -u ada /bin/sh -c id",
    ],
)
def test_the_hub_may_do_three_things_as_members_and_no_more(node, command):
    refused = node.run(f"runuser --user gpulab-jupyter -- {command} < /dev/null")
    assert (refused.rc, "password is required" in refused.stderr) == (1, True)


def test_a_variable_of_the_hub_reaches_no_command_but_those_of_jupyter(node):
    squeue = "/usr/bin/squeue -h -n gpulab-jupyter -j 1 -o %T"
    program = f"runuser --user gpulab-jupyter -- env LD_PRELOAD=/x JUPYTERHUB_X=1 sudo -n -u ada {squeue}"
    assert "LD_PRELOAD" not in node.run(program).stderr
    assert node.run(program.replace("sudo -n", "sudo -n -E")).rc == 1


def test_what_a_person_asks_for_beside_a_choice_counts_nothing(node, ben):
    assert ben("spawn", choice="all of it")["ready"] is False
    assert ben("spawn", environment="venv-lab; id")["ready"] is False
    assert ben("spawn", choice="no GPU", gpus=2, cmd="id", prologue="#SBATCH --gres=gpu:2")["ready"]
    assert "ben N/A" in jobs(node)
    there = ben("kernel", kind="venv-lab")
    assert ben("cell", kernel=there, code=OPENS).splitlines() == ["0 1", "1 1"]
    assert ben("stop") in {202, 204}


def test_a_notebook_goes_on_while_the_hub_is_set_up_again(node, ada, kernel):
    ada("cell", kernel=kernel, code="remembered = 42")
    run = scenario.playbook(PLAYBOOK, jupyter_idle_minutes=1)
    assert run.status == 0, run.output
    assert set(run.changed.values()) != {0}
    assert ada("cell", kernel=kernel, code="print(remembered)") == "42\n"
    node.check_output("systemctl kill --signal=KILL gpulab-jupyter.service")
    node.check_output("for n in $(seq 60); do ss -Hltn | grep -q :8443 && exit; sleep 1; done; exit 1")
    end = time.monotonic() + 60
    while ada("get", path="/user/ada/api/kernels") != 200:
        assert time.monotonic() < end
        time.sleep(1)
    assert ada("cell", kernel=kernel, code="print(remembered)") == "42\n"
    assert ada("stop") in {202, 204}


def test_a_second_run_changes_nothing_and_restarts_nothing(node):
    shown = "systemctl show --property=ExecMainStartTimestampMonotonic gpulab-jupyter.service"
    before = node.check_output(shown)
    assert set(scenario.playbook(PLAYBOOK, jupyter_idle_minutes=1).changed.values()) == {0}
    assert node.check_output(shown) == before
    # As a run that was cut off after it wrote this, and before it restarted the hub.
    node.check_output("touch /etc/gpulab-jupyter/settings.py")
    assert set(scenario.playbook(PLAYBOOK, jupyter_idle_minutes=1).changed.values()) == {1}
    assert node.check_output(shown) != before


def test_who_is_taken_out_or_has_ended_is_out_with_all_tokens(node, ben, does):
    assert ben("get", path="/hub/api/users/ben") == 200
    node.check_output("chage --expiredate 0 ben")
    try:
        assert does("ben", "login", password=PASSWORD) is None
        time.sleep(61)  # what the hub remembers
        assert ben("get", path="/hub/api/users/ben") == 403
        node.check_output("chage --expiredate -1 ben && gpasswd --delete ben vision")
        assert does("ben", "login", password=PASSWORD) is None
    finally:
        node.check_output("chage --expiredate -1 ben; usermod --append --groups vision ben")


def test_who_works_in_a_browser_and_leaves_is_culled_and_comes_back_and_who_computes_is_not(node, ada, window):
    """The last playbook set a minute. Ada's cell prints nothing and nobody is connected to it; ben's page is open."""
    assert ada("spawn", choice="no GPU")["ready"]
    ada("cell", kernel=ada("kernel", kind="venv-lab"), code="import time; time.sleep(600)", wait=False)
    window.visit(ADDRESS)
    window.login("ben", PASSWORD)
    seen = [window.top()]
    window.choose(**CHOSEN)
    assert window.notebook() == "lab (venv)"
    assert window.cell("import sys; print(sys.prefix)").startswith("/opt/venvs/")
    seen.append(window.top())
    window.save()
    end = time.monotonic() + 300
    while "ben N/A" in jobs(node):
        assert time.monotonic() < end
        time.sleep(5)
    assert jobs(node) == ["ada N/A"]
    assert ada("kernels") == ["busy"]
    assert ada("stop") in {202, 204}
    window.visit(f"{ADDRESS}/user/ben/lab/tree/Untitled.ipynb")
    window.until_loaded("document.querySelector('#start')")  # the hub looks every 15 s who is gone
    window.look("document.querySelector('#start').click()")
    window.choose(**CHOSEN)
    window.until_loaded(PRINTED)  # JupyterLab asks its new server too early now and then: "Failed to fetch"
    assert window.printed().startswith("/opt/venvs/")
    if "GPULAB_PICTURES" in os.environ:
        window.keep(seen)


def test_a_foreign_file_and_a_node_that_is_half_made_are_found_before_the_first_change(node):
    unit = "/etc/systemd/system/gpulab-jupyter.service"
    node.check_output(f"mv {unit} /usr/local/bin/unit && systemctl daemon-reload")
    try:
        run = scenario.playbook(PLAYBOOK, "--check")
        assert run.status == 0, run.output
        node.check_output(f"printf '[Unit]\\n' > {unit}")
        refused = scenario.playbook(PLAYBOOK, jupyter_idle_minutes=2)
        assert "GPULAB-H020" in refused.output
        assert set(refused.changed.values()) == {0}
    finally:
        node.check_output(f"mv /usr/local/bin/unit {unit} && systemctl daemon-reload")


def test_who_is_logged_in_still_is_after_a_rebuild(node, does, ada):
    """Slurm counts from 1 again: a job of ada's has the number of the server that she had, and is not taken for it."""
    cookies = does("ada", "enter", password=PASSWORD)
    assert does("ada", "home", cookies=[]) == 302
    assert ada("spawn", choice="no GPU")["ready"]
    number = node.check_output("squeue --noheader --name=gpulab-jupyter --user=ada --format=%i")
    run = scenario.playbook("playbooks/capture.yml")
    assert run.status == 0, run.output
    plain = [path for path in CAPTURES.glob("*/latest/files/var/lib/gpulab-jupyter/**/*") if path.is_file()]
    assert {path.suffix for path in plain} <= {".crt"}
    take_away()
    run = scenario.playbook("playbooks/rebuild.yml", f"--skip-tags={LONG}")
    assert "slurm-node" in run.output, run.output  # its proof stops there: Slurm is set up afterwards
    run = scenario.playbook("molecule/jupyter/prepare.yml")
    assert run.status == 0, run.output
    job = "runuser --user ada -- sbatch --hold --chdir=/tmp --wrap=true"
    node.check_output(f"for n in $(seq {number}); do {job}; done")
    run = scenario.playbook(PLAYBOOK)
    assert run.status == 0, run.output
    assert does("ada", "home", cookies=cookies) == 200
    assert ada("ready") is False
    assert node.check_output(f"squeue --noheader --job={number} --format=%u") == "ada"
    node.check_output("scancel --user=ada")


def test_a_removal_is_refused_while_servers_may_run_and_leaves_what_is_peoples(node, ada):
    assert ada("spawn", choice="no GPU")["ready"]
    refused = scenario.playbook(PLAYBOOK, jupyter_state="absent")
    assert "GPULAB-J010" in refused.output
    assert ada("stop") in {202, 204}
    node.check_output("for n in $(seq 60); do squeue --noheader | grep -q . || exit 0; sleep 1; done; exit 1")
    node.check_output("systemctl stop slurmctld.service")
    refused = scenario.playbook(PLAYBOOK, jupyter_state="absent")
    assert "GPULAB-J010" in refused.output
    node.check_output("systemctl start slurmctld.service")
    node.check_output("for n in $(seq 60); do squeue && exit; sleep 1; done; exit 1")
    run = scenario.playbook(PLAYBOOK, jupyter_state="absent")
    assert run.status == 0, run.output
    for path in ("/etc/gpulab-jupyter", "/etc/sudoers.d/gpulab-jupyter", "/usr/local/lib/gpulab-jupyter"):
        assert not node.file(path).exists
    assert node.file("/var/lib/gpulab-jupyter/jupyterhub.sqlite").exists
    assert node.package("sudo").is_installed
    assert set(scenario.playbook(PLAYBOOK, jupyter_state="absent").changed.values()) == {0}
