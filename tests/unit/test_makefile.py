"""The Makefile's targets can be run: what they call is there."""

import re
import subprocess
from pathlib import Path
from shutil import which

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(
    set(re.findall(r"\b(?:lab|tests)/[\w/]+\.(?:sh|py)\b", (ROOT / "Makefile").read_text(encoding="utf-8")))
)


@pytest.mark.parametrize("path", PROGRAMS)
def test_what_a_target_runs_is_there(path):
    assert (ROOT / path).is_file()


def test_the_set_up_asks_for_python3_venv_where_python_cannot_make_environments(tmp_path):
    for name in ("sh", "dirname", "sort", "tr", "sed", "id"):
        (tmp_path / name).symlink_to(which(name))
    for name, script in {"docker": "exit 0", "python3": "exit 1"}.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)
    run = subprocess.run(
        ["sh", ROOT / "lab/setup.sh"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "python3-venv" in run.stderr.split()


def test_the_set_up_asks_for_a_package_by_its_program_or_by_a_file_of_it(tmp_path):
    for name in ("sh", "dirname", "sort", "tr", "sed", "id"):
        (tmp_path / name).symlink_to(which(name))
    (tmp_path / "there").touch()
    pairs = [f"{tmp_path}/there:has-it", f"{tmp_path}/gone:lacks-it", "no-such-program:lacks-that"]
    argv = ["sh", ROOT / "lab/setup.sh", *pairs]
    run = subprocess.run(argv, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert {"lacks-it", "lacks-that"} <= set(run.stderr.split())
    assert "has-it" not in run.stderr


def test_what_the_readme_installs_from_is_there():
    named = set(re.findall(r"pip install -r (\S+)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert named == {"requirements/run.txt"}
    assert all((ROOT / path).is_file() for path in named)


def test_what_a_node_of_the_lab_downloads_outlives_the_lab_and_its_hosts_a_boot(tmp_path):
    """lab/down.yml removes the volumes that have the lab's name in their label."""
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/log\necho "$1"\n', encoding="utf-8")
    docker.chmod(0o755)
    (tmp_path / "key").touch()
    node = "one=image=/srv/data,/var/cache/apt/archives,/etc/hosts"
    argv = ["sh", ROOT / "lab/nodes.sh", "lab", "172.30.1", tmp_path / "key", node]
    subprocess.run(argv, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True, capture_output=True)
    log = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert "volume create --label gpulab=lab lab-one-data" in log
    assert "volume create --label gpulab lab-one-archives" in log
    assert (tmp_path / "hosts.lab-one").read_text(encoding="utf-8") == "127.0.0.1 localhost\n172.30.1.10 one\n"
    assert any(f"--volume {tmp_path}/hosts.lab-one:/etc/hosts" in line for line in log)


def test_labs_that_run_beside_each_other_have_networks_of_their_own():
    start = yaml.safe_load((ROOT / "lab/up.yml").read_text(encoding="utf-8"))[0]["vars"]
    labs = ["gpulab", "gpulab-bench"]
    labs += [f"gpulab-{path.parent.name.replace('_', '-')}" for path in ROOT.glob("molecule/*/molecule.yml")]
    labs += [path.stem.replace("test_", "gpulab-test-").replace("_", "-") for path in ROOT.glob("tests/lab/test_*.py")]

    def network(lab):
        variables = {"lab_name": lab, "lab_number": trust_as_template(start["lab_number"])}
        return Templar(DataLoader(), variables).template(trust_as_template(start["lab_subnet"]))

    found = [network(lab) for lab in labs]
    assert all(re.fullmatch(r"172\.(2[4-9]|3[01])\.\d{1,3}", subnet) for subnet in found)
    assert len(set(found)) == len(labs)


def test_a_lab_says_where_its_time_went(tmp_path):
    """Each phase that took five seconds, from the first one on, and what the nodes compiled beside it."""
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\n[ "$1" = ps ] && echo one || echo "110 150 beside it, one compiles the driver"\n')
    docker.chmod(0o755)
    timeline = tmp_path / "timeline"
    timeline.write_text("107 111 base\n111 175 nvidia_driver\n", encoding="utf-8")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "LAB_TIMELINE": str(timeline)}
    program = ["sh", ROOT / "lab/timeline.sh"]
    subprocess.run([*program, "set-up", "true"], env=environment, check=True)
    assert timeline.read_text(encoding="utf-8").endswith(" set-up\n")
    timeline.write_text("100 107 set-up\n107 111 base\n111 175 nvidia_driver\n", encoding="utf-8")
    said = subprocess.run(program, env=environment, check=True, capture_output=True, text=True).stdout
    assert [" ".join(line.split()) for line in said.splitlines()] == [
        "0 s to 7 s 7 s set-up",
        "10 s to 50 s 40 s beside it, one compiles the driver",
        "11 s to 75 s 64 s nvidia_driver",
        "make lab took 1 min 15 s",
    ]
