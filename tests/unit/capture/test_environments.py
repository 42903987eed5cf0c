"""Environments that users made are read as files; what brings them back is what pip, uv and conda say of them."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture import environments
from ansible_collections.gpulab.node.plugins.module_utils.capture.walk import Walk, Wishes
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.environments import conda

from unit.capture import backend
from unit.environments import wheels

SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def run(*argv, **more):
    """Run a program that must succeed, and return what it prints."""
    done = subprocess.run(
        [str(word) for word in argv], capture_output=True, text=True, timeout=120, check=False, **more
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def found(directory):
    """Return the environment at a directory, as the walk asks for it."""
    return environments.at(str(directory), {path.name for path in directory.iterdir()})


def left(directory):
    """Return all that an environment's lock does not bring back."""
    environment = found(directory)
    paths = (path.relative_to(directory) for path in directory.rglob("*"))
    return sorted(str(path) for path in paths if not environment.covers(str(path)))


def as_in_locks(frozen):
    """Return what pip freeze prints with names as locks write them, and without what no lock brings back."""
    lines = (line for line in frozen.splitlines() if "file:" not in line and not line.startswith(("#", "-e")))
    return sorted(re.sub(r"^[\w.-]+", lambda name: re.sub(r"[-_.]+", "-", name[0]).lower(), line) for line in lines)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Return a directory with an index, and two projects of a user."""
    directory = tmp_path_factory.mktemp("sources")
    wheels.wheel(directory / "index", "alpha", "1.0", "version = 1")
    wheels.wheel(directory / "index", "Beta_Gamma", "2.0+cu126", requires=["alpha"])
    (directory / "index/Beta_Gamma").rename(directory / "index/beta-gamma")
    backend.write_wheel(str(directory / "index/speaker"), "speaker", {"speaker.py": "def main(): print('hello')\n"})
    for name in ("lab_tools", "lab_edit"):
        (directory / name).mkdir()
        (directory / name / "pyproject.toml").write_text(PROJECT)
        shutil.copy(backend.__file__, directory / name)
    server = wheels.serve(directory / "index")
    directory.joinpath("url").write_text(server.url)
    yield directory
    server.shutdown()


def fill(install, sources):
    """Install packages from the index, by the address of a wheel, from a directory, and as an editable one."""
    url = sources.joinpath("url").read_text()
    install("beta-gamma", sources / "lab_tools", "-e", sources / "lab_edit")
    install(f"speaker @ {url}/speaker/speaker-0.3-py3-none-any.whl")


@pytest.fixture(scope="module")
def by_pip(sources, tmp_path_factory):
    """Return an environment that venv and pip made."""
    place = tmp_path_factory.mktemp("by_pip") / "torch"
    run(sys.executable, "-m", "venv", place)
    index = ("--index-url", sources.joinpath("url").read_text(), "--disable-pip-version-check")
    fill(lambda *what: run(place / "bin/python", "-m", "pip", "install", *index, *what), sources)
    run(place / "bin/python", "-c", "import alpha")
    return place


@pytest.fixture(scope="module")
def by_uv(sources, tmp_path_factory):
    """Return an environment of a project of uv."""
    uv = pytest.importorskip("uv").find_uv_bin()
    project = tmp_path_factory.mktemp("by_uv") / "project"
    project.mkdir()
    (project / "uv.lock").write_text("version = 1\n")
    place = project / ".venv"
    run(uv, "venv", "--python", sys.executable, place)
    index = ("--python", place / "bin/python", "--default-index", sources.joinpath("url").read_text())
    fill(lambda *what: run(uv, "pip", "install", *index, *what), sources)
    return place


@pytest.fixture
def venv(by_pip, tmp_path):
    """Return a copy of it, to be changed."""
    return shutil.copytree(by_pip, tmp_path / "torch", symlinks=True)


# virtual environments


@pytest.mark.parametrize("place", ["by_pip", "by_uv"])
def test_lock_and_own_packages_are_what_pip_itself_says(request, place, sources):
    place = request.getfixturevalue(place)
    if place.name == ".venv":
        frozen = run(pytest.importorskip("uv").find_uv_bin(), "pip", "freeze", "--python", place / "bin/python")
    else:
        frozen = run(place / "bin/python", "-m", "pip", "freeze", "--all", "--disable-pip-version-check")
    record = found(place).record
    assert len(record.lock) >= 3
    assert record.lock == as_in_locks(frozen)
    assert [(one.name, one.version, one.path, one.editable) for one in record.own] == [
        ("lab-edit", "0.3", str(sources / "lab_edit"), True),
        ("lab-tools", "0.3", str(sources / "lab_tools"), False),
    ]


def test_record_says_whose_environment_it_is_and_with_which_python(by_pip, by_uv):
    record, of_uv = found(by_pip).record, found(by_uv).record
    python = ".".join(map(str, sys.version_info[:3]))
    assert (record.kind, record.python, record.project) == ("venv", python, "")
    assert (of_uv.kind, of_uv.python, of_uv.project) == ("uv", python, str(by_uv.parent))
    assert record.owner == by_pip.owner()
    assert Path(record.home).is_dir()
    assert record.unreadable == []


@pytest.mark.parametrize("place", ["by_pip", "by_uv"])
def test_all_that_installers_wrote_comes_back_but_what_came_from_a_directory(request, place):
    names = left(request.getfixturevalue(place))
    assert f"{SITE}/lab_tools.py" in names
    assert [name for name in names if "lab_tools" not in name] == []


def test_programs_caches_and_links_of_an_environment_come_back(by_pip):
    environment = found(by_pip)
    for path in ("bin/speaker", "bin/activate", "bin/activate.fish", "bin/python", "lib64", "pyvenv.cfg", "bin", "."):
        assert environment.covers(path), path
    pyc = next((by_pip / SITE / "alpha").rglob("*.pyc"))
    assert environment.covers(str(pyc.relative_to(by_pip)))
    assert environment.covers(str(pyc.parent.relative_to(by_pip)))


def test_files_of_the_user_stay_the_users(venv):
    for path in ("notes.txt", "bin/mine", f"{SITE}/mine.py", f"{SITE}/alpha/mine.py", "lib/data.bin", "bin/python-x"):
        (venv / path).write_text("mine")
    (venv / SITE / "own/__pycache__").mkdir(parents=True)
    (venv / SITE / "alpha/__pycache__/mine.cpython-311.pyc").write_text("of mine.py")
    names = [name for name in left(venv) if "lab_tools" not in name]
    assert names == sorted([
        "notes.txt", "bin/mine", f"{SITE}/mine.py", f"{SITE}/alpha/mine.py", "lib/data.bin", "bin/python-x",
        f"{SITE}/own", f"{SITE}/own/__pycache__", f"{SITE}/alpha/__pycache__/mine.cpython-311.pyc",
    ])  # fmt: skip


def test_an_edited_file_of_a_package_does_not_come_back_nor_does_what_was_compiled_of_it(venv):
    module = venv / SITE / "alpha/__init__.py"
    status = module.stat()
    module.write_text("version = 7")  # as long as before
    os.utime(module, ns=(status.st_atime_ns, status.st_mtime_ns))
    environment = found(venv)
    assert not environment.covers(f"{SITE}/alpha/__init__.py")
    compiled = next((venv / SITE / "alpha/__pycache__").glob("*.pyc"))
    assert not environment.covers(str(compiled.relative_to(venv)))
    assert environment.covers(f"{SITE}/alpha-1.0.dist-info/METADATA")


def test_a_touched_file_comes_back_where_its_content_is_the_recorded_one(venv):
    (venv / SITE / "alpha/__init__.py").touch()
    assert found(venv).covers(f"{SITE}/alpha/__init__.py")


def test_what_has_not_changed_since_the_installation_is_not_read_again(by_pip, monkeypatch):
    monkeypatch.setattr(environments.digests, "digest", lambda *_which: pytest.fail("a file was read"))
    assert found(by_pip).covers(f"{SITE}/alpha/__init__.py")


def test_edits_of_hard_linked_files_are_seen(venv):
    """As uv links from its cache; each new link of a file changes its ctime."""
    module = venv / SITE / "alpha/__init__.py"
    os.link(module, venv.parent / "cache")
    assert found(venv).covers(f"{SITE}/alpha/__init__.py")
    module.write_text("version = 7")
    assert not found(venv).covers(f"{SITE}/alpha/__init__.py")


def test_a_file_that_is_a_directory_or_a_pipe_now_does_not_come_back(venv):
    module = venv / SITE / "alpha/__init__.py"
    module.unlink()
    os.mkfifo(module)
    assert not found(venv).covers(f"{SITE}/alpha/__init__.py")
    module.unlink()
    assert not found(venv).covers(f"{SITE}/alpha/__init__.py")


def test_a_pipe_does_not_come_back_even_where_no_digest_of_it_is_recorded(venv):
    with (venv / SITE / "alpha-1.0.dist-info/RECORD").open("a") as stream:
        stream.write("../../../pipe,,\n")
    os.mkfifo(venv / "pipe")
    assert not found(venv).covers("pipe")


def test_a_file_of_another_size_is_not_read(venv, monkeypatch):
    (venv / SITE / "alpha/__init__.py").write_text("longer than before")
    monkeypatch.setattr(environments.digests, "digest", lambda *_which: pytest.fail("a file was read"))
    assert not found(venv).covers(f"{SITE}/alpha/__init__.py")


def test_a_link_to_the_same_content_comes_back_and_one_to_other_content_does_not(venv):
    """As uv links with --link-mode symlink."""
    module, cache = venv / SITE / "alpha/__init__.py", venv.parent / "cache"
    module.rename(cache)
    module.symlink_to(cache)
    assert found(venv).covers(f"{SITE}/alpha/__init__.py")
    cache.write_text("version = 7")
    assert not found(venv).covers(f"{SITE}/alpha/__init__.py")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "\nTORCH_HOME=/data/torch; export TORCH_HOME\n",
        lambda text: text.replace("export PATH", "export PATH\nexport WANDB_API_KEY=canary", 1),
    ],
    ids=["at the end", "in the middle"],
)
def test_an_activate_script_with_additions_does_not_come_back(venv, change):
    """Whatever its time: people append to it in the line that makes the environment."""
    script = venv / "bin/activate"
    status = script.stat()
    script.write_text(change(script.read_text()))
    os.utime(script, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert not found(venv).covers("bin/activate")


def test_an_activate_script_that_is_later_than_the_others_does_not_come_back(venv):
    script = venv / "bin/activate.fish"
    later = script.stat().st_mtime + 3600
    os.utime(script, (later, later))
    environment = found(venv)
    assert not environment.covers("bin/activate.fish")
    assert environment.covers("bin/activate.csh")


def test_a_copied_interpreter_comes_back_and_a_program_of_that_name_does_not(venv):
    (venv / "bin/python3").unlink()
    original = Path(found(venv).record.home) / "python3"
    shutil.copy(original, venv / "bin/python3")
    assert found(venv).covers("bin/python3")
    (venv / "bin/python3").write_text("#!/bin/sh\necho mine\n")
    assert not found(venv).covers("bin/python3")


def test_what_is_edited_later_in_an_editable_install_is_not_lost(by_pip, sources):
    environment = found(by_pip)
    assert environment.covers(f"{SITE}/__editable__.lab_edit.pth")
    assert next(one for one in environment.record.own if one.editable).path == str(sources / "lab_edit")


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (
            {"url": "https://git.lab/x.git", "vcs_info": {"vcs": "git", "commit_id": "1f"}, "subdirectory": "py"},
            "alpha @ git+https://git.lab/x.git@1f#subdirectory=py",
        ),
        (
            {"url": "https://lab/a.whl", "archive_info": {"hash": "sha256=aa", "hashes": {"sha256": "aa"}}},
            "alpha @ https://lab/a.whl#sha256=aa",
        ),
        (
            {"url": "https://wei:canary@lab/a.whl", "archive_info": {}},
            "alpha @ https://***@lab/a.whl",
        ),
    ],
    ids=["git", "archive", "secret"],
)
def test_packages_by_address_have_it_in_the_lock_as_pip_freeze_does_but_no_secret(venv, source, line):
    (venv / SITE / "alpha-1.0.dist-info/direct_url.json").write_text(json.dumps(source))
    assert line in found(venv).record.lock
    if "canary" not in str(source):
        frozen = run(venv / "bin/python", "-m", "pip", "freeze", "--all", "--disable-pip-version-check")
        assert line in frozen.splitlines()


def test_secrets_in_settings_of_an_environment_are_hidden(venv):
    with (venv / "pyvenv.cfg").open("a") as stream:
        stream.write("prompt = https://wei:canary@lab/\n")
    assert "canary" not in json.dumps(asdict(found(venv).record))


def test_a_package_whose_description_cannot_be_read_is_named_and_does_not_come_back(venv):
    info = venv / SITE / "alpha-1.0.dist-info"
    (info / "METADATA").write_text("nothing")
    environment = found(venv)
    assert environment.record.unreadable == [f"{SITE}/alpha-1.0.dist-info"]
    assert not environment.covers(f"{SITE}/alpha/__init__.py")
    assert not any(line.startswith("alpha") for line in environment.record.lock)


@pytest.mark.parametrize("text", ["{", "[]", '{"url": 1}', '{"url": "file:///x", "dir_info": "y"}'])
def test_a_damaged_address_of_a_package_does_not_make_it_one_of_the_index(venv, text):
    (venv / SITE / "alpha-1.0.dist-info/direct_url.json").write_text(text)
    assert found(venv).record.unreadable == [f"{SITE}/alpha-1.0.dist-info"]


def test_pipes_and_devices_in_place_of_descriptions_do_not_block(venv):
    info = venv / SITE / "alpha-1.0.dist-info"
    for name in ("METADATA", "RECORD"):
        (info / name).unlink()
        os.mkfifo(info / name)
    assert found(venv).record.unreadable == [f"{SITE}/alpha-1.0.dist-info"]


@pytest.mark.parametrize("record", ["a\0b,,\n", f"{'x' * 200000},,\n", "alpha/__init__.py,sha256=#,\u00b2\n", ",\n\n"])
def test_a_damaged_list_of_files_brings_nothing_back(venv, record):
    (venv / SITE / "alpha/__init__.py").write_text("mine")
    (venv / SITE / "alpha-1.0.dist-info/RECORD").write_text(record)
    os.utime(venv / SITE / "alpha-1.0.dist-info/RECORD", (1, 1))
    assert not found(venv).covers(f"{SITE}/alpha/__init__.py")


def test_what_a_record_says_of_files_outside_the_environment_does_not_count(venv):
    with (venv / SITE / "alpha-1.0.dist-info/RECORD").open("a") as stream:
        stream.write(f"../../../../{venv.name}-data,,\n/etc/passwd,,\n../../../inside.txt,,\n")
    (venv / "inside.txt").write_text("x")
    environment = found(venv)
    assert not environment.covers(f"../{venv.name}-data")
    assert not environment.covers("/etc/passwd")
    assert environment.covers("inside.txt")


def test_what_an_unfinished_removal_left_is_no_package(venv):
    (venv / SITE / "alpha-1.0.dist-info").rename(venv / SITE / "~lpha-1.0.dist-info")
    environment = found(venv)
    assert not any("lpha==" in line for line in environment.record.lock)
    assert not environment.covers(f"{SITE}/alpha/__init__.py")


def test_packages_of_old_setuptools_come_back_as_their_lists_say(venv):
    info = venv / SITE / "old-1.0-py3.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Metadata-Version: 1.0\nName: old\nVersion: 1.0\n")
    (venv / SITE / "old.py").write_text("x = 1")
    (info / "installed-files.txt").write_text("../old.py\nPKG-INFO\n")
    environment = found(venv)
    assert "old==1.0" in environment.record.lock
    assert environment.covers(f"{SITE}/old.py")
    before = info.stat().st_mtime - 3600
    os.utime(info / "installed-files.txt", (before, before))
    assert not found(venv).covers(f"{SITE}/old.py")  # there is no digest to compare it with


def test_a_directory_in_development_by_old_setuptools_is_an_own_package(venv):
    (venv / SITE / "older.egg-link").write_text("/home/wei/older\n.")
    assert [(one.path, one.editable) for one in found(venv).record.own if one.name == "older"] == [
        ("/home/wei/older", True)
    ]


@pytest.mark.parametrize("missing", ["pyvenv.cfg", "bin"])
def test_other_directories_are_no_environments(tmp_path, missing):
    for name in {"pyvenv.cfg", "bin"} - {missing}:
        (tmp_path / name).mkdir() if name == "bin" else (tmp_path / name).write_text("home = /usr/bin\n")
    assert found(tmp_path) is None
    (tmp_path / "conda-meta").mkdir()
    assert found(tmp_path) is None


def test_environments_below_another_root_are_named_as_on_the_node(by_pip):
    node, directory = Node(by_pip.parent.parent), f"/{by_pip.parent.name}/{by_pip.name}"
    environment = environments.at(directory, node.names(directory), node)
    assert environment.record.path == directory
    assert environment.record.lock == found(by_pip).record.lock
    assert environment.covers(f"{SITE}/alpha/__init__.py")


# conda


def meta(prefix, name, *files, **more):
    """Write the record of a package of conda, and its files."""
    paths = []
    for path, content in files:
        (prefix / path).parent.mkdir(parents=True, exist_ok=True)
        (prefix / path).write_text(content)
        digest = hashlib.sha256(content.encode()).hexdigest()
        paths.append({"_path": path, "path_type": "hardlink", "sha256": digest, "size_in_bytes": len(content)})
    url = f"https://conda.lab/linux-64/{name}-1.0-0.conda"
    record = {"name": name, "version": "1.0", "build": "0", "url": url, "sha256": "ab" * 32, "depends": []}
    record.update({"files": [path for path, _text in files], "paths_data": {"paths": paths}}, **more)
    (prefix / "conda-meta").mkdir(exist_ok=True)
    (prefix / f"conda-meta/{name}-1.0-0.json").write_text(json.dumps(record))


@pytest.fixture
def prefix(tmp_path):
    """Return an environment of conda, written by hand in the form of conda 24."""
    prefix = tmp_path / "miniconda3"
    info = f"{SITE}/numpy-1.0.dist-info"
    meta(prefix, "python", ("bin/python3", "#!"), depends=["zlib"])
    meta(prefix, "zlib", ("lib/libz.so", "z"))
    described = "Name: numpy\nVersion: 1.0\n"
    meta(prefix, "numpy", (f"{SITE}/numpy/__init__.py", "n = 1"), (f"{info}/METADATA", described))
    (prefix / "conda-meta/history").write_text("==> 2026-01-01 <==\n")
    return prefix


def test_explicit_lock_of_conda_is_one_that_gpulab_takes(prefix):
    record = found(prefix).record
    lock = conda.locked("\n".join(record.lock))
    assert [one.name for one in lock.packages] == ["numpy", "zlib", "python"]  # each after what it needs
    assert (record.kind, record.python) == ("conda", "1.0")
    assert left(prefix) == []


def test_packages_of_pip_in_conda_are_told_from_those_of_conda(prefix):
    place = prefix / SITE / "httpx-0.28.dist-info"
    place.mkdir()
    (place / "METADATA").write_text("Name: httpx\nVersion: 0.28\n")
    (place / "RECORD").write_text("httpx-0.28.dist-info/METADATA,,\nhttpx-0.28.dist-info/RECORD,,\n")
    assert [line for line in found(prefix).record.lock if "pip" in line] == ["# pip httpx==0.28"]
    assert left(prefix) == []


def test_what_people_set_in_a_conda_environment_does_not_come_back(prefix):
    """Variables of ``conda env config vars set`` and pins lie among conda's own records."""
    for path in ("conda-meta/state", "conda-meta/pinned", "etc/conda/activate.d/key.sh", ".condarc"):
        (prefix / path).parent.mkdir(parents=True, exist_ok=True)
        (prefix / path).write_text("mine")
    names = set(left(prefix))
    assert names >= {"conda-meta/state", "conda-meta/pinned", "etc/conda/activate.d/key.sh", ".condarc"}


def test_packages_that_conda_did_not_download_do_not_come_back(prefix):
    meta(prefix, "ours", ("lib/ours.so", "o"), url="file:///home/wei/bld/ours-1.0-0.conda")
    environment = found(prefix)
    assert [(one.name, one.path) for one in environment.record.own] == [
        ("ours", "file:///home/wei/bld/ours-1.0-0.conda")
    ]
    assert not environment.covers("lib/ours.so")
    assert environment.covers("lib/libz.so")


def test_a_token_of_a_channel_is_hidden(prefix):
    meta(prefix, "paid", ("lib/paid.so", "p"), url="https://conda.lab/t/ab-canary-1234/paid-1.0-0.conda")
    assert "canary" not in json.dumps(asdict(found(prefix).record))


def test_an_edited_file_of_conda_does_not_come_back(prefix):
    (prefix / "lib/libz.so").write_text("y")
    status = (prefix / "conda-meta/zlib-1.0-0.json").stat()
    os.utime(prefix / "conda-meta/zlib-1.0-0.json", (status.st_mtime - 60, status.st_mtime - 60))
    assert not found(prefix).covers("lib/libz.so")


def test_a_file_into_which_conda_wrote_the_prefix_is_compared_with_what_it_became(prefix):
    after = f"#!{prefix}/bin/python"
    meta(prefix, "tool", ("bin/tool", after))
    place = prefix / "conda-meta/tool-1.0-0.json"
    record = json.loads(place.read_text())
    path = record["paths_data"]["paths"][0]
    path.update(sha256_in_prefix=path["sha256"], sha256="00" * 32, size_in_bytes=3, prefix_placeholder="/opt/p")
    place.write_text(json.dumps(record))
    os.utime(place, (1, 1))
    assert found(prefix).covers("bin/tool")
    (prefix / "bin/tool").write_text(after + "3")
    assert not found(prefix).covers("bin/tool")


@pytest.mark.parametrize("text", ['{"name": "zl', '{"name": "zlib", "version": "1.0", "depends": null}'])
def test_a_damaged_record_of_conda_is_named(prefix, text):
    (prefix / "conda-meta/zlib-1.0-0.json").write_text(text)
    environment = found(prefix)
    assert environment.record.unreadable == ["conda-meta/zlib-1.0-0.json"]
    assert not environment.covers("lib/libz.so")


def test_environments_in_each_other_are_each_asked_for_their_own_files(prefix, tmp_path):
    """As those of a Miniconda in its envs, and a virtual environment in a project of one."""
    inner = prefix / "envs/train"
    meta(inner, "torch", ("lib/torch.so", "t"))
    (inner / "own.txt").write_text("mine")
    packages = type("Nothing", (), {"__contains__": lambda *_: False})()
    node = Node(tmp_path)
    found = Walk(node, packages, Wishes([]), lambda *where: environments.at(*where, node)).run(["/"], set())
    assert [one.path for one in found.environments] == ["/miniconda3", "/miniconda3/envs/train"]
    assert [one.path for one in found.remainder] == ["/miniconda3/envs/train/own.txt"]


def test_the_cache_of_packages_comes_back_where_it_is_condas(prefix):
    (prefix / "pkgs/zlib-1.0-0/lib").mkdir(parents=True)
    (prefix / "pkgs/zlib-1.0-0/lib/libz.so").write_text("z")
    assert not found(prefix).covers("pkgs/zlib-1.0-0/lib/libz.so")
    (prefix / "pkgs/urls.txt").write_text("https://conda.lab/linux-64/zlib-1.0-0.conda\n")
    assert found(prefix).covers("pkgs/zlib-1.0-0/lib/libz.so")
