"""Python environments, seen from the node: the real uv, PyTorch and JAX, out of the real package index."""

import json
import shlex

import pytest
import yaml
from scenario import EPHEMERAL, PROJECT, playbook, task

LOCKS = EPHEMERAL / "locks"
UV = yaml.safe_load((PROJECT / "catalog/uv.yml").read_text())
FRAMEWORKS = {"debian12": ("vision", "pytorch", "2.13.0"), "debian13": ("grads", "jax", "0.9.2")}


def environments(host, *wanted, **more):
    """Have these environments in a directory of the tests."""
    tool = {"uv_version": UV["version"], "uv_sha256": UV["sha256"][host.check_output("uname -m")]}
    given = {"directory": "/srv/venvs", "environments": list(wanted), **tool, **more}
    return task(host, "gpulab.node.venv_environments", **given)


@pytest.fixture
def framework(host):
    """Return name, framework and version of the environment that the scenario asked for."""
    return FRAMEWORKS[host.check_output("hostname")]


@pytest.fixture
def small(host):
    """Return what is wanted of a small environment."""
    python = host.check_output("python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")'")
    return {"name": "small", "python": python, "requirements": ["six==1.16.0", "packaging"]}


def test_the_framework_works_in_its_environment(host, framework):
    name, kind, version = framework
    (found,) = task(host, "gpulab.node.software_proof", directory="/opt/venvs")["ansible_facts"]["gpulab_environments"]
    assert (found["name"], found["expected"]["framework"]) == (name, kind)
    answer = found["answer"]
    assert (answer["failure"], answer["cuda"], answer["cpu_matmul"]) == (None, None, True)
    assert answer["version"].partition("+")[0] == version
    assert answer["unset"] == []


@pytest.fixture
def prove(host, tmp_path):
    """Return a function that proves the node; it returns severity and summary of what is said of its environments."""

    def run(software):
        report = {"verify_report_directory": str(tmp_path), "verify_hosts": host.check_output("hostname")}
        playbook("playbooks/verify.yml", verify_software=software, **report)
        (proven,) = json.loads((tmp_path / "report.json").read_text())["hosts"]
        ((severity, summary),) = [(r["severity"], r["summary"]) for r in proven["results"] if r["id"] == "environments"]
        return severity, summary

    return run


def test_what_worked_is_tried_again_when_it_is_asked_for_or_has_changed(host, framework, prove):
    name, _kind, _version = framework
    assert "tried on" not in prove("all")[1]
    assert "tried on" in prove("changed")[1]
    package = {"vision": "torch/nn", "grads": "jax/numpy"}[name]
    file = host.check_output(f"ls /opt/venvs/{name}/lib/python3*/site-packages/{package}/__init__.py")
    host.check_output(f"mv {file} {file}.kept")
    assert prove("changed")[0] == "fail"
    host.check_output(f"mv {file}.kept {file}")
    severity, summary = prove("changed")
    assert (severity, "tried on" in summary) == ("ok", False)
    assert "tried on" in prove("changed")[1]


@pytest.fixture
def pytorch(host, framework):
    """Return a function that runs a program of the project in the environment with PyTorch.

    It takes the program's arguments after a directory of its own, and returns the lines of JSON that it prints.
    """
    name, kind, _version = framework
    if kind != "pytorch":
        pytest.skip("no PyTorch on this node")

    def run(program, *arguments):
        content = (PROJECT / program).read_text(encoding="utf-8")
        task(host, "ansible.builtin.copy", dest="/tmp/program.py", content=content)
        line = " ".join(map(shlex.quote, arguments))
        host.check_output("rm -rf /tmp/own && mkdir /tmp/own")
        printed = host.check_output(f"echo | /opt/venvs/{name}/bin/python /tmp/program.py /tmp/own {line}")
        return [json.loads(line) for line in printed.splitlines()]

    return run


def test_pytorch_trains_with_mixed_precision_and_computes_the_same_once_compiled(pytorch):
    trained = pytorch("tests/gpu/training.py")[-1]
    before, after = trained["amp_loss"]
    assert after < before / 2
    assert trained["compiled_differs"] < 0.02


def test_it_loads_data_from_every_source(host, pytorch):
    host.check_output("dd if=/dev/urandom of=/srv/sample bs=1M count=1")
    host.check_output("echo /srv/sample > /srv/samples")
    program = "plugins/module_utils/active/loading_program.py"
    rates = [one for one in pytorch(program, "/srv/samples", "1", "2") if "rate" in one]
    assert {one["source"] for one in rates} == {"memory", "files", "memmap", "lmdb"}
    assert all(one["rate"] > 0 for one in rates)


def test_any_user_may_use_it(host, framework):
    name, kind, _version = framework
    module = {"pytorch": "torch", "jax": "jax"}[kind]
    line = f". /opt/venvs/{name}/bin/activate && python -c 'import {module}; print({module}.__file__)'"
    assert host.check_output(f"su admin -s /bin/sh -c {json.dumps(line)}").startswith(f"/opt/venvs/.builds/{name}/1/")


def test_a_hint_says_how_many_processes_load_data(host, framework):
    python = f"/opt/venvs/{framework[0]}/bin/python"
    workers = int(host.check_output("%s -c 'import os; print(os.environ[\"GPULAB_NUM_WORKERS\"])'", python))
    assert workers == max(1, int(host.check_output("grep -c ^processor /proc/cpuinfo")) // 2)


def test_the_lock_is_exported_and_is_what_is_installed(host, framework):
    (lock,) = (LOCKS / host.backend.get_hostname()).glob("*.lock")
    assert lock.stem == framework[0]
    assert f"=={framework[2]}" in lock.read_text()
    assert lock.read_text() == host.file(f"/opt/venvs/{framework[0]}/gpulab.lock").content_string


def test_nothing_outside_the_environments_is_touched(host):
    assert host.run("find /usr/local/lib /root/.local /home -name '*dist-info' -o -name .cache").stdout == ""


def test_an_environment_is_changed_exported_and_made_again_from_its_lock(host, small):
    first = environments(host, small)
    assert first["environments"][0]["added"]["six"] == "1.16.0"
    assert environments(host, small)["changed"] is False
    changed = environments(host, {**small, "requirements": ["six==1.17.0"]})
    (change,) = changed["environments"]
    assert change["changed"] == {"six": ["1.16.0", "1.17.0"]}
    assert set(change["removed"]) == {"packaging"}
    lock = host.file("/srv/venvs/small/gpulab.lock").content_string
    again = environments(host, {**small, "requirements": [], "lock": lock}, directory="/srv/elsewhere")
    assert again["environments"][0]["added"] == {"six": "1.17.0"}


def test_a_package_removed_by_hand_is_brought_back(host, small):
    environments(host, small)
    host.check_output("rm -r /srv/venvs/small/lib/python3*/site-packages/six*")
    assert host.run("/srv/venvs/small/bin/python -c 'import six'").rc != 0
    (change,) = environments(host, small)["environments"]
    assert "six.py no longer exists" in change["because"]
    assert host.run("/srv/venvs/small/bin/python -c 'import six'").rc == 0


def test_a_full_disk_leaves_the_former_environment_in_use(host, small):
    host.check_output("mkdir --parents /srv/full && mount -t tmpfs -o size=160m,mode=755 tmpfs /srv/full")
    try:
        made = environments(host, {**small, "requirements": ["six==1.16.0"]}, directory="/srv/full")
        assert made["changed"] is True, made
        result = environments(host, {**small, "requirements": ["six==1.16.0", "scipy"]}, directory="/srv/full")
        assert result["refusal"]["code"] == "E011"
        assert "stays in use" in result["msg"]
        assert host.check_output("/srv/full/small/bin/python -c 'import six; print(six.__version__)'") == "1.16.0"
        assert host.check_output("ls /srv/full/.builds/small") == "1"
    finally:
        host.check_output("umount /srv/full && rmdir /srv/full")


def test_uv_with_another_hash_is_refused(host, small):
    result = environments(host, small, directory="/srv/tampered", uv_sha256="0" * 64)
    assert result["refusal"]["code"] == "E003"
    assert not host.file("/srv/tampered/small").exists


def test_an_environment_that_nobody_wishes_for_is_named_and_left_alone(host, small):
    environments(host, small)
    result = environments(host)
    assert (result["changed"], result["unlisted"]) == (False, ["small"])
    assert host.file("/srv/venvs/small").exists
    assert environments(host, absent=["small"])["environments"][0]["because"] == ["it is requested as absent"]
    assert not host.file("/srv/venvs/small").exists


def test_an_environment_for_a_group_is_closed_to_others(host, small):
    host.check_output("groupadd --force lab && usermod --append --groups lab admin")
    use = "/srv/venvs/small/bin/python -c 'import six'"
    member, other = f"runuser --user admin -- {use}", f"runuser --user nobody -- {use}"
    environments(host, small)
    assert host.run(other).rc == 0
    (change,) = environments(host, {**small, "group": "lab"})["environments"]
    assert change["because"] == ["it is for everybody, but lab is requested"]
    assert environments(host, {**small, "group": "lab"})["changed"] is False
    assert (host.run(member).rc, host.run(other).rc == 0) == (0, False)
    assert environments(host, {**small, "group": "nobodys"})["refusal"]["code"] == "E019"
    host.check_output("groupdel lab")
    assert environments(host)["abandoned"] == ["small"]
    assert environments(host, small)["changed"] is True
    assert host.run(other).rc == 0


KERNEL = """
import sys
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name=sys.argv[1])
code = "import shutil, torch; print(torch.__file__, shutil.which('python'))"
client.execute_interactive(code, timeout=120)
manager.shutdown_kernel(now=True)
"""


def test_jupyter_runs_the_environment_that_was_requested_as_a_kernel(host, small):
    """A Jupyter of an environment of its own starts it, as a user does."""
    if host.check_output("hostname") != "debian12":
        pytest.skip("debian12 has that wish")
    environments(host, {**small, "name": "client", "requirements": ["jupyter_client"]})
    line = f"/srv/venvs/client/bin/python -c {shlex.quote(KERNEL)} venv-vision"
    torch, python = host.check_output("su --login admin --command %s", line).split()
    assert torch.startswith("/opt/venvs/.builds/vision/1/lib/")
    assert python == "/opt/venvs/vision/bin/python"


def test_kernels_come_and_go_with_their_wish(host):
    kernel = host.file("/usr/local/share/jupyter/kernels/conda-try/kernel.json")

    def kernels(*prefixes, **more):
        return task(host, "gpulab.node.jupyter_kernels", kind="conda", prefixes=list(prefixes), **more)

    assert (kernels("/srv/try", check=True)["changed"], kernel.exists) == (True, False)
    assert (kernels("/srv/try")["kernels"], kernel.exists) == (["conda-try"], True)
    assert kernels("/srv/try")["changed"] is False
    assert (kernels(check=True)["changed"], kernel.exists) == (True, True)
    others = host.check_output("ls --ignore=conda-try /usr/local/share/jupyter/kernels").split()
    assert (kernels()["kernels"], kernel.exists) == (["conda-try"], False)
    assert host.file("/usr/local/share/jupyter").exists is bool(others)


def test_a_kernel_that_somebody_wrote_stays(host):
    directory = "/usr/local/share/jupyter/kernels/conda-try"
    host.check_output(f"mkdir --parents {directory} && echo '{{}}' > {directory}/kernel.json")
    result = task(host, "gpulab.node.jupyter_kernels", kind="conda", prefixes=["/srv/try"])
    assert result["refusal"]["code"] == "E021"
    assert task(host, "gpulab.node.jupyter_kernels", kind="conda", prefixes=[])["changed"] is False
    assert host.check_output(f"cat {directory}/kernel.json") == "{}"
    host.check_output(f"rm --recursive {directory}")
