"""Conda environments are built beside the former ones, and are taken into use only where they work.

A stand-in for micromamba (tests/stubs/micromamba.py) solves and installs for real, by py-rattler, from a local channel.
"""

import functools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments import builds, conda, venv
from ansible_collections.gpulab.node.plugins.module_utils.environments.conda_host import Condas, content

from . import wheels

pytestmark = pytest.mark.slow

pytest.importorskip("rattler")
STUBS = Path(__file__).parents[2] / "stubs"
PYTHON = ".".join(map(str, sys.version_info[:3]))


class Laboratory:
    """A node's environments, and the steps that a controller would take."""

    def __init__(self, root, channel, index):
        """Use the stand-in, this channel, and this index of pip's, as conda_index_url gives it."""
        self.root, self.channel, self.index, self.calls = root, channel, index, 0

    @property
    def condas(self):
        """Return the environments."""
        condas = Condas(self.root, {"PIP_INDEX_URL": self.index}, self.root.parent / "home")
        if not condas.tool.exists():
            digest = builds.hashlib.sha256(self.tool.read_bytes()).hexdigest()
            condas.install_tool(self.tool, "http://a", digest)
        return condas

    @property
    def tool(self):
        """Return the stand-in, run by this interpreter, which has py-rattler."""
        path = self.root.parent / "micromamba"
        lines = (STUBS / "micromamba.py").read_text().splitlines()[1:]
        path.write_text("\n".join([f"#!{sys.executable}", *lines]) + "\n")
        return path

    def wish(self, *packages, **more):
        """Return what is wanted of the environment lab."""
        return replace(conda.Wanted("lab", packages, (self.channel,)), **more)

    def make(self, *packages, **more):
        """Make the environment, as the action plugin does."""
        wish = self.wish(*packages, **more)
        argv = self.condas.make(wish)
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise self.condas.explain("lab", done.stdout, "/log")
        return self.condas.finish(wish)

    def reasons(self, *packages, **more):
        """Return why the environment would be rebuilt."""
        return conda.reasons(self.condas.build("lab"), self.wish(*packages, **more))

    def python(self, code):
        """Run a line in the environment's interpreter."""
        argv = [str(self.root / "envs/lab/bin/python"), "-I", "-c", code]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()

    @property
    def lock(self):
        """Return the lock of the environment."""
        return (self.root / "envs/lab" / venv.LOCK).read_text()


@pytest.fixture(scope="module")
def channel(tmp_path_factory):
    """Return the address of a channel."""
    directory = tmp_path_factory.mktemp("channel")
    subprocess.run([sys.executable, STUBS / "conda_channel.py", directory, PYTHON], check=True, timeout=300)
    server = wheels.serve(directory)
    yield server.url
    server.shutdown()


@pytest.fixture
def lab(tmp_path, channel, server, monkeypatch):
    """Return a laboratory with nothing in it."""
    monkeypatch.setattr(builds, "PIP_FILES", ())
    return Laboratory(tmp_path / "conda", channel, server.url)


SIX = "import six; print(six.version)"


@pytest.fixture
def more_packages(tmp_path):
    """Serve another index."""
    wheels.wheel(tmp_path / "more", "extra", "1.0")
    server = wheels.serve(tmp_path / "more")
    yield server.url
    server.shutdown()


def test_an_environment_is_built_and_found_as_it_is_wanted(lab):
    assert lab.condas.build("lab") is None
    made = lab.make("python", "six=1.16", "hello=1.0")
    assert (made["six"], made["hello"]) == ("1.16.0 0", "1.0 0")
    assert lab.python(SIX) == "1.16.0"
    assert lab.reasons("python", "six=1.16", "hello=1.0") == []
    said = subprocess.check_output([lab.root / "envs/lab/bin/hello"], text=True)
    assert said == f"echo from {lab.root}/envs/.builds/lab/1\n".partition(" ")[2]


def test_a_second_look_starts_nothing_and_touches_nothing(lab):
    lab.make("python", "six")
    lab.condas.tool.write_text("#!/bin/sh\nexit 99\n")

    def snapshot():
        return {path: (path.lstat().st_mtime_ns, path.lstat().st_ino) for path in lab.root.rglob("*")}

    before = snapshot()
    assert lab.reasons("python", "six") == []
    assert snapshot() == before


def test_conda_env_list_names_the_environment_and_not_its_builds(lab):
    lab.make("hello=1.0")
    lab.make("hello=1.1")
    listed = lab.root.parent / "home/.conda/environments.txt"
    assert listed.read_text() == f"{lab.root}/envs/lab\n"
    listed.write_text("/home/alice/miniforge\n" + listed.read_text())
    lab.condas.remove("lab")
    assert listed.read_text() == "/home/alice/miniforge\n"


def test_pip_adds_packages_and_they_are_locked_with_hashes(lab):
    made = lab.make("python", pip=("alpha<2",))
    assert (made["alpha"], made["pip"].partition(" ")[2]) == ("1.0 (pip)", "0")
    assert lab.python("import alpha; print(alpha.version)") == "1"
    assert "# pip alpha==1.0 --hash=sha256:" in lab.lock


def repository(directory):
    """Make a git repository of a package that builds without anything else, and return its commit."""
    directory.mkdir()
    (directory / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "build"\nbackend-path = ["."]\n'
    )
    text = f"import sys\nsys.path.insert(0, {str(STUBS.parent)!r})\nfrom pathlib import Path\n"
    text += "def build_wheel(directory, *_settings):\n    from unit.environments import wheels\n"
    text += "    path = wheels.wheel(Path(directory), 'gadget', '3.0', 'version = 3')\n"
    text += "    return path.rename(Path(directory, path.name)).name\n"
    (directory / "build.py").write_text(text)
    git = ["git", "-C", str(directory), "-c", "user.name=a", "-c", "user.email=a@a.example"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=Begin"], ["update-server-info"]):
        subprocess.run([*git, *words], check=True)
    return subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()


def test_a_commit_of_a_git_repository_is_built_and_locked(lab, tmp_path):
    commit, server = repository(tmp_path / "gadget"), wheels.serve(tmp_path / "gadget")
    address = f"git+{server.url}/.git@{commit}"
    made = lab.make("python", pip=(address, "alpha<2"))
    assert (made["gadget"], made["git"]) == ("3.0 (pip)", "2.0 0")
    lock = lab.lock
    assert f"# pip gadget @ {address}\n" in lock
    lab.root = tmp_path / "elsewhere"
    assert lab.make(lock=lock) == made
    assert lab.python("import gadget, alpha; print(gadget.version, alpha.version)") == "3 1"
    assert lab.reasons(lock=lock) == []


def test_a_git_repository_that_cannot_be_reached_is_refused(lab):
    refusal = refused(lab, "python", pip=(f"git+http://127.0.0.1:9/gadget.git@{'1' * 40}",))
    assert (refusal.code, "http://127.0.0.1:9/gadget.git" in refusal.cause) == ("E033", True), refusal


@pytest.mark.parametrize("text", ["import torch\n", "def build_wheel(*_given):\n    import torch\n"])
def test_source_code_that_does_not_build_is_refused(lab, tmp_path, text):
    repository(tmp_path / "gadget")
    git = ["git", "-C", str(tmp_path / "gadget"), "-c", "user.name=a", "-c", "user.email=a@a.example"]
    (tmp_path / "gadget/build.py").write_text(text)
    subprocess.run([*git, "commit", "--quiet", "--all", "--message=Need torch"], check=True)
    subprocess.run([*git, "update-server-info"], check=True)
    commit = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()
    server = wheels.serve(tmp_path / "gadget")
    refusal = refused(lab, "python", pip=(f"git+{server.url}/.git@{commit}",))
    assert refusal.code == "E032", refusal


def test_a_wheel_by_its_address_is_locked_with_it(lab, tmp_path):
    address = f"{lab.index}/alpha/alpha-1.0-py3-none-any.whl"
    made = lab.make("python", pip=(address,))
    assert f"# pip alpha @ {address} --hash=sha256:" in lab.lock
    lock, lab.index = lab.lock, "http://127.0.0.1:9"  # no index is needed
    lab.root = tmp_path / "elsewhere"
    assert lab.make(lock=lock) == made == conda.locked(lock).versions()


def test_a_further_index_is_locked_with_what_came_of_it(lab, tmp_path, more_packages):
    made = lab.make("python", pip=(f"--extra-index-url {more_packages}", "extra"))
    assert made["extra"] == "1.0 (pip)"
    lock = lab.lock
    assert f"# pip --extra-index-url {more_packages}\n" in lock
    lab.root = tmp_path / "elsewhere"
    assert lab.make(lock=lock) == made


def test_a_change_of_pip_alone_is_made(lab):
    lab.make("python", pip=("alpha<2",))
    assert lab.reasons("python", pip=("alpha>1",)) == ["its definition has changed"]
    assert lab.make("python", pip=("alpha>1",))["alpha"] == "2.0 (pip)"


def test_a_change_is_predicted_with_its_versions_and_leaves_nothing(lab, tmp_path):
    before = lab.make("python", "six=1.16")
    files = sorted(lab.root.rglob("*"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def call(argv, environ_update):
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env={**environ_update, "PATH": "/bin"})
        return done.returncode, done.stdout, done.stderr

    after = lab.condas.predict(lab.wish("python", "six", "hello", pip=("alpha",)), call, scratch)
    steps = venv.steps(before, after)
    assert steps["changed"] == {"six": ["1.16.0 0", "1.17.0 0"]}
    assert steps["added"]["hello"] == "1.1 0"
    assert "after it is built" in steps["added"]["alpha"]
    assert sorted(lab.root.rglob("*")) == files


def test_on_a_virgin_node_versions_are_said_to_be_unknown(lab, tmp_path):
    condas = Condas(tmp_path / "virgin", {}, tmp_path)
    after = condas.predict(lab.wish("conda-forge::python=3.12", "six>=1", pip=("alpha[x]==1",)), None, tmp_path)
    assert set(after) == {"python", "six", "alpha"}
    assert not (tmp_path / "virgin").exists()


@pytest.mark.parametrize(("cuda", "build"), [(None, "cpu_0"), ("12.8", "cuda128_1")])
def test_the_plan_and_not_the_driver_that_is_loaded_decides_on_cuda(lab, cuda, build):
    found = lab.make("python", "pytorch=2.13", cuda=cuda, framework="pytorch")
    assert found["pytorch"] == f"2.13.0 {build}"
    expected = json.loads((lab.root / "envs/lab" / venv.RECORD).read_text())["expected"]
    assert (expected["framework"], expected["version"], expected["cuda"]) == ("pytorch", "2.13.0", cuda)
    assert lab.reasons("python", "pytorch=2.13", cuda="13.0" if cuda else None, framework="pytorch") == []


def test_the_variables_are_set_where_the_user_has_not(lab):
    lab.make("python", variables={"GROWTH": "true"})
    assert lab.python("import os; print(os.environ['GROWTH'])") == "true"


def test_a_job_goes_on_with_what_it_was_started_with(lab):
    lab.make("python", "six=1.16")
    started = str(lab.root / "envs/lab/bin/python")
    code = (
        "import sys, subprocess; print(flush=True); sys.stdin.readline(); import six; print(six.version, flush=True);"
    )
    code += f"subprocess.run([sys.executable, '-c', {SIX!r}])"
    job = subprocess.Popen([started, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    job.stdout.readline()
    lab.make("python", "six=1.17")
    lab.make("python", "six=1.17", "hello")  # twice, so that the job's build is not merely the former one
    assert lab.python(SIX) == "1.17.0"
    assert job.communicate("go\n")[0] == "1.16.0\n1.16.0\n"


@pytest.mark.parametrize(
    ("damage", "because"),
    [
        ("rm lib/python3*/site-packages/six.py", "lib/python{release}/site-packages/six.py no longer exists"),
        ("rm bin/hello", "bin/hello no longer exists"),
        ("rm conda-meta/six-*.json", "conda-meta/six-1.16.0-0.json no longer exists"),
        ("truncate --size=40 conda-meta/six-*.json", "six-1.16.0-0.json is damaged"),
        (
            "touch lib/python{release}/site-packages/extra.py",
            "lib/python{release}/site-packages/extra.py was installed by hand",
        ),
        ("rm gpulab.json", "it does not exist"),
        ("truncate --size=40 gpulab.json", "it does not exist"),
    ],
)
def test_damage_is_found_and_repaired(lab, damage, because):
    wish = ("python", "six=1.16", "hello=1.0")
    lab.make(*wish)
    release = ".".join(PYTHON.split(".")[:2])
    subprocess.run(["sh", "-c", damage.format(release=release)], cwd=lab.root / "envs/lab", check=True)
    assert lab.reasons(*wish) == [because.format(release=release)]
    lab.make(*wish)
    assert lab.reasons(*wish) == []
    assert lab.python(SIX) == "1.16.0"


def refused(lab, *packages, **more):
    """Try to change an environment that works, and return the refusal; the former one is in use, and all there is."""
    lab.make("python", "six=1.16")
    with pytest.raises(Refusal) as refusal:
        lab.make(*packages, **more)
    assert lab.python(SIX) == "1.16.0"
    assert lab.reasons("python", "six=1.16") == []
    assert [path.name for path in (lab.root / "envs/.builds/lab").iterdir()] == ["1"]
    return refusal.value


def test_packages_that_do_not_fit_together_are_refused(lab):
    refusal = refused(lab, "old", "six=1.17")
    assert refusal.code == "E004"
    assert "old" in refusal.cause


def test_a_package_that_is_nowhere_is_refused(lab):
    assert refused(lab, "nowhere").code == "E031"


def test_a_channel_that_cannot_be_reached_is_refused(lab):
    refusal = refused(lab, "python", channels=("http://127.0.0.1:9/lab",))
    assert refusal.code == "E012"
    assert "127.0.0.1:9" in refusal.cause


def test_a_package_of_pip_that_is_nowhere_is_refused(lab):
    assert refused(lab, "python", pip=("nowhere==1",)).code == "E005"


@pytest.mark.parametrize("part", ["#", "--hash=sha256:"])
def test_a_file_with_another_sha256_is_refused(lab, part):
    lab.make("python", "six=1.17", pip=("alpha",))
    before, sign, after = lab.lock.rpartition(part) if part != "#" else lab.lock.partition("#")
    lock = before + sign + "0" * 64 + after[64:]
    lab.condas.remove("lab")
    builds.shutil.rmtree(lab.root / "envs/.cache")
    assert refused(lab, lock=lock).code == "E003"


def test_a_framework_that_cannot_be_imported_is_refused(lab):
    refusal = refused(lab, "python", "pytorch=2.14", framework="pytorch")
    assert refusal.code == "E008"
    assert "libcudart.so.13" in refusal.cause


def test_a_build_that_was_cut_off_is_done_over(lab):
    lab.make("python", "six=1.16")
    argv = lab.condas.make(lab.wish("python", "six=1.17", pip=("alpha",)))
    step = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    half = lab.root / "envs/.builds/lab/2/conda-meta"
    while not half.exists():
        time.sleep(0.001)
    os.killpg(step.pid, signal.SIGKILL)  # with what it started, which would go on writing
    step.wait()
    assert lab.python(SIX) == "1.16.0"
    assert lab.make("python", "six=1.17", pip=("alpha",))["alpha"] == "2.0 (pip)"
    assert lab.python(SIX) == "1.17.0"


def test_a_lock_makes_the_same_environment_elsewhere(lab, tmp_path):
    first = lab.make("python", "six=1.16", "pytorch=2.13", pip=("alpha<2",), framework="pytorch")
    lock = lab.lock
    assert lab.reasons(lock=lock, framework="pytorch") == []  # so there is nothing to link again
    lab.root = tmp_path / "elsewhere"
    assert lab.make(lock=lock, framework="pytorch") == first == conda.locked(lock).versions()
    assert lab.lock == lock
    assert lab.reasons(lock=lock, framework="pytorch") == []


def test_micromamba_with_another_sha256_is_not_taken_into_use(lab):
    condas = Condas(lab.root, {}, lab.root)
    with pytest.raises(Refusal) as refusal:
        condas.install_tool(lab.tool, "http://mirror/micromamba", "0" * 64)
    assert refusal.value.code == "E014"
    assert not lab.root.exists()


@pytest.mark.parametrize("place", ["conda-meta/history", "bin/micromamba"])
def test_another_installation_of_conda_is_left_alone(lab, place):
    path = lab.root / place
    path.parent.mkdir(parents=True)
    path.write_text("")
    with pytest.raises(Refusal) as refusal:
        Condas(lab.root, {}, lab.root).check_place()
    assert refusal.value.code == "E017"
    Condas(lab.root, {}, lab.root).clear()
    assert path.exists()


def test_what_somebody_else_made_is_never_touched(lab):
    (lab.root / "envs/lab").mkdir(parents=True)
    with pytest.raises(Refusal) as refusal:
        lab.condas.build("lab")
    assert refusal.value.code == "E001"


def test_all_of_it_goes_but_what_is_others(lab):
    lab.make("hello")
    lab.condas.check_place()
    (lab.root / "envs/alice").mkdir()
    lab.condas.remove("lab")
    assert lab.condas.is_there()
    Condas(lab.root, {}, lab.root.parent / "home").clear()
    assert sorted(lab.root.rglob("*")) == [lab.root / "envs", lab.root / "envs/alice"]
    (lab.root / "envs/alice").rmdir()
    condas = Condas(lab.root, {}, lab.root.parent / "home")
    condas.clear()
    assert not condas.is_there()
    assert not lab.root.exists()
    assert not (lab.root.parent / "home/.conda").exists()


def test_ten_environments_of_300_packages_are_looked_at_in_a_moment(lab):
    wish = functools.partial(replace, lab.wish("hello"))
    for number in range(10):
        build = lab.root / f"envs/.builds/lab{number}/1"
        (build / "conda-meta").mkdir(parents=True)
        for package in range(300):
            (build / f"conda-meta/package{package}-1.0-0.json").write_text("{}" * 1000)
        names, sizes = content(build)
        record = {"fingerprint": wish(name=f"lab{number}").fingerprint, "names": names, "sizes": sizes}
        (build / venv.RECORD).write_text(json.dumps(record))
        (lab.root / f"envs/lab{number}").symlink_to(f".builds/lab{number}/1")
    condas = lab.condas
    started = time.process_time()
    assert [conda.reasons(condas.build(f"lab{n}"), wish(name=f"lab{n}")) for n in range(10)] == [[]] * 10
    assert time.process_time() - started < 1


def test_an_environment_for_a_group_is_still_listed_for_everybody(lab):
    """For micromamba env list fails where it may not look whether conda-meta/history is there."""
    lab.make("python", "six=1.16")
    condas = lab.condas
    condas.groups = {"lab": 0}
    condas.give("lab")
    modes = {part.name: oct(part.stat().st_mode & 0o777) for part in (lab.root / "envs/lab").resolve().iterdir()}
    assert (modes["conda-meta"], modes["bin"], modes["lib"]) == ("0o755", "0o750", "0o750")
    assert oct((lab.root / "envs/.cache/pkgs").stat().st_mode & 0o777) == "0o700"
    assert (lab.root / "envs/.cache").stat().st_mode & 0o005
    assert lab.reasons("python", "six=1.16") == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to another user")
def test_environments_in_the_home_of_a_user_who_is_gone_are_named(tmp_path):
    condas = Condas(tmp_path / "conda", {}, tmp_path / "root", homes=tmp_path)
    for user, uid in (("ann", os.getuid()), ("bob", 54321)):
        own = tmp_path / user / ".conda/envs/mine"
        own.mkdir(parents=True)
        os.chown(own, uid, -1)
    assert condas.abandoned() == [str(tmp_path / "bob/.conda/envs/mine")]
