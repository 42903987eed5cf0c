"""Packages that have source code only, by the real uv and an index of the test's own."""

import hashlib
import io
import json
import tarfile

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments import locking, uv_words, venv

from . import wheels

pytestmark = pytest.mark.slow

BACKEND = """
import os, subprocess, zipfile
{before}
def wheel(directory, name="{name}-{version}-py3-none-any.whl"):
    info = "{name}-{version}.dist-info/"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as archive:
        archive.writestr("{name}/__init__.py", "built = True\\n")
        archive.writestr(info + "METADATA", open("PKG-INFO").read())
        archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(info + "RECORD", "")
    return name
def build_wheel(directory, *_more, **_named):
    return wheel(directory)
"""
COMPILES = "subprocess.run([os.environ.get('CC', 'cc'), '--version'], check=True)"


def source(directory, name, version, before=""):
    """Write source code that builds; before is run first."""
    path = directory / name / f"{name}-{version}.tar.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "build"\nbackend-path = ["."]\n',
        "build.py": BACKEND.format(name=name, version=version, before=before),
        "PKG-INFO": f"Metadata-Version: 2.2\nName: {name}\nVersion: {version}\n",
    }
    with tarfile.open(path, "w:gz") as archive:
        for inner, text in texts.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{inner}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Return an index: core 1.3 needs runtime 4.9, of which there is source code only, and so does made of native."""
    directory = tmp_path_factory.mktemp("index")
    for needs, version in ((["runtime==4.9.*"], "1.3"), ([], "0.11")):
        wheels.wheel(directory, "core", version, requires=needs)
    for needs, version in ((["native==4.9.*"], "1.3"), ([], "0.11")):
        wheels.wheel(directory, "made", version, requires=needs)
    source(directory, "runtime", "4.9.3")
    source(directory, "native", "4.9.3", COMPILES)
    source(directory, "foreign", "1.0", COMPILES)
    source(directory, "aged", "1.0", "import six")
    wheels.wheel(directory, "six", "1.0")
    wheels.wheel(directory, "top", "1.0", requires=["native==4.9.*"])
    wheels.wheel(directory, "top", "2.0")
    wheels.wheel(directory, "beside", "1.0", requires=["top<2"])
    for name in ("runtime", "native"):
        wheels.wheel(directory, name, "4.13")
    return directory


def notes(lab):
    return json.loads((lab.root / "lab/gpulab.json").read_text())["notes"]


def test_source_code_without_a_compiler_is_built_and_nothing_is_old(lab):
    """hydra-core: 0.11.3 of 2019 was taken, because antlr4-python3-runtime 4.9 has no wheel."""
    assert lab.make("core") == {"core": "1.3", "runtime": "4.9.3"}
    assert lab.python("import runtime; print(runtime.built)") == "True"
    assert [one["needed_by"] for one in notes(lab)["built"]] == ["core"]
    lock = (lab.root / "lab/gpulab.lock").read_text()
    assert uv_words.built(lock) == {"runtime": []}
    assert "--hash=sha256:" in lock.splitlines()[-1]
    assert lab.make(lock=lock) == {"core": "1.3", "runtime": "4.9.3"}  # on another node, by the lock alone


def test_an_old_version_for_want_of_a_wheel_is_named_with_the_newer_one(lab):
    assert lab.make("made") == {"made": "0.11"}
    (told,) = venv.told("lab", {"notes": notes(lab)})
    assert all(
        word in told for word in ("made 0.11 is taken, not 1.3", "native 4.9.3 is source code only", "made needs")
    )


def test_what_may_be_compiled_is_built_with_a_compiler(lab):
    assert lab.make("made", compile=("native",)) == {"made": "1.3", "native": "4.9.3"}
    assert notes(lab)["older"] == []


def test_all_that_cannot_be_had_is_told_at_once(lab):
    with pytest.raises(Refusal) as refusal:
        lab.make("native==4.9.3", "foreign", "nowhere", "core==7")
    assert refusal.value.code == "E068"
    for word in ("native 4.9.3 is source code only", "foreign 1.0 is", "has no nowhere", "has no core==7"):
        assert word in refusal.value.cause
    assert not (lab.root / "lab").exists()


def test_source_code_of_a_given_lock_is_tried_before_anything_is_installed(lab):
    digest = hashlib.sha256((lab.index / "native/native-4.9.3.tar.gz").read_bytes()).hexdigest()
    lock = f"{uv_words.BUILT}native\nnative==4.9.3 --hash=sha256:{digest}\n"
    with pytest.raises(Refusal) as refusal:
        lab.run(lab.venvs.lock(lab.wish(lock=lock)))
    assert (refusal.value.code, "native 4.9.3 is source code only" in refusal.value.cause) == ("E068", True)
    assert lab.venvs.lock(lab.wish(lock=lock.partition("\n")[2])) is None


@pytest.mark.parametrize(
    ("asked", "edit", "made"),
    [
        (["native==4.9.3 ; python_version > '3'"], {0: "native>=4.9.3 ; python_version > '3'"}, {"native": "4.13"}),
        (["core", "foreign==1.0"], {1: None}, {"core": "1.3", "runtime": "4.9.3"}),
        (["top==1.0", "six"], {0: "top>=1.0"}, {"six": "1.0", "top": "2.0"}),  # which needs what does not build
        (["top==1.0", "beside"], {0: "top>=1.0", 1: None}, {"top": "2.0"}),  # with which beside does not go together
    ],
)
def test_what_helps_is_told_as_the_setting_that_does_it(lab, asked, edit, made):
    """NVlabs/FoundationPose: pysdf has source code only, and torchnet needs visdom."""
    with pytest.raises(Refusal) as refusal:
        lab.make(*asked)
    told = ", ".join(f"{asked[number]!r}: {repr(line) if line else 'null'}" for number, line in edit.items())
    assert f"the others can be had: replace: {{{told}}}; null leaves a line out" in refusal.value.cause, refusal.value
    lines = [edit.get(number, line) for number, line in enumerate(asked)]
    assert lab.make(*(line for line in lines if line)) == made


def test_source_code_is_built_beside_what_it_takes_for_granted(lab):
    """Visdom 0.2.4 takes pkg_resources for granted, which setuptools has no longer."""
    assert lab.make("aged") == {"aged": "1.0"}
    lock = (lab.root / "lab/gpulab.lock").read_text()
    assert uv_words.built(lock) == {"aged": ["six"]}
    (lab.root / "lab").unlink()
    assert lab.make(lock=lock) == {"aged": "1.0"}  # by the lock alone


def test_an_index_is_asked_once_for_a_lock_however_many_rounds_it_takes(lab, monkeypatch):
    """A mirror that says nothing of caching was asked for everything again in every round."""
    asked = []
    monkeypatch.setattr(wheels.Handler, "do_GET", _noting(wheels.Handler.do_GET, asked))
    with pytest.raises(Refusal):
        lab.make("native==4.9.3", "foreign", "core==1.3", "made")
    assert {one for one in asked if asked.count(one) > 1 and not one.endswith(".tar.gz")} == set()


def _noting(method, asked):
    def get(self):
        asked.append(self.path)
        return method(self)

    return get


def test_that_nothing_more_is_tried_is_said(tmp_path):
    given = {"scratch": str(tmp_path), "compile": [], "beside": {}, "python": "3.12", "pythons": ["3.12"]}
    making = locking.Locking({**given, "requirements": ["a==1"]})
    making.blocked = {"a": "it does not build"}
    assert making.helps(0) == "what helps was looked for during 0 seconds, and not found"


def test_a_file_that_cannot_be_fetched_is_not_called_one_that_does_not_build(lab):
    """ENCCS/python-for-hpc pylock.toml names an archive of a place that a node may not reach."""
    lock = f"{uv_words.BUILT}far\nfar @ http://127.0.0.1:9/far-1.zip --hash=sha256:{'0' * 64}\n"
    with pytest.raises(Refusal) as refusal:
        lab.run(lab.venvs.lock(lab.wish(lock=lock)))
    assert refusal.value.code == "E002", refusal.value


def test_packages_that_only_conflict_are_told_as_a_conflict(lab):
    with pytest.raises(Refusal) as refusal:
        lab.make("core==1.3", "runtime==4.13")
    assert refusal.value.code == "E004"


def test_a_package_that_has_a_wheel_for_this_machine_is_not_source_code():
    text = '[[packages]]\nname = "a"\nsdist = {}\n\n[[packages]]\nname = "B_c"\nsdist = {}\nwheels = [{}]\n'
    assert uv_words.without_wheel(text) == ["a"]


def test_who_needs_a_package_is_read_from_the_notes_of_uv():
    text = (
        "a==1 \\\n    --hash=sha256:00\n    # via\n    #   b\n    #   gpulab-lab (pyproject.toml)\nb==2\n    # via c\n"
    )
    assert uv_words.via(text) == {"a": ["b"], "b": ["c"]}


def test_what_is_asked_for_is_read_from_why_uv_has_no_solution():
    said = (
        "  cause: Because all versions of c have no usable wheels and b>=1 depends on c, we can conclude that b>=1"
        " cannot be used.\n         And because gpulab-lab depends\n         on b==1 and D_e>=2,<3, we can conclude"
        " that your requirements are unsatisfiable.\n"
    )
    assert uv_words.asked_for(said) == {"b", "d-e"}
    text = "a==1\n    # via b\nb==2\n    # via c\nc==1\n    # via\n    #   d\n    #   e\n"
    assert uv_words.above(text, "a", {"b", "c"}) == {"b"}
    assert uv_words.above(text, "a", {"d", "e"}) == {"d", "e"}
