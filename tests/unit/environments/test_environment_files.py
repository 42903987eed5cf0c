"""Files of others: what is asked of uv for them, and what is said of those that cannot be used."""

import textwrap

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments import uv_words, venv
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve

from unit.plan import make

COMMIT = "5b838a8a0b0e5f0a1c1d2e3f405162738495a6b7"
A, B = "a" * 64, "b" * 64
CATALOG = catalog.load()


@pytest.fixture
def planned(tmp_path):
    """Return a function that writes files and plans an environment of the first of them."""

    def call(files, gpus=("10de:2330",), **wish):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(textwrap.dedent(text))
        wish = {"name": "lab", "file": str(tmp_path / next(iter(files))), **wish}
        given = options.complete({"gpulab_environments": [wish]})
        return resolve(make.facts("ubuntu-24.04", gpus), given, CATALOG, make.TODAY)["environments"][0]

    return call


def refused(planned, *given, **wish):
    with pytest.raises(Refusal) as refusal:
        planned(*given, **wish)
    return refusal.value


def test_a_requirements_file_is_read_with_those_that_it_names(planned):
    files = {
        "requirements.txt": "\ufeff-r more/base.txt\n-c limits.txt\nsix  # why\nw; os_name == 'nt'\n--prefer-binary\n",
        "more/base.txt": "numpy>=1.2,\\\n  <3\n",
        "limits.txt": "numpy<2\n",
    }
    part = planned(files)
    assert part["requirements"] == ["numpy>=1.2,   <3", "six", "w; os_name == 'nt'"]
    assert part["constraints"] == ["numpy<2"]
    assert (part["framework"], part["cuda"], part["index_url"]) == (None, None, None)


def test_all_that_is_in_the_way_is_told_at_once_with_the_edit(planned):
    bad = [
        "-e .",
        "git+https://github.com/a/b.git@main",
        "--find-links https://a.example/x.html",
        "./here",
        "-r gone.txt",
    ]
    files = {"requirements.txt": "\n".join(["six", *bad])}
    refusal = refused(planned, files)
    assert refusal.code == "E018"
    assert all(line in refusal.cause for line in bad), refusal.cause
    assert "'-e .': null" in refusal.remedy
    assert "git+https://github.com/a/b.git@COMMIT" in refusal.remedy
    edit = {**dict.fromkeys(bad), bad[1]: f"b @ git+https://github.com/a/b.git@{COMMIT}"}
    part = planned(files, replace=edit)
    assert part["requirements"] == ["six", f"b @ https://github.com/a/b/archive/{COMMIT}.zip"]
    assert "no such line" in refused(planned, files, replace={**edit, "-e ..": None}).cause


def test_a_framework_that_a_file_pins_is_planned_as_if_it_were_asked_for(planned):
    part = planned({"requirements.txt": "torch==2.4.1\nsix\n"}, index="pypi")
    assert (part["framework"], part["version"], part["index_url"]) == ("pytorch", "2.4.1", None)
    assert part["requirements"] == ["torch==2.4.1", "six"]
    assert refused(planned, {"requirements.txt": "torch==2.4.1\n"}, gpus=("10de:2901",)).code == "P035"  # a B200


@pytest.mark.parametrize(
    "text",
    [
        "--extra-index-url https://download.pytorch.org/whl/cu118\ntorch==2.4.1\n",
        "torch==2.4.1+cu118\n",
        "-f https://download.pytorch.org/whl/cu118/torch_stable.html\ntorch==2.4.1+cu118\n",
    ],
)
def test_an_index_of_pytorch_is_the_build_that_is_planned(planned, text):
    part = planned({"requirements.txt": text})
    assert (part["cuda"], part["index_url"].rpartition("/")[2]) == ("11.8", "cu118")
    assert part["requirements"] == ["torch==2.4.1"]


def test_a_line_can_be_replaced_by_the_name_that_uv_has_for_it(planned):
    """What is in the way is told by what uv was given, which is without +cu118."""
    part = planned({"requirements.txt": "torch==2.4.1+cu118\n"}, replace={"torch==2.4.1": "torch>=2.5,<2.6"})
    assert part["requirements"] == ["torch>=2.5,<2.6"]


def test_a_framework_that_a_file_only_limits_stays_as_it_is_and_is_tried(planned):
    part = planned({"requirements.txt": "torch>=2.4,<2.6\n"})
    assert part["requirements"] == ["torch>=2.4,<2.6"]
    assert (part["framework"], part["version"], part["cuda"]) == ("pytorch", None, venv.ANY)
    assert part["index_url"].rpartition("/")[2] == "cu124"  # the newest that 2.5.1 has for this node


def test_a_build_without_cuda_is_taken_where_the_file_asks_for_it(planned):
    part = planned({"requirements.txt": "-i https://download.pytorch.org/whl/cpu\ntorch\n"})
    assert (part["framework"], part["cuda"], part["index_url"].rpartition("/")[2]) == ("pytorch", None, "cpu")


PROJECT = """
[project]
name = "x"
requires-python = ">=3.9,<3.12"
dependencies = ["torch==2.4.1", "six"]
[project.optional-dependencies]
train = ["x[more]", "numpy"]
more = ["rich"]
[dependency-groups]
dev = ["pytest", {include-group = "lint"}]
lint = ["ruff"]
[tool.uv]
override-dependencies = ["numpy==1.26"]
constraint-dependencies = ["rich<14"]
[tool.uv.sources]
torch = [
  { index = "pypi", marker = "sys_platform == 'darwin'" },
  { index = "pytorch-cu118", marker = "sys_platform == 'linux'" },
]
[[tool.uv.index]]
name = "pytorch-cu118"
url = "https://download.pytorch.org/whl/cu118"
"""


def test_a_project_gives_its_dependencies_extras_and_groups(planned):
    part = planned({"pyproject.toml": PROJECT}, extras=["train"], groups=["dev"])
    assert sorted(part["requirements"]) == ["numpy", "pytest", "rich", "ruff", "six", "torch==2.4.1"]
    assert (part["overrides"], part["constraints"]) == (["numpy==1.26"], ["rich<14"])
    assert (part["python"], part["index_url"].rpartition("/")[2]) == ("3.11", "cu118")


def test_another_python_than_a_file_takes_is_refused(planned):
    assert refused(planned, {"pyproject.toml": PROJECT}, python="3.12").code == "E071"


def test_what_a_project_has_no_form_for_is_said(planned):
    assert "no extra gone, only more, train" in refused(planned, {"pyproject.toml": PROJECT}, extras=["gone"]).cause
    assert "poetry export" in refused(planned, {"pyproject.toml": "[tool.poetry]\nname = 'x'\n"}).cause
    dynamic = '[project]\nname = "x"\ndynamic = ["dependencies"]\n'
    assert "computed when the project is built" in refused(planned, {"pyproject.toml": dynamic}).cause
    files = {
        "pyproject.toml": dynamic + '[tool.setuptools.dynamic]\ndependencies = {file = ["r.txt"]}\n',
        "r.txt": "six",
    }
    assert planned(files)["requirements"] == ["six"]
    assert refused(planned, {"pyproject.toml": "[project"}).code == "E018"


def wheel(name, tag, digest):
    digests = f'hash = "sha256:{digest}", hashes = {{ sha256 = "{digest}" }}'
    return f'{{ url = "https://f.example/{name}-1-{tag}.whl", {digests} }}'


CU128 = '{ registry = "https://download.pytorch.org/whl/cu128" }'
UV = f"""
version = 1
requires-python = ">=3.10"
conflicts = [[{{ package = "x", extra = "cpu" }}, {{ package = "x", extra = "gpu" }}]]
[[package]]
name = "x"
source = {{ editable = "." }}
dependencies = [{{ name = "old", marker = "python_full_version < '3.11'" }}, {{ name = "sourced" }}]
[package.optional-dependencies]
gpu = [{{ name = "torch", version = "2.9.1+cu128", source = {CU128}, marker = "extra == 'extra-1-x-gpu'" }}]
[[package]]
name = "torch"
version = "2.9.1"
source = {{ registry = "https://index.example/simple" }}
[[package]]
name = "torch"
version = "2.9.1+cu128"
source = {CU128}
wheels = [{wheel("torch", "cp312-cp312-manylinux_2_28_x86_64", A)}, {wheel("torch", "cp312-cp312-win_amd64", B)}]
[[package]]
name = "old"
version = "1"
source = {{ registry = "https://index.example/simple" }}
wheels = [{wheel("old", "py3-none-any", A)}]
[[package]]
name = "sourced"
version = "1"
source = {{ registry = "https://index.example/simple" }}
sdist = {{ url = "https://f.example/s-1.tar.gz", hash = "sha256:{B}" }}
wheels = [{wheel("sourced", "cp39-cp39-macosx_11_0_arm64", A)}]
"""


def test_a_lock_of_uv_is_taken_for_this_machine_with_its_hashes(planned):
    part = planned({"uv.lock": UV}, extras=["gpu"])
    assert part["lock_text"].splitlines() == [
        "# built from source: sourced",
        f"sourced==1 --hash=sha256:{B}",
        f"torch==2.9.1+cu128 --hash=sha256:{A}",
    ]
    assert (part["index_url"].rpartition("/")[2], part["framework"], part["requirements"]) == ("cu128", "pytorch", [])


def test_an_extra_that_has_to_be_chosen_is_asked_for(planned):
    refusal = refused(planned, {"uv.lock": UV})
    assert ("Set extras: [gpu]" in refusal.remedy, "replace" in refusal.remedy) == (True, False)
    assert "exclude each other" in refused(planned, {"uv.lock": UV}, extras=["cpu", "gpu"]).cause


def test_what_a_lock_has_no_hash_of_is_told_and_can_be_left_out(planned):
    text = 'version = 1\n[[package]]\nname = "x"\nsource = { virtual = "." }\n'
    text += 'dependencies = [{ name = "g" }, { name = "e" }]\n'
    text += '[[package]]\nname = "g"\nversion = "1"\nsource = { git = "https://g.example/g#1" }\n'
    text += '[[package]]\nname = "e"\nsource = { editable = "e" }\n'
    refusal = refused(planned, {"uv.lock": text})
    assert "'g': null" in refusal.remedy
    assert "'e': null" in refusal.remedy
    assert planned({"uv.lock": text}, replace={"g": f"g==2 --hash=sha256:{A}", "e": None})["lock_text"] == (
        f"g==2 --hash=sha256:{A}\n"
    )


def test_a_pylock_is_taken_for_this_machine(planned):
    text = f"""
    lock-version = "1.0"
    requires-python = "==3.12.*"
    [[packages]]
    name = "six"
    version = "1"
    wheels = [{wheel("six", "py2.py3-none-any", A)}]
    [[packages]]
    name = "win"
    version = "1"
    marker = "sys_platform == 'win32'"
    wheels = [{wheel("win", "py3-none-any", A)}]
    """
    assert planned({"pylock.toml": text})["lock_text"] == f"six==1 --hash=sha256:{A}\n"


def test_a_list_with_hashes_is_a_lock_for_this_machine(planned):
    text = f"six==1 ; python_version >= '3.8' --hash=sha256:{A} \\\n  --hash=sha256:{B}\n"
    text += f"win==1 ; os_name == 'nt' --hash=sha256:{A}\n"
    part = planned({"requirements.txt": text})
    assert part["lock_text"] == f"six==1 --hash=sha256:{A} --hash=sha256:{B}\n"
    assert venv.locked(part["lock_text"]) == {"six": "1"}


def test_an_environment_file_of_pip_alone_is_one_without_conda(planned):
    text = "dependencies: [python=3.11, pip, {pip: [six, 'numpy<2']}]\n"
    part = planned({"environment.yml": text})
    assert (part["python"], part["requirements"]) == ("3.11", ["six", "numpy<2"])
    assert "conda_environments" in refused(planned, {"environment.yml": "dependencies: [pytorch=2.5]\n"}).remedy


@pytest.mark.parametrize(
    ("line", "system"),
    [("click=8.1.7=win_pyh7428d3b_0", "Windows"), ("pywin32=305", "Windows"), ("appnope=0.1.2", "macOS")],
)
def test_a_file_of_another_system_is_refused(planned, line, system):
    refusal = refused(planned, {"environment.yml": f"dependencies: [python=3.9, {line}]\n"})
    assert (refusal.code, system in refusal.cause) == ("E070", True)


def test_the_python_of_a_lock_is_one_that_its_packages_have_wheels_for(planned):
    """Physical-Intelligence/openpi: mujoco 2.3.7 has wheels for Python 3.11, not for 3.12."""
    text = f"""
    version = 1
    requires-python = ">=3.11"
    [[package]]
    name = "x"
    source = {{ virtual = "." }}
    dependencies = [{{ name = "m" }}]
    [[package]]
    name = "m"
    version = "1"
    source = {{ registry = "https://index.example/simple" }}
    sdist = {{ url = "https://f.example/m-1.tar.gz", hash = "sha256:{B}" }}
    wheels = [{wheel("m", "cp311-cp311-manylinux2014_x86_64", A)}]
    """
    part = planned({"uv.lock": text})
    assert (part["python"], part["lock_text"]) == ("3.11", f"m==1 --hash=sha256:{A}\n")
    assert uv_words.built(planned({"uv.lock": text}, python="3.12")["lock_text"]) == {"m": []}
