"""The artefact that ansible-galaxy builds of the checkout."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
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


def test_it_holds_nothing_of_an_operators(tmp_path):
    checkout = tmp_path / "checkout"
    for path in tracked():
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, checkout / path, follow_symlinks=False)
    for path in OPERATORS:
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        (checkout / path).write_text("serial numbers", encoding="utf-8")
    galaxy = Path(sys.executable).with_name("ansible-galaxy")
    subprocess.run([galaxy, "collection", "build", "--output-path", tmp_path], cwd=checkout, check=True)
    (artefact,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(artefact) as archive:
        shipped = {member.name for member in archive if member.isfile()} - MADE_BY_THE_BUILD
    assert {"README.md", "meta/runtime.yml"} <= shipped
    assert shipped <= tracked()
    assert not [path for path in shipped if path.startswith("changelogs/fragments/")]


def test_what_an_execution_environment_needs_is_shipped():
    named = yaml.safe_load((ROOT / "meta/execution-environment.yml").read_text())["dependencies"].values()
    assert set(named) <= tracked()
    assert (ROOT / "meta/ee-requirements.txt").read_text().split() == ["rich"]
