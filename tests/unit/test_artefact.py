"""The artefact that ansible-galaxy builds of the checkout."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
INVENTORY = "[gpu_nodes:children]\nworkstations\n[workstations]\nnode07 ansible_connection=local\n"
MADE_BY_THE_BUILD = {"FILES.json", "MANIFEST.json"}
OPERATORS = (  # what runs leave in a checkout, and what README.md has operators put there
    "reports/latest/report.json",
    "locks/node07/vision.lock",
    "files/proxy-ca.pem",
    "media/gpulab.iso",
    "targets/node07.json",
    "inventory/group_vars/all.yml",
    "gpulab-node-0.1.0.tar.gz",
    "changelogs/.plugin-cache.yaml",
)


def tracked():
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {path for path in listing.split("\0") if (ROOT / path).is_file()}


@pytest.fixture(scope="module")
def artefact(tmp_path_factory):
    """Return the artefact of this checkout, with an operator's files in it."""
    directory = tmp_path_factory.mktemp("artefact")
    checkout = directory / "checkout"
    for path in tracked():
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, checkout / path, follow_symlinks=False)
    for path in OPERATORS:
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        (checkout / path).write_text("serial numbers", encoding="utf-8")
    galaxy = Path(sys.executable).with_name("ansible-galaxy")
    subprocess.run([galaxy, "collection", "build", "--output-path", directory], cwd=checkout, check=True)
    (built,) = directory.glob("*.tar.gz")
    return built


def test_it_holds_nothing_of_an_operators(artefact):
    with tarfile.open(artefact) as archive:
        shipped = {member.name for member in archive if member.isfile()} - MADE_BY_THE_BUILD
    assert {"README.md", "meta/runtime.yml"} <= shipped
    assert shipped <= tracked()
    assert not [path for path in shipped if path.startswith("changelogs/fragments/")]


@pytest.mark.slow
def test_once_installed_it_previews_a_node_by_its_name(artefact, tmp_path):
    """docs/collection.md: without a checkout, its ansible.cfg and its inventory."""
    programs = Path(sys.executable).parent
    settings = {"PATH": f"{programs}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    galaxy = [programs / "ansible-galaxy", "collection", "install", "--offline", artefact]
    subprocess.run(galaxy, cwd=tmp_path, env=settings, check=True)
    (tmp_path / "hosts").write_text(INVENTORY, encoding="utf-8")
    argv = [programs / "ansible-playbook", "-i", "hosts", "gpulab.node.plan"]
    done = subprocess.run(argv, cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)
    assert "1 of 1 hosts: REFUSED" in done.stdout, done.stdout + done.stderr  # this machine has no GPU
    assert "GPULAB-" in done.stdout


def test_what_an_execution_environment_needs_is_shipped():
    named = yaml.safe_load((ROOT / "meta/execution-environment.yml").read_text())["dependencies"].values()
    assert set(named) <= tracked()
    assert (ROOT / "meta/ee-requirements.txt").read_text().split() == ["rich"]


def test_the_example_of_an_execution_environment_takes_this_artefact():
    example = yaml.safe_load((ROOT / "examples/execution-environment.yml").read_text(encoding="utf-8"))
    (added,), (collection,) = example["additional_build_files"], example["dependencies"]["galaxy"]["collections"]
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
    assert added["src"] == f"../gpulab-node-{galaxy['version']}.tar.gz"
    assert collection["name"] == f"{added['dest']}/{added['src'].removeprefix('../')}"
