"""Users' environments from their locks: what is made, by what, and what is told of the rest."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture import environments
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.environments import Environment, OwnPackage
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import software_environments as made

VENV = Environment(
    path="/home/li/venv",
    kind="venv",
    owner="li",
    python="3.11.2",
    home="/usr/bin",
    settings={"include-system-site-packages": "false"},
    project="",
    lock=["pip==23.0.1", "setuptools==66.1.1", "six==1.17.0", "torch==2.9.0+cu128"],
    own=[],
    unreadable=[],
)
CONDA = replace(
    VENV,
    path="/home/li/miniconda3/envs/fold",
    kind="conda",
    home="",
    lock=["@EXPLICIT", "https://example.org/noarch/six-1.17.0-py_0.conda#abc", "# pip einops==0.8.0"],
)


@pytest.fixture
def node(tmp_path):
    for path in ("usr/bin/python3.11", "opt/conda/bin/micromamba"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    return Node(tmp_path)


def names(found):
    return [one["name"] for one in found]


def test_one_that_is_not_there_is_made(node):
    assert made.look(node, VENV) == (True, [])
    assert made.look(node, CONDA) == (True, [])


def upgraded(tmp_path):
    """Give the node the system's Python of another release."""
    (tmp_path / "usr/bin/python3.11").rename(tmp_path / "usr/bin/python3.13")
    (tmp_path / "usr/bin/python3").write_text("")


def test_an_environment_of_the_former_systems_python_is_made_by_the_new_one(node, tmp_path):
    upgraded(tmp_path)
    assert made.look(node, VENV) == (True, [])
    text = made.script(node, VENV, [])
    assert "/usr/bin/python3 -m venv /home/li/venv" in text
    assert "\nsix==1.17.0\n" in text
    assert "pip==" not in text, "pip 23.0 does not run on Python 3.13"
    assert "setuptools==" not in text


def test_it_is_said_which_python_made_it_instead(node, tmp_path):
    there(tmp_path, ("pip", "25.0"), ("six", "1.17.0"), ("torch", "2.9.0+cu128"), python="3.13.5")
    upgraded(tmp_path)
    make, (told,) = made.look(node, VENV)
    assert not make
    assert told["name"] == "/home/li/venv: Python 3.11.2"
    assert told["why"] == "the environment was made by Python 3.13.5 of this system"


def test_one_on_a_kept_disk_whose_python_is_gone_is_named_and_left(node, tmp_path):
    there(tmp_path, ("pip", "23.0.1"), ("setuptools", "66.1.1"), ("six", "1.17.0"), ("torch", "2.9.0+cu128"))
    upgraded(tmp_path)
    make, (told,) = made.look(node, VENV)
    assert not make
    assert told["name"] == "/home/li/venv: Python 3.11.2"
    assert told["why"].startswith("the environment needs it in /usr/bin, which does not have it")


def test_another_python_than_the_systems_is_not_replaced(node, tmp_path):
    upgraded(tmp_path)
    make, missing = made.look(node, replace(VENV, home="/opt/python/bin"))
    assert not make
    assert [one["why"] for one in missing] == ["its Python 3.11.2 of /opt/python/bin is not on the node"]


def test_without_micromamba_the_role_that_brings_it_is_named(node, tmp_path):
    (tmp_path / "opt/conda/bin/micromamba").unlink()
    make, (told,) = made.look(node, CONDA)
    assert not make
    assert "gpulab.node.conda" in told["why"]


def there(tmp_path, *packages, python="3.11.2"):
    at = tmp_path / "home/li/venv"
    site = at / f"lib/python{python.rpartition('.')[0]}/site-packages"
    for name, version in packages:
        info = site / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n\n")
    (at / "bin").mkdir()
    (at / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {python}\n")


def test_one_that_is_there_is_left_and_what_it_lacks_is_told(node, tmp_path):
    there(tmp_path, ("pip", "23.0.1"), ("setuptools", "66.1.1"), ("six", "1.16.0"))
    make, missing = made.look(node, VENV)
    assert not make
    assert names(missing) == ["/home/li/venv: six==1.17.0", "/home/li/venv: torch==2.9.0+cu128"]
    assert missing[0]["why"] == "the environment has six==1.16.0"


def test_one_whose_making_was_cut_off_is_made_again(node, tmp_path):
    there(tmp_path, ("pip", "23.0.1"))
    (tmp_path / "home/li/.venv.gpulab-rebuild").write_text("")
    assert made.look(node, VENV)[0]


def test_packages_that_no_lock_brings_back_are_told(node, tmp_path):
    (tmp_path / "home/li/code").mkdir(parents=True)
    own = OwnPackage("mine", "0.1", "/home/li/code", editable=True, why="its source lies there")
    lost = replace(own, name="old", path="/root/old.whl", editable=False, why="it was installed from there")
    hidden = "lab @ https://***@example.org/lab.whl"
    make, missing = made.look(node, replace(VENV, own=[own, lost], lock=[*VENV.lock, hidden]))
    assert make
    assert names(missing) == ["/home/li/venv: mine 0.1", "/home/li/venv: old 0.1", "/home/li/venv: lab"]
    assert missing[0]["why"].endswith("pip install -e /home/li/code")
    assert "***" not in made.script(node, replace(VENV, lock=[hidden]), [])


def test_a_script_is_of_the_same_python_at_the_same_path(node):
    text = made.script(node, VENV, ["https://example.org/whl/cu128"])
    assert "/usr/bin/python3.11 -m venv /home/li/venv" in text
    assert "--extra-index-url=https://example.org/whl/cu128" in text
    assert "\nsix==1.17.0\n" in text
    assert text.endswith("rm /home/li/.venv.gpulab-rebuild")
    assert "uninstall --yes wheel" in text, "the venv of old Pythons brings it"


def test_the_settings_of_a_venv_come_back(node):
    settings = {"include-system-site-packages": "true", "prompt": "'fold'"}
    assert "--system-site-packages --prompt=fold" in made.script(node, replace(VENV, settings=settings), [])


def test_a_conda_environment_is_of_its_explicit_lock_and_then_of_pips(node):
    text = made.script(node, CONDA, [])
    create, _lines, pip = text.partition("micromamba create")
    assert "https://example.org/noarch/six-1.17.0-py_0.conda#abc" in create
    assert "einops==0.8.0" in pip
    assert "# pip" not in text


def test_a_lock_can_be_asked_for_before_the_disk_is_wiped(node):
    text = made.check_script(node, VENV, [])
    assert "--dry-run --ignore-installed" in text
    assert "pip==" not in text
    assert made.check_script(node, CONDA, []) == ""
    assert made.addresses(CONDA) == ["https://example.org/noarch/six-1.17.0-py_0.conda"]
    assert made.addresses(VENV) == []


def really_made(tmp_path, python, home):
    """Make a real environment of a captured one that this Python made; return the record, and what is there."""
    path, file = str(tmp_path / "venv"), tmp_path / "script"
    record = replace(VENV, path=path, owner="root", home=home, python=python, lock=[], settings={})
    file.write_text(made.script(Node(), record, []))
    done = subprocess.run(made.as_user("root", "/root", str(file)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Node().names(str(tmp_path)) == ["script", "venv"]
    return record, environments.at(path, Node().names(path)).record


@pytest.mark.slow
def test_a_real_one_comes_back(tmp_path):
    home = str(Path(sys.executable).resolve().parent)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not Path(home, f"python{version}").exists():
        pytest.skip("this Python has no program of its version")
    record, found = really_made(tmp_path, f"{version}.0", home)
    assert (found.home, found.lock) == (home, [])
    assert made.look(Node(), record) == (False, [])


@pytest.mark.slow
def test_a_real_one_of_an_older_release_comes_back_by_this_ones_python(tmp_path):
    if subprocess.run([made.SYSTEM_PYTHON, "-c", "import ensurepip"], capture_output=True, check=False).returncode:
        pytest.skip("the system's Python makes no environments")
    record, found = really_made(tmp_path, "3.7.3", "/usr/bin")
    make, (told,) = made.look(Node(), record)
    assert not make
    assert told["why"] == f"the environment was made by Python {found.python} of this system"
