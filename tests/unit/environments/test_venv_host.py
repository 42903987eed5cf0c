"""Environments are built by the real uv, beside the former ones, and are taken into use only where they work."""

import grp
import json
import os
import re
import stat
import subprocess
import time

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments import builds as environment_builds
from ansible_collections.gpulab.node.plugins.module_utils.environments import venv

from . import wheels

pytestmark = pytest.mark.slow


def test_an_environment_is_built_and_found_as_it_is_wanted(lab):
    assert lab.venvs.build("lab") is None
    assert lab.make("beta") == {"alpha": "1.0", "beta": "1.0"}
    assert lab.python("import alpha; print(alpha.version)") == "1"
    assert venv.reasons(lab.venvs.build("lab"), lab.wish("beta")) == []
    assert lab.venvs.names() == ["lab"]


@pytest.mark.usefixtures("narrow_umask")
def test_the_directory_is_open_to_its_users_whatever_the_umask(lab):
    lab.make("alpha")
    assert {stat.S_IMODE(path.stat().st_mode) for path in (lab.root, lab.root / ".builds")} == {0o755}
    assert lab.venvs.is_given("lab")


def test_nobody_but_root_can_keep_uv_waiting(lab):
    """Locks that uv makes permit everybody to write, whatever the umask, and flock(2) needs to open a file only."""
    (lab.root / ".cache").mkdir(parents=True)
    (lab.root / ".cache").chmod(0o755)  # as a former version left it
    lab.make("alpha")
    everything = [path for path in lab.root.rglob("*") if not path.is_symlink()]
    assert any(path.name == ".lock" for path in everything)
    assert [path for path in everything if path.stat().st_mode & stat.S_IWOTH] == []
    assert stat.S_IMODE((lab.root / ".cache").stat().st_mode) == 0o700
    open_to_all = [path for path in everything if path.name == ".lock" and path.stat().st_mode & 0o077]
    assert [path for path in open_to_all if lab.root / ".cache" not in path.parents] == []


def test_its_variables_are_set_where_the_user_has_not(lab):
    lab.make("alpha", variables={"GROWTH": "true"})
    assert lab.python("import os; print(os.environ['GROWTH'])") == "true"
    argv = [str(lab.root / "lab/bin/python"), "-c", "import os; print(os.environ['GROWTH'])"]
    assert subprocess.check_output(argv, env={"GROWTH": "false"}, text=True) == "false\n"


def test_a_change_is_predicted_with_its_versions_and_leaves_nothing(lab, tmp_path):
    lab.make("alpha<2")
    before = sorted(lab.root.rglob("*"))
    (tmp_path / "scratch").mkdir()

    def call(argv):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    after = lab.venvs.predict(lab.wish("gamma"), call, tmp_path / "scratch")
    assert venv.steps(lab.venvs.packages("lab"), after) == {
        "added": {"gamma": "1.0"},
        "removed": {},
        "changed": {"alpha": ["1.0", "2.0"]},
    }
    assert sorted(lab.root.rglob("*")) == before


def test_versions_stay_where_they_can(lab):
    lab.make("alpha<2")
    assert lab.make("alpha", "torch==2.13.0")["alpha"] == "1.0"


@pytest.mark.parametrize("started", [". {root}/lab/bin/activate; command -v python", "echo {root}/lab/bin/python"])
def test_a_job_goes_on_with_what_it_was_started_with(lab, started):
    lab.make("alpha<2")
    code = "import sys; print(flush=True); sys.stdin.readline(); import alpha; print(alpha.version)"
    python = subprocess.check_output(["sh", "-c", started.format(root=lab.root)], text=True).strip()
    job = subprocess.Popen([python, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    job.stdout.readline()
    lab.make("alpha")
    lab.make("gamma")  # twice, so that the job's build is not merely the former one
    assert lab.python("import alpha; print(alpha.version)") == "2"
    assert job.communicate("go\n")[0] == "1\n"


def test_builds_that_nobody_uses_go_but_for_the_former_one(lab):
    for wish in ("alpha<2", "alpha", "gamma", "alpha>1"):
        lab.make(wish)
    assert sorted(path.name for path in (lab.root / ".builds/lab").iterdir()) == ["3", "4"]


@pytest.mark.parametrize(
    ("damage", "because"),
    [
        (
            "rm -r lab/lib/python*/site-packages/alpha*",
            ["alpha no longer exists", "alpha-1.0.dist-info no longer exists"],
        ),
        ("rm -r lab/lib/python*/site-packages/alpha", ["alpha no longer exists"]),
        ("touch lab/lib/python*/site-packages/extra.py", None),
        ("rm lab/bin/python; ln -s /usr/bin/gone lab/bin/python", ["its Python no longer exists"]),
        ("rm lab/gpulab.json", ["it does not exist"]),
        ("truncate --size=40 lab/gpulab.json", ["it does not exist"]),
        ("rm lab", ["it does not exist"]),
    ],
)
def test_damage_is_found_and_repaired(lab, damage, because):
    lab.make("alpha<2")
    script = damage.replace("*/site-packages/extra.py", f"{lab.wish().python[1:]}/site-packages/extra.py")
    subprocess.run(["sh", "-c", script.replace("python.", "python3.")], cwd=lab.root, check=True)
    found = venv.reasons(lab.venvs.build("lab"), lab.wish("alpha<2"))
    assert found == (because or ["extra.py was installed by hand"])
    assert lab.make("alpha<2") == {"alpha": "1.0"}
    assert venv.reasons(lab.venvs.build("lab"), lab.wish("alpha<2")) == []


def former_works(lab):
    """Say that the environment is what it was, and that nothing else is left."""
    builds = [path.name for path in (lab.root / ".builds/lab").iterdir()]
    return lab.python("import alpha; print(alpha.version)") == "1" and builds == ["1"]


def refused(lab, *requirements, **more):
    """Try to change an environment that works, and return the code by which it is refused."""
    lab.make("alpha<2")
    with pytest.raises(Refusal) as refusal:
        lab.make(*requirements, **more)
    assert former_works(lab)
    return refusal.value


def test_packages_that_do_not_fit_together_are_refused(lab):
    refusal = refused(lab, "beta", "gamma")
    assert refusal.code == "E004"
    assert re.search(r"beta.*alpha<2", refusal.cause)


def test_a_package_that_is_nowhere_is_refused(lab):
    assert refused(lab, "delta").code == "E068"


def test_of_two_indexes_in_pips_configuration_the_best_version_is_taken(lab, tmp_path, monkeypatch):
    """An old alpha on the further index hides the new one that gamma needs (astral-sh/uv#2840)."""
    wheels.wheel(tmp_path / "more", "alpha", "0.1")
    server, file = wheels.serve(tmp_path / "more"), tmp_path / "pip.conf"
    file.write_text(f"[global]\nindex-url = {lab.url}\nextra-index-url = {server.url}\n")
    monkeypatch.setattr(environment_builds, "PIP_FILES", (file,))
    assert lab.make("gamma") == {"alpha": "2.0", "gamma": "1.0"}
    server.shutdown()


def test_a_mirror_takes_the_place_of_pips_index(lab, tmp_path, monkeypatch):
    """The laboratory's index is given as environments_index_url is; that of pip's configuration answers nobody."""
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = http://127.0.0.1:9\n")
    monkeypatch.setattr(environment_builds, "PIP_FILES", (file,))
    assert lab.make("beta") == {"alpha": "1.0", "beta": "1.0"}


def test_a_configuration_of_pip_that_cannot_be_read_is_named(lab, tmp_path, monkeypatch):
    file = tmp_path / "pip.conf"
    file.write_text("index-url = https://a.example\n")
    monkeypatch.setattr(environment_builds, "PIP_FILES", (file,))
    with pytest.raises(Refusal) as refusal:
        lab.venvs.lock(lab.wish("alpha"))
    assert (refusal.value.code, str(file) in refusal.value.cause) == ("E034", True)


def test_a_wheel_by_its_address_is_predicted_made_and_locked(lab, tmp_path):
    address = f"{lab.url}/alpha/alpha-1.0-py3-none-any.whl"
    lab.make("beta")
    (tmp_path / "scratch").mkdir()

    def call(argv):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    assert lab.venvs.predict(lab.wish(f"alpha @ {address}"), call, tmp_path / "scratch") == {"alpha": "1.0"}
    assert lab.make(f"alpha @ {address}") == {"alpha": "1.0"}


def test_source_code_that_does_not_build_is_refused_where_the_lock_is_made(lab, tmp_path):
    wheels.source(lab.index, "sourced", "1.0", tmp_path / "built")
    lab.make("alpha<2")
    with pytest.raises(Refusal) as refusal:
        lab.run(lab.venvs.lock(lab.wish("sourced")))
    assert (refusal.value.code, "sourced" in refusal.value.cause) == ("E068", True)
    assert lab.venvs.packages("lab") == {"alpha": "1.0"}
    assert former_works(lab)


def test_an_index_that_cannot_be_reached_is_refused(lab):
    lab.make("alpha<2")
    lab.url = "http://127.0.0.1:9"
    with pytest.raises(Refusal) as refusal:
        lab.make("gamma")
    assert refusal.value.code == "E002"
    assert "127.0.0.1:9" in refusal.value.cause
    assert former_works(lab)


def test_a_file_with_another_hash_is_refused(lab):
    lock = f"alpha==2.0 --hash=sha256:{'0' * 64}\n"
    refusal = refused(lab, lock=lock)
    assert refusal.code == "E003"
    assert "alpha==2.0" in refusal.cause


def test_the_trial_of_a_build_leaves_the_gpus_alone(lab):
    (trial,) = lab.venvs.probe(lab.wish(framework="jax"), lab.root)
    settings = dict(word.partition("=")[::2] for word in trial[trial.index("env") + 1 : trial.index("-I") - 1])
    assert settings == {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}


def test_a_framework_that_cannot_be_imported_is_refused(lab):
    refusal = refused(lab, "torch==2.14.0", framework="pytorch", version="2.14.0")
    assert refusal.code == "E008"
    assert "libcudart.so.13" in refusal.cause


def test_a_build_without_cuda_is_refused_where_the_plan_has_one(lab):
    refusal = refused(lab, "torch==2.13.0", framework="pytorch", version="2.13.0", cuda="12.6")
    assert refusal.code == "E008"
    assert "it is built for no CUDA, but CUDA 12.6 is planned" in refusal.cause


def test_a_lock_with_another_version_than_the_plan_is_refused(lab):
    lab.make("torch==2.13.0", "alpha<2", framework="pytorch", version="2.13.0")
    lock = (lab.root / "lab" / venv.LOCK).read_text()
    with pytest.raises(Refusal) as refusal:
        lab.make(lock=lock, framework="pytorch", version="2.12.0")
    assert "pytorch is 2.13.0, but 2.12.0 is planned" in refusal.value.cause
    assert former_works(lab)


def test_a_build_that_was_cut_off_is_done_over(lab):
    lab.make("alpha<2")
    wish = lab.wish("gamma")
    lab.run(lab.venvs.lock(wish))
    argv = lab.venvs.make(wish)
    step = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    half = lab.root / ".builds/lab/2"
    while not half.exists():
        time.sleep(0.001)
    step.kill()
    step.wait()
    assert lab.python("import alpha; print(alpha.version)") == "1"
    assert lab.make("gamma") == {"alpha": "2.0", "gamma": "1.0"}
    assert lab.python("import alpha; print(alpha.version)") == "2"


def test_a_lock_makes_the_same_environment_elsewhere(lab, tmp_path):
    first = lab.make("beta", "torch==2.13.0", framework="pytorch", version="2.13.0")
    lock = (lab.root / "lab" / venv.LOCK).read_text()
    lab.root = tmp_path / "elsewhere"
    assert lab.make(lock=lock, framework="pytorch", version="2.13.0") == first == venv.locked(lock)
    assert (lab.root / "lab" / venv.LOCK).read_text() == lock


def test_what_somebody_else_made_is_never_touched(lab):
    (lab.root / "lab").mkdir(parents=True)
    with pytest.raises(Refusal) as refusal:
        lab.venvs.build("lab")
    assert refusal.value.code == "E001"


def test_an_environment_is_removed_but_not_while_it_is_used(lab):
    lab.make("alpha")
    job = subprocess.Popen([str(lab.root / "lab/bin/python"), "-c", "input()"], stdin=subprocess.PIPE)
    with pytest.raises(Refusal) as refusal:
        lab.venvs.remove("lab")
    assert refusal.value.code == "E010"
    assert str(job.pid) in refusal.value.cause
    job.communicate(b"\n")
    lab.venvs.remove("lab")
    assert lab.venvs.names() == []
    assert list((lab.root / ".builds").iterdir()) == []


def test_the_record_says_what_the_proof_expects(lab):
    lab.make("torch==2.13.0", framework="pytorch", version="2.13.0")
    expected = json.loads((lab.root / "lab" / venv.RECORD).read_text())["expected"]
    assert (expected["framework"], expected["version"], expected["cuda"]) == ("pytorch", "2.13.0", None)


def modes(path):
    """Return who may enter the directories of a build: names, with group and mode."""
    states = [(part.name, part.lstat()) for part in path.resolve().iterdir()]
    return {name: (one.st_gid, stat.S_IMODE(one.st_mode)) for name, one in states if stat.S_ISDIR(one.st_mode)}


def given(lab, name, gid):
    """Have an environment given to a group, or to everybody; tell whether anything was to do."""
    venvs = lab.venvs
    venvs.groups = {} if gid is None else {name: gid}
    todo = not venvs.is_given(name)
    venvs.give(name)
    assert venvs.is_given(name)
    return todo


def test_an_environment_is_given_to_a_group_and_back_without_a_build(lab):
    gid, name = os.getgid(), grp.getgrgid(os.getgid()).gr_name
    lab.make("alpha<2")
    lab.make("alpha")
    assert lab.venvs.users("lab") == "everybody"
    assert [given(lab, "lab", gid), given(lab, "lab", gid)] == [True, False]
    for number in (1, 2):
        assert {mode for _gid, mode in modes(lab.root / f".builds/lab/{number}").values()} == {0o750}
    assert {owner for owner, _mode in modes(lab.root / "lab").values()} == {gid}
    assert stat.S_IMODE((lab.root / ".cache").stat().st_mode) == 0o700
    assert lab.venvs.users("lab") == name
    assert lab.venvs.abandoned() == []
    assert given(lab, "lab", None)
    assert {mode for _gid, mode in modes(lab.root / "lab").values()} == {0o755}
    assert venv.reasons(lab.venvs.build("lab"), lab.wish("alpha")) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to another group")
def test_an_environment_whose_group_is_gone_is_named(lab):
    lab.make("alpha")
    given(lab, "lab", 54321)
    assert lab.venvs.abandoned() == ["lab"]
    assert lab.python("import alpha; print(alpha.version)") == "2"


def test_a_new_build_is_for_the_group_at_once(lab):
    wish, venvs = lab.wish("alpha"), lab.venvs
    venvs.groups = {"lab": os.getgid()}
    lab.run(venvs.lock(wish))
    lab.run(venvs.make(wish))
    venvs.finish(wish)
    assert modes(lab.root / "lab")["bin"] == (os.getgid(), 0o750)
    assert venvs.is_given("lab")


def test_a_group_that_the_node_has_not_is_refused():
    assert environment_builds.groups_of([{"name": "lab", "group": None}]) == {}
    with pytest.raises(Refusal) as refusal:
        environment_builds.groups_of([{"name": "lab", "group": "no-such-group"}])
    assert refusal.value.code == "E019"
    assert "no-such-group" in refusal.value.cause


def test_after_a_reinstall_it_has_the_packages_that_it_had(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(venv, "CAPTURED", tmp_path / "captured")
    former = venv.captured_lock(lab.root / "lab")
    former.parent.mkdir(parents=True)
    former.write_text("alpha==1.0\n")
    assert lab.make("alpha") == {"alpha": "1.0"}
