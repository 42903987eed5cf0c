"""Files that environments are requested by, read on the controller."""

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments import conda
from ansible_collections.gpulab.node.plugins.plugin_utils.environment_files import conda_files, requirement_lines

DIGEST = "5" * 64
ENVIRONMENT = {
    "name": "whatever",
    "channels": ["conda-forge", "nodefaults"],
    "dependencies": ["python=3.12", "numpy", {"pip": ["albumentations==2.0.8"]}],
    "variables": {"OMP_NUM_THREADS": 8},
}
LOCK = {
    "package": [
        {
            "name": "six",
            "version": "1.17.0",
            "manager": "conda",
            "platform": "linux-64",
            "hash": {"sha256": DIGEST},
            "url": "https://conda.anaconda.org/conda-forge/noarch/six-1.17.0-py_0.conda",
        },
        {
            "name": "six",
            "version": "1.16.0",
            "manager": "conda",
            "platform": "osx-64",
            "hash": {"sha256": DIGEST},
            "url": "https://conda.anaconda.org/conda-forge/noarch/six-1.16.0-py_0.conda",
        },
        {
            "name": "alpha",
            "version": "2.0",
            "manager": "pip",
            "platform": "linux-64",
            "hash": {"sha256": DIGEST},
            "url": "https://files.example/alpha-2.0.whl",
        },
    ],
}


@pytest.fixture
def resolve(tmp_path):
    """Return a function that resolves a wish, with files of these contents."""

    def call(architecture="x86_64", **wish):
        for key in ("file", "lock"):
            if key in wish:
                path = tmp_path / key
                path.write_text(wish[key] if isinstance(wish[key], str) else yaml.safe_dump(wish[key]))
                wish[key] = str(path)
        places = conda_files.CondaSources(**wish.pop("places", {}))
        return conda_files.resolve(
            {"name": "lab", **wish}, ["https://mirror.example/conda-forge"], architecture, places
        )

    return call


def test_an_environment_yml_is_read(resolve):
    found = resolve(file=ENVIRONMENT)
    assert found["packages"] == ["python=3.12", "numpy"]
    assert found["pip"] == ["albumentations==2.0.8"]
    assert found["channels"] == ["conda-forge"]
    assert found["variables"] == {"OMP_NUM_THREADS": 8}


def test_what_names_no_channel_takes_those_of_the_role(resolve):
    assert resolve(packages=["six"])["channels"] == ["https://mirror.example/conda-forge"]
    assert resolve(file={**ENVIRONMENT, "channels": ["nodefaults"]})["channels"] == [
        "https://mirror.example/conda-forge"
    ]


def test_what_is_unset_stays_so(resolve):
    """Null is none of a module's choices."""
    assert set(resolve(packages=["six"])) == {"name", "packages", "channels", "pip", "variables"}
    assert resolve(packages=["six"], framework="jax")["framework"] == "jax"


def test_a_conda_lock_file_becomes_an_explicit_one_of_the_platform(resolve):
    lock = conda.locked(resolve(lock=LOCK)["lock_text"])
    assert lock.versions() == {"six": "1.17.0 py_0", "alpha": "2.0 (pip)"}
    with pytest.raises(Refusal) as refusal:
        resolve("aarch64", lock=LOCK)
    assert "linux-aarch64" in refusal.value.cause


def test_an_explicit_lock_goes_as_it_is(resolve):
    text = f"@EXPLICIT\nhttps://a.example/noarch/six-1.17.0-py_0.conda#{DIGEST}\n"
    assert resolve(lock=text)["lock_text"] == text


@pytest.mark.parametrize("digests", [{}, {"md5": "0"}, {"sha256": None}, None])
@pytest.mark.parametrize("manager", ["pip", "conda"])
def test_a_package_of_a_conda_lock_file_without_its_digest_is_refused(resolve, manager, digests):
    package = {**LOCK["package"][0], "name": "dllogger", "manager": manager, "hash": digests}
    with pytest.raises(Refusal) as refusal:
        resolve(lock={"package": [package]})
    assert (refusal.value.code, "dllogger 1.17.0" in refusal.value.cause) == ("E007", True)


COMMON = f"https://mirror.example/packages/0a/1b/{'2' * 60}/alpha-2.0-py3-none-any.whl"
OF_CUDA = "https://mirror.example/whl/cu118/torch-2.0.1%2Bcu118-cp310-cp310-linux_x86_64.whl"
COMMIT = "4061b2ebca6938274d4db05b161ca519eb7c1eed"
REPOSITORY = "git+https://git.example/NVIDIA/dllogger.git"


@pytest.mark.parametrize(
    ("package", "line", "version"),
    [
        ({"url": COMMON}, f"alpha==2.0 --hash=sha256:{DIGEST}", "2.0 (pip)"),
        ({"url": f"{OF_CUDA}#x"}, f"alpha @ {OF_CUDA} --hash=sha256:{DIGEST}", "2.0.1+cu118 (pip)"),
        ({"url": f"{REPOSITORY}@{COMMIT}", "hash": {}}, f"alpha @ {REPOSITORY}@{COMMIT}", conda.UNKNOWN_OF_PIP),
    ],
)
def test_a_package_of_pip_comes_from_where_the_conda_lock_file_says(resolve, package, line, version):
    lock = resolve(lock={"package": [{**LOCK["package"][2], **package}]})["lock_text"]
    assert f"\n# pip {line}\n" in lock
    assert conda.locked(lock).versions() == {"alpha": version}


def test_a_branch_in_a_conda_lock_file_is_refused(resolve):
    package = {**LOCK["package"][2], "name": "dllogger", "url": f"{REPOSITORY}@main", "hash": {}}
    with pytest.raises(Refusal) as refusal:
        resolve(lock={"package": [package]})
    assert (refusal.value.code, "dllogger" in refusal.value.cause) == ("E007", True)


@pytest.mark.parametrize("channel", ["defaults", "main", "r", "pkgs/free"])
def test_the_channels_of_anaconda_are_refused_by_their_short_names(resolve, channel):
    for wish in ({"file": {**ENVIRONMENT, "channels": [channel]}}, {"packages": [f"{channel}::numpy"]}):
        with pytest.raises(Refusal) as refusal:
            resolve(**wish)
        assert refusal.value.code == "E016"
        assert "conda_defaults_channel" in refusal.value.remedy
        places = {"defaults": "conda-forge"}
        found = resolve(**wish, places=places)
        assert found["channels"] == ["conda-forge"] or found["packages"] == ["conda-forge::numpy"]
        with pytest.raises(Refusal):
            resolve(**wish, places={"defaults": "defaults"})
    assert resolve(packages=["six"], channels=["https://repo.anaconda.com/pkgs/main"])["channels"]


def test_one_channel_stands_for_all_of_anacondas_in_a_file(resolve):
    places = {"defaults": "conda-forge"}
    channels = ["pytorch", "defaults", "https://repo.anaconda.com/pkgs/r", "conda-forge"]
    file = {**ENVIRONMENT, "channels": channels}
    assert resolve(file=file, places=places)["channels"] == ["pytorch", "conda-forge"]
    own = ["https://repo.anaconda.com/pkgs/main"]
    assert resolve(file=file, channels=own, places=places)["channels"] == own


def test_the_channels_of_the_role_follow_those_of_a_file(resolve):
    """As conda does it; neither pytorch nor nvidia has a Python."""
    mirror = "https://mirror.example/conda-forge"
    for named, used in (
        (["pytorch", "nvidia"], ["pytorch", "nvidia", mirror]),
        (["pytorch", "nodefaults"], ["pytorch"]),
        (["conda-forge", "pytorch"], ["conda-forge", "pytorch"]),
    ):
        assert resolve(file={**ENVIRONMENT, "channels": named})["channels"] == used
    assert resolve(file=ENVIRONMENT, channels=["own"])["channels"] == ["own"]


@pytest.mark.parametrize("pip", [None, []])
def test_a_section_of_pip_that_is_empty_is_none(resolve, pip):
    """All of its lines may be comments (conda/conda#5680)."""
    assert resolve(file={"dependencies": ["python=3.10", "pip", {"pip": pip}]})["pip"] == []


def test_text_is_taken_as_ansible_takes_it_for_a_list(resolve):
    found = resolve(packages="python=3.10,six", channels="a,b", jupyter=True)
    assert (found["packages"], found["channels"]) == (["python=3.10", "six", "ipykernel"], ["a", "b"])


def test_files_that_a_file_names_are_read(resolve, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "requirements.txt").write_text(
        "# all\nalpha>=1  # new\n\n-r more/base.txt\nbeta[x]==1; \\\n  python_version>'3'\n"
    )
    (tmp_path / "more/base.txt").write_text("gamma==1.0 --hash=sha256:00\n")
    found = resolve(
        file={"dependencies": ["python", {"pip": ["-r requirements.txt", "delta"]}]}, replace={"alpha>=1": "alpha"}
    )
    assert found["pip"] == ["alpha", "gamma==1.0 --hash=sha256:00", "beta[x]==1;    python_version>'3'", "delta"]
    (tmp_path / "more/base.txt").write_text("-r ../requirements.txt\n")
    with pytest.raises(Refusal) as refusal:
        resolve(file={"dependencies": ["python", {"pip": ["-r requirements.txt"]}]})
    assert "to itself" in refusal.value.cause


@pytest.mark.parametrize(
    "version", ["=20.3", "==22.1.2", "<22", "<=22.1", " 20.3", "=21", "~=21.3", "=21.0.1=py36_0", ">=20,<22.2"]
)
def test_a_pip_that_cannot_say_what_it_installed_is_refused(resolve, version):
    file = {"dependencies": ["python", f"pip{version}", {"pip": ["eventlet"]}]}
    with pytest.raises(Refusal) as refusal:
        resolve(file=file)
    assert (refusal.value.code, "pip>=22.2" in refusal.value.remedy) == ("E018", True)
    assert resolve(file=file, replace={f"pip{version}": "pip>=22.2"})["packages"] == ["python", "pip>=22.2"]
    assert resolve(file={"dependencies": ["python", f"pip{version}"]})["packages"] == ["python", f"pip{version}"]


@pytest.mark.parametrize(
    "version", ["", ">=20", ">=19,<24", "=22", "=22.3.1=py36_0", "==23.0", " >= 21", "!=21.0", "=23.0=0"]
)
def test_a_pip_that_is_new_enough_or_may_be_is_taken(resolve, version):
    assert resolve(file={"dependencies": ["python", f"pip{version}", {"pip": ["eventlet"]}]})["pip"] == ["eventlet"]


@pytest.mark.parametrize(
    ("line", "why", "remedy"),
    [
        (".", "a path", "a wheel"),
        ("-e .", "editable install of a directory", "'-e .'"),
        ("submodules/simple-knn", "a path", "'submodules/simple-knn'"),
        ("/srv/x.whl", "a path", "a wheel"),
        ("x @ file:///srv/x.whl", "a path", "a wheel"),
        (REPOSITORY, "not name a full commit", "git ls-remote https://git.example/NVIDIA/dllogger.git"),
        (f"{REPOSITORY}@main", "not name a full commit", "git ls-remote https://git.example/NVIDIA/dllogger.git"),
        (f"dllogger @ {REPOSITORY}@5b838a8", "not name a full commit", "40 digits"),
        (f"-e {REPOSITORY}@{COMMIT}#egg=dllogger", "editable", "without -e"),
        (f"--editable={REPOSITORY}@{COMMIT}", "editable", "without -e"),
        ("git+file:///srv/x@" + COMMIT, "something that gpulab cannot lock", "a wheel"),
        ("hg+https://a.example/x@" + COMMIT, "something that gpulab cannot lock", "a wheel"),
        ("https://a.example/x", "something that gpulab cannot lock", "a wheel"),
        ("--extra-index-url https://me:secret@a.example/whl", "another index", "conda_extra_index_urls"),
        ("--find-links=https://a.example/whl", "another index", "conda_extra_index_urls"),
        ("--index-url https://a.example/simple", "another index", "conda_index_url"),
        ("-i https://a.example/simple", "another index", "conda_index_url"),
        ("--no-binary :all:", "an option of pip", "Remove it"),
        ("-c constraints.txt", "limits versions", "at the packages"),
        ("alpha --no-deps", "a pip option after", "only the package"),
    ],
)
def test_a_line_that_pip_cannot_be_given_is_refused_with_what_stands_in_for_it(resolve, line, why, remedy):
    file = {"dependencies": ["python", {"pip": ["numpy", line]}]}
    with pytest.raises(Refusal) as refusal:
        resolve(file=file)
    assert (refusal.value.code, why in refusal.value.cause, remedy in refusal.value.remedy) == ("E018", True, True), (
        refusal
    )
    assert "secret" not in f"{refusal.value}"
    assert resolve(file=file, replace={line: None})["pip"] == ["numpy"]
    with pytest.raises(Refusal) as refusal:
        resolve(packages=["python"], pip=[line])
    assert "replace" not in refusal.value.remedy


@pytest.mark.parametrize(
    "line",
    [
        f"{REPOSITORY}@{COMMIT}",
        f"dllogger @ {REPOSITORY}@{COMMIT}#subdirectory=x",
        "https://a.example/x-1.0-py3-none-any.whl",
        "x @ https://a.example/archive/main.tar.gz",
        "torch==2.0.1+cu118; sys_platform == 'linux'",
        "--pre",
    ],
)
def test_what_can_be_locked_is_taken(resolve, line):
    assert resolve(packages=["python"], pip=[line])["pip"] == [line]


def test_a_further_index_is_taken_where_the_role_names_it(resolve):
    pip = ["--extra-index-url https://a.example/whl/cu126", "torch", "--prefer-binary"]
    file = {"dependencies": ["python", {"pip": pip}]}
    assert resolve(file=file, places={"indexes": ["https://a.example/whl/cu126/"]})["pip"] == pip[:2]


@pytest.mark.parametrize("package", ["./x.conda", "/srv/x.conda", "--file=/etc/shadow", "-c evil", "file:///x.conda"])
def test_a_package_that_is_none_of_a_channel_is_refused(resolve, package):
    with pytest.raises(Refusal) as refusal:
        resolve(packages=["python", package])
    assert refusal.value.code == "E018"


@pytest.mark.parametrize("channel", ["defaults", "main", "r"])
def test_anacondas_are_known_below_an_alias(resolve, channel):
    with pytest.raises(Refusal):
        resolve(packages=["six"], channels=[channel], places={"alias": "https://mirror.example"})


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({}, "one of packages, file and lock"),
        ({"packages": ["six"], "file": ENVIRONMENT}, "one of packages, file and lock"),
        ({"file": "a: [\n"}, "expected"),
        ({"file": "just text"}, "not a mapping"),
        ({"file": {"dependencies": "six"}}, "not a list"),
        ({"file": {"dependencies": [{"npm": ["x"]}]}}, "npm"),
        ({"file": {"dependencies": ["python", {"pip": ["-r requirements.txt"]}]}}, "-r requirements.txt"),
        ({"file": {"dependencies": ["python", {"pip": ["-r ../../secret"]}]}}, "-r ../../secret points outside"),
        (
            {"file": {"dependencies": ["python", {"pip": ["-r https://a.example/b"]}]}},
            "-r https://a.example/b points outside",
        ),
        ({"file": {"dependencies": ["python", {"pip": "requests"}]}}, "its section pip is not a list"),
        ({"file": {"dependencies": ["python", {"pip": {"torch": 2.0}}]}}, "its section pip is not a list"),
        ({"file": {"dependencies": ["python", {"pip": [{"torch": 2.0}]}]}}, "{'torch': 2.0}"),
        ({"file": {"dependencies": ["python", {"pip": ["a\n-r b"]}]}}, "not a line of text"),
        ({"file": {"dependencies": ["python", 3]}}, "3, which is not a line of text"),
        ({"file": {"dependencies": ["python", None]}}, "None, which is not a line of text"),
        ({"file": {"name": "lab", "channels": ["conda-forge"]}}, "no dependencies"),
        ({"file": {"dependencies": []}}, "no dependencies"),
        ({"file": {**ENVIRONMENT, "channels": "conda-forge"}}, "its section channels is not a list"),
        ({"file": {**ENVIRONMENT, "channels": [None, "conda-forge"]}}, "None, which is not a line of text"),
        ({"file": {**ENVIRONMENT, "variables": ["A=1"]}}, "its section variables is not a mapping"),
        ({"file": {**ENVIRONMENT, "variables": {"A": None}}}, "its section variables is not a mapping"),
        ({"lock": {"package": None}}, "its section package is not a list"),
        ({"lock": {"package": ["six"]}}, "its section package is not a list"),
        ({"lock": {"package": [{"name": "six", "platform": "linux-64"}]}}, "no version"),
        ({"file": ENVIRONMENT, "replace": {"pip=20.3": None}}, "replace names pip=20.3, but the file has no such line"),
    ],
)
def test_what_cannot_be_used_is_refused(resolve, wish, says):
    with pytest.raises(Refusal) as refusal:
        resolve(**wish)
    assert refusal.value.code == "E018"
    assert says in refusal.value.cause


def test_a_file_that_is_not_there_is_refused():
    with pytest.raises(Refusal) as refusal:
        conda_files.resolve({"name": "lab", "file": "/nowhere/environment.yml"}, [], "x86_64")
    assert "/nowhere/environment.yml" in refusal.value.cause


@pytest.mark.parametrize(
    ("wish", "packages"),
    [
        ({"packages": ["six"]}, ["six", "ipykernel"]),
        ({"packages": ["six", "conda-forge::ipykernel=6"]}, ["six", "conda-forge::ipykernel=6"]),
        ({"packages": ["python"], "pip": ["ipykernel>6"]}, ["python"]),
        ({"file": ENVIRONMENT}, ["python=3.12", "numpy", "ipykernel"]),
    ],
)
def test_what_jupyter_needs_comes_with_the_wish_for_it(resolve, wish, packages):
    assert resolve(**wish, jupyter=True)["packages"] == packages


def test_a_lock_without_what_jupyter_needs_is_refused(resolve):
    text = f"@EXPLICIT\nhttps://a.example/noarch/{{}}-1.17.0-py_0.conda#{DIGEST}\n"
    assert resolve(lock=text.format("ipykernel"), jupyter=True)["packages"] == []
    with pytest.raises(Refusal) as refusal:
        resolve(lock=text.format("six"), jupyter=True)
    assert refusal.value.code == "E020"


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("alpha @ https://a.example/alpha-1.0-py3-none-any.whl", True),
        ("/srv/wheels/alpha-1.0-py3-none-any.whl", True),
        ("alpha @ file:///srv/wheels/alpha-1.0-py3-none-any.whl", True),
        ("wheels/alpha-1.0-py3-none-any.whl", False),
        ("/srv/alpha", False),
        ("alpha @ https://a.example/alpha-1.0.tar.gz", True),
        (f"{REPOSITORY}@{COMMIT}", False),
        (f"alpha @ git+https://github.com/a/alpha.git@{COMMIT}", True),
        (f"alpha @ git+https://github.com/a/alpha.git@{COMMIT}#subdirectory=b", False),
        ("--pre", False),
    ],
)
def test_uv_is_given_what_it_has_a_hash_of(line, taken):
    assert (requirement_lines.fault(line, sources=False) is None) is taken
