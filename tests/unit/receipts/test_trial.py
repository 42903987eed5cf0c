"""A trial of the software holds while nothing of what it depends on changes, and not a moment longer."""

import copy
import json
import os
import shutil
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.receipts import trial

from unit import machines

FACTS = machines.machine()
TOOLKIT = {"version": "12.8", "prefix": "/usr/local/cuda-12.8", "host_compiler": "/opt/gcc/bin/g++"}
ASKED = trial.Asked("/opt/venvs", "/opt/conda", True, [TOOLKIT], ["8.9"], True)  # noqa: FBT003 - as in the record
FILES = (
    *trial.FILES,
    "opt/gcc/bin/g++",
    "usr/local/cuda-12.8/bin/nvcc",
    "usr/local/cuda-12.8/nvvm/bin/cicc",
    "usr/lib/nvidia-cuda-toolkit/bin/cicc",
    "opt/pythons/3.11/bin/python3",
    "opt/pythons/3.11/lib/json.py",
    "opt/builds/lab/gpulab.json",
    "opt/builds/lab/lib/torch/libtorch.so",
    "opt/builds/lab/lib/torch/__pycache__/nn.pyc",
    "opt/conda/builds/old/lib/numpy.py",
)


@pytest.fixture
def root(tmp_path):
    for name in FILES:
        file = tmp_path / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    links = {"opt/venvs/lab": "opt/builds/lab", "opt/conda/envs/old": "opt/conda/builds/old"}
    links["opt/builds/lab/bin/python"] = "opt/pythons/3.11/bin/python3"
    for link, target in links.items():
        (tmp_path / link).parent.mkdir(exist_ok=True)
        (tmp_path / link).symlink_to(tmp_path / target)
    return tmp_path


def watched(root, facts=FACTS, asked=ASKED):
    return trial.Watch(Node(root), asked).digest(trial.of_facts(facts))


@pytest.mark.parametrize(
    "file",
    [
        "var/lib/dpkg/status",
        "var/lib/rpm/rpmdb.sqlite",
        "etc/ld.so.cache",
        "etc/docker/daemon.json",
        "run/docker.pid",
        "run/containerd/containerd.sock",
        "opt/gcc/bin/g++",
        "usr/local/cuda-12.8/bin/nvcc",
        "usr/local/cuda-12.8/nvvm/bin/cicc",
        "opt/pythons/3.11/bin/python3",
        "opt/pythons/3.11/lib/json.py",
        "opt/builds/lab/gpulab.json",
        "opt/builds/lab/lib/torch/libtorch.so",
        "opt/conda/builds/old/lib/numpy.py",
    ],
)
@pytest.mark.parametrize("what", ["edited, with size and time as before", "removed", "other rights"])
def test_a_file_that_changed_ends_it(root, file, what):
    before = watched(root)
    if what == "removed":
        (root / file).unlink()
    elif what == "other rights":
        (root / file).chmod(0o700)
    else:
        times = (root / file).stat()
        (root / file).write_text((root / file).read_text()[::-1])
        os.utime(root / file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert watched(root) not in (before, None)


@pytest.mark.parametrize("place", ["opt/builds/lab/lib/torch/more.py", "opt/builds/lab/lib/sitecustomize.py"])
def test_a_file_that_came_ends_it(root, place):
    before = watched(root)
    (root / place).touch()
    assert watched(root) != before


def test_another_build_and_another_environment_end_it(root):
    before = watched(root)
    shutil.copytree(root / "opt/builds/lab", root / "opt/builds/new", symlinks=True)
    (root / "opt/venvs/new").symlink_to(root / "opt/builds/new")
    more = watched(root)
    (root / "opt/venvs/lab").unlink()
    (root / "opt/venvs/lab").symlink_to(root / "opt/builds/new")
    assert len({before, more, watched(root)}) == 3


def test_compiled_python_does_not_end_it(root):
    before = watched(root)
    (root / "opt/builds/lab/lib/torch/__pycache__/nn.pyc").write_text("compiled anew")
    (root / "opt/builds/lab/lib/__pycache__").mkdir()
    assert watched(root) == before


def test_what_reading_leaves_does_not_end_it(root):
    before = watched(root)
    os.utime(root / "opt/builds/lab/lib")
    assert watched(root) == before


def test_debians_toolkit_is_watched_where_it_lies(root):
    asked = replace(ASKED, toolkits=[{"version": "11.8", "prefix": "/usr"}])
    before = watched(root, asked=asked)
    (root / "usr/lib/nvidia-cuda-toolkit/bin/cicc").unlink()
    assert watched(root, asked=asked) != before


@pytest.mark.parametrize(
    ("named", "watched_name"), [(None, "gcc"), (None, "g++"), ("g++-12", "g++-12"), ("/opt/gcc/bin/g++", None)]
)
def test_the_compiler_that_nvcc_takes_ends_it_wherever_a_link_leads_then(root, named, watched_name):
    asked = replace(ASKED, toolkits=[{**TOOLKIT, "host_compiler": named}])
    file = root / (f"usr/bin/{watched_name}" if watched_name else "opt/gcc/bin/g++")
    file.parent.mkdir(parents=True, exist_ok=True)
    for name in ("12", "14"):
        (root / name).write_text(name)
    file.unlink(missing_ok=True)
    file.symlink_to(root / "12")
    before = watched(root, asked=asked)
    file.unlink()
    file.symlink_to(root / "14")
    other = watched(root, asked=asked)
    file.unlink()
    assert len({before, other, watched(root, asked=asked)}) == 3


@pytest.mark.parametrize("lib", ["lib", "lib64"])
def test_the_library_of_an_interpreter_that_shares_its_prefix_is_watched(root, lib, monkeypatch):
    prefix = root / "usr/local"
    monkeypatch.setattr(trial, "SHARED", (str(prefix),))
    for file in ("bin/python3.12", f"{lib}/python3.12/json.py"):
        (prefix / file).parent.mkdir(parents=True, exist_ok=True)
        (prefix / file).touch()
    (root / "opt/builds/lab/bin/python").unlink()
    (root / "opt/builds/lab/bin/python").symlink_to(prefix / "bin/python3.12")
    before = watched(root)
    (prefix / "share").mkdir()
    (prefix / "share/of_others").touch()
    assert watched(root) == before
    (prefix / lib / "python3.12/json.py").unlink()
    assert watched(root) not in (before, None)


def test_without_the_builds_there_is_nothing_to_go_by(root):
    shutil.rmtree(root / "opt/builds")
    assert watched(root) is None


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("system", "boot_id", "another"),
        ("system", "kernel", "6.1.0-51-amd64"),
        ("nvml", "state", "mismatch"),
        ("nvml", "driver_version", "580.1"),
        ("nvml", "gpus", []),
        ("pci", "gpus", []),
        ("driver", "library", "580.1"),
        ("modules", "nvidia", {"loaded": True, "version": "580.1"}),
        ("engines", "docker", "28.0"),
        ("libraries", "cudnn", ["9.1"]),
        ("containers", "cdi", ["/etc/cdi/nvidia.yaml"]),
        ("cuda", "default", "/usr/local/cuda-12.8"),
    ],
)
def test_a_fact_that_changed_ends_it(root, section, name, value):
    facts = copy.deepcopy(FACTS)
    facts["nvml"]["gpus"] = [{"uuid": "GPU-1"}]
    before = watched(root, facts)
    facts[section][name] = value
    assert watched(root, facts) != before


def test_what_is_measured_does_not_end_it(root):
    facts = copy.deepcopy(FACTS)
    facts["nvml"]["gpus"] = [{"uuid": "GPU-1", "temperature": 40}]
    before = watched(root, facts)
    facts["nvml"]["gpus"][0]["temperature"] = 80
    assert watched(root, facts) == before


def test_a_trial_is_kept_and_one_that_failed_takes_it_away(root):
    node = Node(root)
    trial.keep(node, ASKED, {"gpulab_environments": []}, "digest")
    last = trial.last(node)
    assert (last.asked, last.watched, last.found) == (ASKED, "digest", {"gpulab_environments": []})
    assert (root / trial.RECORD.lstrip("/")).stat().st_mode & 0o777 == 0o600
    trial.keep(node, ASKED, None, "digest")
    assert trial.last(node) is None


@pytest.mark.parametrize(("days", "holds"), [(0, True), (6.9, True), (7.1, False), (-0.1, False)])
def test_a_trial_does_not_hold_for_ever(root, days, holds):
    trial.keep(Node(root), ASKED, {}, "digest")
    record = root / trial.RECORD.lstrip("/")
    at = datetime.now(tz=timezone.utc) - timedelta(days=days)
    record.write_text(json.dumps({**json.loads(record.read_text()), "at": at.isoformat(timespec="seconds")}))
    assert (trial.last(Node(root)) is not None) is holds


@pytest.mark.parametrize("at", ["", "yesterday", "2026-11-28T02:00:00"])
def test_a_trial_of_no_known_time_does_not_hold(root, at):
    trial.keep(Node(root), ASKED, {}, "digest")
    record = root / trial.RECORD.lstrip("/")
    record.write_text(json.dumps({**json.loads(record.read_text()), "at": at}))
    assert trial.last(Node(root)) is None


@pytest.mark.parametrize("spoil", ["rights", "content", "owner", "link"])
def test_a_record_that_others_may_have_written_does_not_count(root, spoil, monkeypatch):
    node, record = Node(root), root / trial.RECORD.lstrip("/")
    trial.keep(node, ASKED, {}, "digest")
    if spoil == "rights":
        record.chmod(0o666)
    elif spoil == "content":
        record.write_text("{}")
    elif spoil == "link":
        record.rename(record.with_suffix(".real"))
        record.symlink_to(record.with_suffix(".real"))
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert trial.last(node) is None


@pytest.mark.parametrize(
    ("change", "covered"),
    [
        ({}, True),
        ({"gpus": False}, True),
        ({"directory": "/srv/venvs"}, False),
        ({"conda_directory": None}, False),
        ({"toolkits": []}, False),
        ({"compute_capabilities": ["9.0"]}, False),
        ({"container": False}, False),
    ],
)
def test_only_what_was_tried_is_covered(change, covered):
    last = trial.Trial("2026-11-28T02:00:00+00:00", ASKED, "digest", {})
    assert last.covers(trial.Asked(**{**asdict(ASKED), **change})) is covered


def test_a_trial_without_gpus_does_not_cover_one_with_them():
    last = trial.Trial("2026-11-28T02:00:00+00:00", replace(ASKED, gpus=False), "digest", {})
    assert not last.covers(ASKED)
