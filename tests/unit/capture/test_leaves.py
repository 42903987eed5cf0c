"""What site.yml makes comes back, and what people put beside it does not vanish with it."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.capture import disks, leaves, look
from ansible_collections.gpulab.node.plugins.module_utils.capture.asked import Asked
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.disks import Disks
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.cuda import wheels
from ansible_collections.gpulab.node.plugins.plugin_utils import options
from ansible_collections.gpulab.node.plugins.plugin_utils.roles import leaves as declared

from unit.filled import typed

CATALOG = Path(__file__).parents[3] / "catalog"
NOTHING = SimpleNamespace(output=lambda: None, result=lambda: None)
BUILD, CONDA = "opt/venvs/.builds/pytorch/2", "opt/conda/envs/.builds/jax/1"
SITE = f"{BUILD}/lib/python3.11/site-packages"
PYTHON = "opt/venvs/.python/cpython-3.12.11-linux-x86_64-gnu"
TESTS = "opt/gpulab-nccl-tests/2.17.1"
RECEIPTS = {
    "base": ["file:/usr/local/share/ca-certificates/gpulab-0011.crt", "file:/etc/xdg/pip/pip.conf"],
    "conda": ["environment:/opt/conda/envs/jax"],
    "environments": [
        "environment:/opt/venvs/pytorch",
        "file:/usr/local/share/jupyter/kernels/venv-pytorch/kernel.json",
    ],
    "monitoring": ["file:/usr/local/lib/gpulab-monitoring/collect.py"],
    "nccl": ["file:/usr/local/bin/all_reduce_perf"],
}
# What a default site.yml leaves beside packages, and what its settings can add; each with no word of a user's.
MADE = (
    *(f"opt/venvs/.cache/{name}" for name in ("CACHEDIR.TAG", "archive-v0/x/torch/a.py", "simple-v28/pypi/six.rkyv")),
    *("opt/venvs/.cache/sdists-v11/.gitignore", "opt/venvs/.cache/.lock"),
    *(f"opt/venvs/.uv/0.13.9/{name}" for name in ("bin/uv", "bin/uvx", "uv/__init__.py", "uv-0.13.9.dist-info/RECORD")),
    *("opt/venvs/.work/pytorch/probe.py", "opt/venvs/.work/.uv/requirements.txt"),
    *(f"{BUILD}/{name}" for name in ("gpulab.lock", "bin/activate", "pyvenv.cfg", ".lock")),
    f"{SITE}/gpulab_variables.pth",
    *(f"{PYTHON}/{name}" for name in ("BUILD", "bin/python3.12", "lib/libpython3.12.so", "include/python3.12/a.h")),
    *(
        f"{PYTHON}/lib/python3.12/site-packages/{name}"
        for name in ("README.txt", "pip/a.py", "pip-25.1.dist-info/RECORD")
    ),
    "opt/venvs/.python/.lock",
    *("opt/conda/bin/micromamba", "opt/conda/envs/.micromamba", "opt/conda/envs/.cache/pkgs/x/info/index.json"),
    *(f"{CONDA}/gpulab.lock", f"{CONDA}/conda-meta/history"),
    *("root/.local/share/uv/credentials/credentials.toml.lock", "root/.cache/uv/x", "root/.ansible/tmp/x"),
    "usr/local/share/jupyter/kernels/venv-pytorch/kernel.json",
    *(
        "usr/local/lib/gpulab-monitoring/collect.py",
        "usr/local/lib/gpulab-monitoring/ansible_collections/__pycache__/a.pyc",
    ),
    *(f"{TESTS}/{name}" for name in ("Makefile", "src/all_reduce.cu", "build/all_reduce.o", "build/all_reduce_perf")),
    "usr/local/bin/all_reduce_perf",
    *("etc/profile.d/gpulab-cuda.sh", "etc/sysctl.d/90-gpulab.conf", "etc/gpulab/torchrun.sh"),
    *("etc/systemd/system/timers.target.wants/gpulab-metrics.timer", "etc/systemd/system/gpulab-proof@.service"),
    *(f"var/lib/gpulab/{name}" for name in ("packages.json", "holds.json", "docker-settings.json", "swap.json")),
    *("var/lib/gpulab/steps/nvidia-driver/log", "var/lib/gpulab/steps/nvidia-driver/programs/x"),
    *("var/lib/gpulab/runfile/driver.json", "var/lib/nvidia/log", "usr/lib/libcuda.so.580.95.05"),
    *("var/lib/gpulab/locks/x.lock", "var/lib/gpulab/restore/restored.json", "var/lib/gpulab/former/nvidia/x.deb"),
    "var/lib/prometheus/node-exporter/gpulab-proof.prom",
    *("usr/local/cuda-13.0/bin/nvcc", "usr/local/cuda-13.0/gpulab-wheels/nvcc-13.0.dist-info/METADATA"),
    "swapfile8",
)
# What somebody put below a tree that gpulab made, or beside it by a name like gpulab's.
FOREIGN = (
    "opt/venvs/notes.txt",
    "opt/venvs/.cache/thesis.tex",
    "opt/venvs/.uv/0.13.9/notes.txt",
    "opt/venvs/.builds/notes.txt",
    "opt/venvs/.builds/pytorch/notes.txt",
    f"{BUILD}/analysis.ipynb",
    f"{BUILD}/bin/mine",
    f"{SITE}/extra/__init__.py",
    f"{SITE}/extra-1.0.dist-info/METADATA",
    f"{SITE}/mine.py",
    f"{PYTHON}/notes.txt",
    f"{PYTHON}/lib/python3.12/site-packages/mine.py",
    "opt/conda/envs/notes.txt",
    "opt/conda/notes.txt",
    f"{CONDA}/results.csv",
    f"{CONDA}/conda-meta/extra-1.0-0.json",
    f"{TESTS}/results.txt",
    "opt/gpulab-nccl-tests/results.txt",
    "opt/gpulab/model.bin",
    "usr/local/lib/gpulab-monitoring/mine.py",
    "usr/local/lib/gpulab-own/program.py",
    "usr/lib/gpulab/program.py",
    "usr/local/bin/cuda-compat",
    "usr/local/cuda-13.0/include/cudnn.h",
    "usr/local/cuda-13.0/notes/a",
    "usr/local/.gpulab-strays/cuda-11.8/bin/nvcc",
    "usr/local/share/jupyter/kernels/venv-mine/kernel.json",
    "var/lib/gpulab/dump.sql",
    "var/lib/gpulab/receipts/notes.txt",
    "var/lib/gpulab/gpu-settings.json",
    "var/lib/gpulab/secure-boot.json",
    "var/lib/gpulab/cuda-strays.json",
    "var/lib/gpulab/steps/notes.txt",
    "var/lib/slurm/slurmctld/job_state",
    "var/lib/prometheus/metrics2/wal/0",
    "var/backups/gpulab-slurm/database.sql.gz",
    "etc/cron.d/gpulab-backup",
    "etc/gpulab/own.conf",
    "etc/systemd/system/gpulab-own.service",
    "etc/ssl/certs/gpulab-own.pem",
    "etc/hosts",
    "etc/slurm/slurm.conf",
    "etc/prometheus/gpulab/targets/own.yml",
    "etc/docker/daemon.json",
    "root/.local/share/uv/credentials/credentials.toml",
    "root/.local/share/uv/tools/ruff/bin/ruff",
)


def put(root, path, text="x"):
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def package(root, site, name):
    """Install a package of one module, as pip records it."""
    put(root, f"{site}/{name}/__init__.py", "x")
    put(root, f"{site}/{name}-1.0.dist-info/METADATA", f"Name: {name}\nVersion: 1.0\n")
    put(
        root,
        f"{site}/{name}-1.0.dist-info/RECORD",
        f"{name}/__init__.py,,1\n{name}-1.0.dist-info/METADATA,,\n{name}-1.0.dist-info/RECORD,,\n",
    )


def of_conda(root, name):
    record = {"name": name, "version": "1.0", "url": f"https://conda/{name}.conda", "files": [f"share/{name}"]}
    put(root, f"{CONDA}/share/{name}")
    put(root, f"{CONDA}/conda-meta/{name}-1.0-0.json", json.dumps(record))


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Return a node as site.yml leaves it."""
    for path in MADE:
        put(tmp_path, path)
    put(tmp_path, "etc/passwd", "root:x:0:0::/root:/bin/bash\n")
    put(tmp_path, f"{BUILD}/bin/activate", "hash -r 2>/dev/null\n")
    package(tmp_path, SITE, "torch")
    of_conda(tmp_path, "jaxlib")
    put(tmp_path, f"{BUILD}/gpulab.json", json.dumps({"fingerprint": "a", "names": ["torch", "torch-1.0.dist-info"]}))
    names = ["conda-meta/jaxlib-1.0-0.json", "share"]
    put(tmp_path, f"{CONDA}/gpulab.json", json.dumps({"fingerprint": "a", "names": names, "sizes": {}}))
    for link, target in (("opt/venvs/pytorch", ".builds/pytorch/2"), ("opt/conda/envs/jax", ".builds/jax/1")):
        (tmp_path / link).symlink_to(target)
    put(
        tmp_path, "usr/local/cuda-13.0/gpulab-wheels/nvcc-13.0.dist-info/RECORD", f"{wheels.TREE}/bin/nvcc,sha256=a,1\n"
    )
    put(tmp_path, "usr/local/cuda-13.0/gpulab.json", '{"requirements": []}')
    put(
        tmp_path,
        "var/lib/nvidia/log",
        "1.0-1 (580.95.05)\nNVIDIA\n1: /lib/libcuda.so.580.95.05\n12345\n0: /usr/lib/a\nb\n",
    )
    (tmp_path / "lib").symlink_to("usr/lib")
    for role, items in RECEIPTS.items():
        receipt = {"schema": 1, "inputs": {}, "sealed": True, "items": dict.fromkeys(items, "x")}
        put(tmp_path, f"var/lib/gpulab/receipts/{role}.json", json.dumps(receipt))
    put(tmp_path, "proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")
    monkeypatch.setattr(disks, "read", lambda _node: typed({"walked": ["/"]}, Disks))
    return tmp_path


def found(root, **values):
    """Return what the capture of a node has: (left over, captured, environments), paths without the first slash."""
    catalog = {name: yaml.safe_load((CATALOG / f"{name}.yml").read_text())[name] for name in ("captured", "ephemeral")}
    values = {"tuning_swap": "/swapfile8", **values}
    asked = {**catalog, "leaves": declared.on_host(options.Values(values.get)), "largest": 1 << 20}
    result = look.look(Node(root, lambda _argv: NOTHING), typed(json.loads(json.dumps(asked, default=str)), Asked))
    left = {one["path"][1:] for one in result["remainder"]} - {"proc/self/mountinfo"}
    captured = {one["path"][1:] for one in result["files"] if one["kind"] != "directory"}
    return left, captured - {"etc/passwd", "lib"}, [one["path"] for one in result["sections"]["environments"]]


def is_named(path, left):
    return any(path == one or path.startswith(f"{one}/") for one in left)


def test_nothing_that_site_makes_is_left_over_or_captured(root):
    left, captured, environments = found(root)
    assert left == set()
    assert captured == set()
    assert environments == [], "an environment of gpulab's is none of a user's"


@pytest.mark.parametrize("path", FOREIGN)
def test_what_somebody_put_there_does_not_vanish_as_gpulabs(root, path):
    text = (
        json.dumps({"name": "extra", "version": "1.0", "url": "https://conda/extra.conda"}) if "json" in path else "x"
    )
    put(root, path, text)
    left, captured, _environments = found(root)
    assert path in captured or is_named(path, left)


def test_a_package_that_somebody_added_to_an_environment_of_gpulabs_is_named(root):
    package(root, SITE, "extra")
    of_conda(root, "added")
    left, _captured, _environments = found(root)
    added = (f"{SITE}/extra/__init__.py", f"{SITE}/extra-1.0.dist-info/METADATA", f"{CONDA}/share/added")
    assert [path for path in (*added, f"{CONDA}/conda-meta/added-1.0-0.json") if not is_named(path, left)] == []


def test_a_file_that_somebody_edited_is_named(root):
    late = (root / "usr/local/cuda-13.0/gpulab.json").stat().st_mtime + 60
    (root / f"{SITE}/torch/__init__.py").write_text("edited")
    os.utime(root / "usr/lib/libcuda.so.580.95.05", (late, late))
    os.utime(root / "usr/local/cuda-13.0/gpulab.json", (1, 1))
    left, _captured, _environments = found(root)
    assert {f"{SITE}/torch/__init__.py", "usr/lib/libcuda.so.580.95.05", "usr/local/cuda-13.0/bin/nvcc"} <= left


def test_a_driver_that_somebody_else_installed_from_a_run_file_is_named(root):
    (root / "var/lib/gpulab/runfile/driver.json").unlink()
    assert "usr/lib/libcuda.so.580.95.05" in found(root)[0]


def test_an_environment_that_gpulab_did_not_make_is_a_users(root):
    for place in ("opt/venvs/mine", "opt/venvs/.builds/mine/1"):
        put(root, f"{place}/pyvenv.cfg", "home = /usr/bin\n")
        put(root, f"{place}/thesis.ipynb")
        package(root, f"{place}/lib/python3.11/site-packages", "torch")
        (root / place / "bin").mkdir()
    left, _captured, environments = found(root)
    assert environments == ["/opt/venvs/.builds/mine/1", "/opt/venvs/mine"]
    assert {"opt/venvs/mine/thesis.ipynb", "opt/venvs/.builds/mine/1/thesis.ipynb"} <= left


def test_a_directory_at_the_place_of_an_environments_link_is_somebodys(root):
    (root / "opt/venvs/pytorch").unlink()
    put(root, "opt/venvs/pytorch/thesis.tex")
    assert "opt/venvs/pytorch/thesis.tex" in found(root)[0]


def test_a_directory_that_the_lab_sets_is_gpulabs_and_the_default_then_is_not(root):
    put(root, "srv/envs/.cache/archive-v0/x")
    left, _captured, _environments = found(root, environments_directory="/srv/envs/")
    assert "srv/envs/.cache/archive-v0/x" not in left
    assert "opt/venvs/.cache" in left


def test_a_link_that_no_receipt_names_is_somebodys(root):
    receipt = {"schema": 1, "inputs": {}, "sealed": True, "items": {}}
    put(root, "var/lib/gpulab/receipts/nccl.json", json.dumps(receipt))
    assert "usr/local/bin/all_reduce_perf" in found(root)[1]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/opt/x/**", ["/opt/x/**"]),
        ("{environment}", ["/opt/v[*]/a", "/opt/b"]),
        ("{builds}/*/x", ["/opt/v[*]/.builds/a/*/x", "/opt/.builds/b/*/x"]),
        ("{file:/usr/**/p*}", ["/usr/local/lib/p"]),
        ("{file:/usr/*/p*}", []),
    ],
)
def test_a_pattern_is_for_each_item_of_the_roles_own_receipt(path, expected):
    items = {
        "r": ["environment:/opt/v*/a", "environment:/opt/b", "file:/usr/local/lib/p", "unit:x"],
        "s": ["file:/usr/x/p"],
    }
    assert leaves.rules([leaves.Leaf("r", "cache", [path])], items) == [(pattern, "cache") for pattern in expected]
