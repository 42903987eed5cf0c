"""Toolkits of wheels are fetched by their hashes, lie as those of packages do, and are kept whole."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.cuda import wheels as toolkits

from unit.environments import wheels as made

pytestmark = pytest.mark.slow


class Laboratory:
    """A node's /usr/local, an index with two wheels of NVIDIA's form, and the steps that a controller would take."""

    def __init__(self, root, index, url):
        """Keep where they are; nothing is made yet."""
        self.root, self.url = root, url
        self.toolkits = toolkits.WheelToolkits(root)
        self.wheels = [
            wheel(index, "nvcc", {"bin/nvcc": "#!/bin/sh\necho 13.0\n", "include/cuda.h": "#define A 1\n"}),
            wheel(index, "runtime", {"lib/libcudart.so.13": "x", "lib/libcudart_static.a": "y"}),
        ]

    def wanted(self, version="13.0", wheels=None):
        """Return what is wanted."""
        return toolkits.WantedToolkit(version, toolkits.requirements(self.wheels if wheels is None else wheels))

    def fetch(self, wanted):
        """Run the script that fetches; return what came of it."""
        argv = self.toolkits.fetch(wanted, self.url, {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INPUT": "1"})
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    def make(self, *arguments):
        """Make a toolkit, as the action plugin does."""
        wanted = self.wanted(*arguments)
        done = self.fetch(wanted)
        assert done.returncode == 0, done.stderr
        self.toolkits.finish(wanted)
        return self.root / f"cuda-{wanted.version}"


def wheel(index, name, files):
    """Write a wheel that has files below nvidia/cu13, and return its {name, version, sha256}."""
    path = made.wheel(index, name, "13.0.1")
    record, info = "", f"{name}-13.0.1.dist-info"
    with zipfile.ZipFile(path) as old:
        kept = {entry: old.read(entry) for entry in old.namelist() if entry.startswith(info) and "RECORD" not in entry}
    with zipfile.ZipFile(path, "w") as new:
        for inner, content in {
            **{f"{toolkits.TREE}/{one}": text.encode() for one, text in files.items()},
            **kept,
        }.items():
            entry = zipfile.ZipInfo(inner)
            entry.external_attr = (0o100755 if "/bin/" in inner else 0o100644) << 16
            new.writestr(entry, content)
            record += f"{inner},sha256={made.digest(content)},{len(content)}\n"
        new.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"name": name, "version": "13.0.1", "sha256": sha256}


@pytest.fixture
def lab(tmp_path):
    index = tmp_path / "index"
    (tmp_path / "local").mkdir()
    server = made.serve(index)
    yield Laboratory(tmp_path / "local", index, server.url)
    server.shutdown()


def test_a_toolkit_is_made_and_found_with_the_names_of_nvidias_packages(lab):
    assert lab.toolkits.reasons(lab.wanted()) == ["it does not exist"]
    prefix = lab.make()
    assert subprocess.check_output([prefix / "bin/nvcc"], text=True) == "13.0\n"
    assert (prefix / "lib64/libcudart.so").read_text() == "x"
    assert (prefix / toolkits.METADATA / "nvcc-13.0.1.dist-info/METADATA").exists()
    assert lab.toolkits.reasons(lab.wanted()) == []
    assert lab.toolkits.versions() == ["13.0"]
    assert [path.name for path in lab.root.iterdir()] == ["cuda-13.0"]


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("rm bin/nvcc", "bin/nvcc"),
        ("sed -i s/1/2/ include/cuda.h", "include/cuda.h"),
        ("rm -r lib", "lib/libcudart.so.13"),
        ("truncate --size=9 gpulab.json", None),
    ],
)
def test_damage_is_found_and_repaired(lab, damage, named):
    prefix = lab.make()
    subprocess.run(["sh", "-c", damage], cwd=prefix, check=True)
    (because,) = lab.toolkits.reasons(lab.wanted())
    assert named is None or because.endswith(f"such as {named}")
    lab.make()
    assert lab.toolkits.reasons(lab.wanted()) == []


def test_other_wheels_make_it_again(lab):
    lab.make()
    assert lab.toolkits.reasons(lab.wanted("13.0", lab.wheels[:1])) == ["other wheels are planned"]
    prefix = lab.make("13.0", lab.wheels[:1])
    assert not (prefix / "lib/libcudart.so.13").exists()


def test_a_wheel_that_was_altered_on_its_way_is_not_taken_and_the_former_toolkit_stays(lab):
    prefix = lab.make()
    wheels = [{**lab.wheels[0], "sha256": "0" * 64}]
    done = lab.fetch(lab.wanted("13.0", wheels))
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert subprocess.check_output([prefix / "bin/nvcc"], text=True) == "13.0\n"
    lab.toolkits.clean()
    assert lab.toolkits.reasons(lab.wanted()) == []


def test_somebody_elses_toolkit_is_refused_and_left(lab):
    theirs = lab.root / "cuda-13.0/bin/nvcc"
    theirs.parent.mkdir(parents=True)
    assert lab.toolkits.reasons(lab.wanted()) == ["it does not exist"]  # what a package leaves is empty
    theirs.write_text("theirs")
    with pytest.raises(Refusal) as refused:
        lab.toolkits.reasons(lab.wanted())
    assert refused.value.code == "C004"
    assert lab.toolkits.reasons(lab.wanted(), replaced=True) == ["it does not exist"]
    assert lab.toolkits.versions() == []


def test_what_somebody_copied_into_a_toolkit_stays_when_it_is_made_again_and_when_it_goes(lab):
    prefix = lab.make()
    (prefix / "lib/libcudnn.so.9").write_text("theirs")
    (prefix / "samples").mkdir()
    (prefix / "samples/own.cu").write_text("theirs")
    (prefix / "bin/nvcc").write_text("damaged")
    lab.make()
    assert lab.toolkits.reasons(lab.wanted()) == []
    lab.toolkits.remove("13.0", lambda _argv: None)
    left = {str(path.relative_to(prefix)): path.read_text() for path in prefix.rglob("*") if path.is_file()}
    assert left == {"lib/libcudnn.so.9": "theirs", "samples/own.cu": "theirs"}
    assert lab.toolkits.versions() == []


def test_a_toolkit_goes_with_its_alternative_and_others_stay(lab):
    lab.make()
    lab.make("13.2")
    called = []
    lab.toolkits.remove("13.0", called.append)
    assert called == [["update-alternatives", "--remove", "cuda", str(lab.root / "cuda-13.0")]]
    assert lab.toolkits.versions() == ["13.2"]


def test_the_script_keeps_the_password_of_an_index_to_root(lab):
    argv = lab.toolkits.fetch(lab.wanted(), "https://user:secret@index.example/simple", {})
    assert not any("secret" in word for word in argv)
    script = lab.root / toolkits.WORK / "13.0/fetch.sh"
    assert "secret" in script.read_text()
    assert script.stat().st_mode & 0o077 == 0
