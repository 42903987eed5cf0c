"""Conda environments, seen from the nodes.

A stand-in for micromamba (tests/stubs/micromamba.py) solves and installs for real, from a channel that the tests make.
"""

import json
import re

import pytest
from scenario import EPHEMERAL, playbook, task

LOCKS = EPHEMERAL / "locks"
PORT = 8644


@pytest.fixture
def address(host):
    """Return where everything is served."""
    return f"http://{host.backend.get_variables()['ansible_host'].rpartition('.')[0]}.1:{PORT}"


@pytest.fixture
def environments(host, address):
    """Return a function that has these environments below a root prefix of the tests."""
    stand_in = host.check_output("sha256sum /opt/conda/bin/micromamba").split()[0]

    def call(*wanted, check=False, refused=False, **more):
        given = {
            "directory": "/srv/conda",
            "environments": list(wanted),
            "channels": [f"{address}/lab"],
            "micromamba_url": f"{address}/micromamba.py",
            "micromamba_sha256": stand_in,
        }
        result = task(host, "gpulab.node.conda_environments", check=check, **{**given, **more})
        assert ("refusal" in result) is refused, result
        return result

    return call


@pytest.fixture
def once(host):
    """Try on one node what has nothing to do with its system."""
    if host.backend.get_hostname() != "debian13":
        pytest.skip("tried on debian13")


SMALL = {"name": "small", "packages": ["python=3.11", "six=1.16", "hello=1.0"]}


@pytest.fixture
def small(environments):
    """Have a small environment that works."""
    environments(SMALL)
    return "/srv/conda/envs/small"


def works(host, six="1.16.0"):
    """Say that the small environment is as it was, and is all that is there."""
    assert host.check_output("/srv/conda/envs/small/bin/python -c 'import six; print(six.version)'") == six
    assert len(host.file("/srv/conda/envs/.builds/small").listdir()) <= 2
    return True


def converge(host, *options, **more):
    """Apply the role to this node once more; return the exit status and what was printed."""
    run = playbook("molecule/conda/converge.yml", f"--limit={host.backend.host}", *options, **more)
    return run.status, run.output


def test_the_framework_works_in_its_environment(host):
    found = task(host, "gpulab.node.software_proof", conda_directory="/opt/conda")["ansible_facts"][
        "gpulab_environments"
    ]
    (vision,) = [one for one in found if one["name"] == "vision (conda)"]
    expected, answer = vision["expected"], vision["answer"]
    assert (expected["framework"], expected["version"], expected["cuda"]) == ("pytorch", "2.13.0", "12.8")
    assert (answer["failure"], answer["version"], answer["cuda"]) == (None, "2.13.0", "12.8")
    assert (answer["cpu_matmul"], answer["unset"]) == (True, [])


def test_any_user_may_use_it_without_a_line_in_bashrc(host):
    line = "micromamba activate vision && python -c 'import alpha, six, torch; print(alpha.version, six.version)'"
    assert host.check_output("su --login admin --command %s", line) == "1 1.16.0"
    for home in ("/root", "/home/admin"):
        assert "mamba" not in host.run(f"cat {home}/.bashrc {home}/.profile").stdout
    assert host.run("su --login admin --command 'touch /opt/conda/envs/vision/x'").rc != 0


def test_jupyter_is_told_how_its_kernel_starts(host):
    """What starts is a stand-in; a real kernel runs in the scenario environments."""
    kernel = json.loads(host.file("/usr/local/share/jupyter/kernels/conda-vision/kernel.json").content_string)
    assert kernel["display_name"] == "vision (conda)"
    started = host.check_output(f"su admin -s /bin/sh -c '{' '.join(kernel['argv'])}'")
    assert started.startswith("stand-in for a kernel in /opt/conda/envs/")
    assert kernel["env"]["CONDA_PREFIX"] == "/opt/conda/envs/vision"


def test_it_is_listed_and_its_builds_are_not(host):
    listed = "MAMBA_ROOT_PREFIX=/opt/conda /opt/conda/bin/micromamba env list --json"
    assert json.loads(host.check_output(listed))["envs"] == ["/opt/conda/envs/vision"]
    assert "/opt/conda/envs/vision" in host.file("/root/.conda/environments.txt").content_string.splitlines()


def test_channels_are_those_of_the_lab_for_everybody(host, address):
    settings = host.file("/etc/conda/condarc.d/gpulab.yml").content_string
    assert 'channels: ["lab"]' in settings
    assert f'channel_alias: "{address}"' in settings
    assert "defaults" not in settings


def test_its_lock_makes_the_same_environment_on_the_other_node(host):
    """Each node's files are noted; the second node's are compared with the first's."""
    locks = [(LOCKS / node / "vision.lock").read_text() for node in ("debian12", "debian13")]
    assert locks[0] == locks[1]
    assert len(re.findall(r"^http://\S+\.conda#[0-9a-f]{64}$", locks[0], re.MULTILINE)) == 7
    assert re.search(r"^# pip alpha==1.0 --hash=sha256:[0-9a-f]{64}$", locks[0], re.MULTILINE)
    digests = (
        "cd /opt/conda/envs/vision/ && find . -type f ! -name '*.pyc' ! -path './conda-meta/*' ! -name gpulab.json"
        " | sort | xargs -d '\\n' sha256sum"
    )
    contents = host.check_output(digests)
    assert "torch.py" in contents
    noted = LOCKS / "files"
    if host.backend.host == "debian12":
        noted.write_text(contents)
    assert noted.read_text() == contents


def test_an_environment_is_changed_as_check_mode_foretold(host, environments, small):
    wish = {**SMALL, "packages": ["python=3.11", "six=1.17"]}
    told = environments(wish, check=True)
    assert works(host)
    (foretold,) = told["environments"]
    assert foretold["changed"] == {"six": ["1.16.0 0", "1.17.0 0"]}
    assert foretold["removed"] == {"hello": "1.0 0"}
    done = environments(wish)
    assert done["environments"] == told["environments"]
    assert works(host, "1.17.0")
    assert environments(wish)["changed"] is False
    assert environments(SMALL)["changed"] is True
    assert host.file(small).exists


def test_a_second_run_touches_nothing(host, environments, small):
    stamp = f"find /srv/conda /root/.conda {small}/ -printf '%p %T@ %i\\n' | sort | sha256sum"
    before = host.check_output(stamp)
    assert environments(SMALL)["changed"] is False
    assert host.check_output(stamp) == before


@pytest.mark.parametrize(
    ("wish", "code", "says"),
    [
        ({"packages": ["python=3.11", "old", "six=1.17"]}, "E004", "six"),
        ({"packages": ["nowhere"]}, "E031", "nowhere"),
        ({"packages": ["python=3.11"], "channels": ["http://127.0.0.1:9/lab"]}, "E012", "127.0.0.1:9"),
        ({"packages": ["python=3.11"], "channels": ["defaults"]}, "E016", "defaults"),
        ({"packages": ["python=3.11"], "pip": ["alpha==9"]}, "E005", "alpha==9"),
        ({"packages": ["python=3.11", "pytorch=2.14"], "framework": "pytorch"}, "E008", "libcudart.so.13"),
    ],
)
@pytest.mark.usefixtures("once", "small")
def test_a_change_that_fails_leaves_the_former_environment_in_use(host, environments, wish, code, says):
    result = environments({"name": "small", **wish}, cuda="12.8", refused=True)
    assert result["refusal"]["code"] == code, result
    assert says in result["msg"]
    assert works(host)
    assert environments(SMALL)["changed"] is False


@pytest.mark.usefixtures("once", "small")
def test_a_lock_with_another_sha256_is_refused(host, environments, tmp_path):
    lock = re.sub(r"(six-\S+#)\w{8}", r"\g<1>00000000", host.file("/srv/conda/envs/small/gpulab.lock").content_string)
    (tmp_path / "lock").write_text(lock)
    result = environments({"name": "small", "lock": str(tmp_path / "lock")}, refused=True)
    assert result["refusal"]["code"] == "E003", result
    assert works(host)


@pytest.mark.usefixtures("once")
def test_micromamba_with_another_sha256_is_refused(host, environments):
    result = environments(SMALL, directory="/srv/tampered", micromamba_sha256="0" * 64, refused=True)
    assert result["refusal"]["code"] == "E014"
    assert not host.file("/srv/tampered").exists


@pytest.mark.usefixtures("once")
def test_micromamba_that_cannot_be_fetched_is_refused(host, environments, address):
    result = environments(SMALL, directory="/srv/tampered", micromamba_url=f"{address}/nothing", refused=True)
    assert result["refusal"]["code"] == "E013"
    assert not host.file("/srv/tampered").exists


@pytest.mark.usefixtures("once")
def test_another_installation_of_conda_is_left_alone(host, environments):
    host.check_output("mkdir --parents /srv/miniforge/conda-meta")
    assert environments(SMALL, directory="/srv/miniforge", refused=True)["refusal"]["code"] == "E017"
    assert host.file("/srv/miniforge").listdir() == ["conda-meta"]


@pytest.mark.usefixtures("once")
def test_a_full_disk_leaves_the_former_environment_in_use(host, environments):
    host.check_output("mkdir --parents /srv/full && mount -t tmpfs -o size=60m,mode=755 tmpfs /srv/full")
    try:
        wish = {"name": "small", "packages": ["hello=1.0"]}
        assert environments(wish, directory="/srv/full/conda")["changed"] is True
        result = environments({**wish, "packages": ["hello=1.0", "big"]}, directory="/srv/full/conda", refused=True)
        assert result["refusal"]["code"] == "E011", result
        assert "stays in use" in result["msg"]
        assert host.check_output("/srv/full/conda/envs/small/bin/hello").endswith(
            "/srv/full/conda/envs/.builds/small/1"
        )
    finally:
        environments(directory="/srv/full/conda", state="absent")
        host.check_output("umount /srv/full && rmdir /srv/full")


@pytest.mark.parametrize(
    ("damage", "because"),
    [
        ("rm {}/lib/python3.11/site-packages/six.py", "six.py no longer exists"),
        ("rm {}/conda-meta/six-1.16.0-0.json", "six-1.16.0-0.json no longer exists"),
        ("truncate --size=40 {}/conda-meta/six-1.16.0-0.json", "six-1.16.0-0.json is damaged"),
    ],
)
@pytest.mark.usefixtures("once")
def test_damage_is_repaired(host, environments, small, damage, because):
    host.check_output(damage.format(small))
    (change,) = environments(SMALL)["environments"]
    assert because in change["because"][0]
    assert works(host)
    assert environments(SMALL)["changed"] is False


@pytest.mark.usefixtures("small")
def test_an_environment_that_nobody_wishes_for_is_named_and_left_alone(host, environments):
    assert environments()["unlisted"] == ["small"]
    assert works(host)
    assert environments(state="absent", check=True)["environments"][0]["removed"]["six"] == "1.16.0 0"
    assert works(host)
    assert environments(state="absent")["changed"] is True
    assert not host.file("/srv/conda").exists
    assert environments(state="absent")["changed"] is False


@pytest.mark.usefixtures("once")
def test_a_release_whose_sha256_nobody_told_is_refused(host):
    status, output = converge(host, conda_micromamba_version="9.9.9-0", conda_micromamba_sha256="")
    assert status == 2
    assert "GPULAB-E015" in output
    assert host.file("/opt/conda/envs/vision").exists


def test_absent_leaves_the_node_as_it_was(host):
    """The last test."""
    host.check_output("mkdir --parents /home/admin/.conda/envs/own")
    status, output = converge(host, "--check", conda_state="absent")
    assert status == 0, output
    assert host.file("/opt/conda/bin/micromamba").exists
    status, output = converge(host, conda_state="absent")
    assert status == 0, output
    for path in ("/opt/conda", "/etc/conda", "/etc/profile.d/gpulab-conda.sh", "/root/.conda"):
        assert not host.file(path).exists, path
    assert host.file("/home/admin/.conda/envs/own").exists
    assert "changed=0" in converge(host, conda_state="absent")[1]
