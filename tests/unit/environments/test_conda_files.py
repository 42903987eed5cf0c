"""Files that environments are wished by, read on the controller."""

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils import conda
from ansible_collections.gpulab.node.plugins.module_utils.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils import conda_files

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
        return conda_files.resolve({"name": "lab", **wish}, ["https://mirror.example/conda-forge"], architecture)

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


@pytest.mark.parametrize("channel", ["defaults", "main", "r"])
def test_the_channels_of_anaconda_are_refused_by_their_short_names(resolve, channel):
    for wish in ({"file": {**ENVIRONMENT, "channels": [channel]}}, {"packages": [f"{channel}::numpy"]}):
        with pytest.raises(Refusal) as refusal:
            resolve(**wish)
        assert refusal.value.code == "E016"
    assert resolve(packages=["six"], channels=["https://repo.anaconda.com/pkgs/main"])["channels"]


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({}, "one of packages, file and lock"),
        ({"packages": ["six"], "file": ENVIRONMENT}, "one of packages, file and lock"),
        ({"file": "a: [\n"}, "expected"),
        ({"file": "just text"}, "no mapping"),
        ({"file": {"dependencies": "six"}}, "no list"),
        ({"file": {"dependencies": [{"npm": ["x"]}]}}, "npm"),
        ({"file": {"dependencies": ["python", {"pip": ["-r requirements.txt"]}]}}, "-r requirements.txt"),
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
