"""The pure part of conda environments: locks, what micromamba 2.8.1 printed, and what is compared with what."""

import json
from dataclasses import replace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments import conda, venv

SIX, HELLO = "6" * 64, "a" * 64
URL = "https://conda.anaconda.org/conda-forge"
LOCK = f"""# platform: linux-64
@EXPLICIT
{URL}/linux-64/hello-1.0-h123_0.conda#{HELLO}
{URL}/noarch/six-1.17.0-py_0.tar.bz2#sha256:{SIX}
# pip alpha==2.0 --hash=sha256:{SIX}
"""
WANTED = conda.Wanted("lab", ("python=3.12", "six"), ("conda-forge",), cuda="12.8")

# What micromamba prints, in parts: AGAIN was seen of mamba 2.8.1, the others have the form and words of its JSON.
AGAIN = {"dry_run": False, "log_history": [], "message": "All requested packages already installed", "success": True}
RELINKED = {"actions": {"LINK": [{"name": "six", "version": "1.17.0", "build_string": "py_0"}]}, "success": True}
CONFLICT = {
    "solver_problems": ["package old-1.0-0 requires six <1.17, but none of the providers can be installed"],
    "success": False,
}


def critical(message):
    return {"log_history": [{"level": "critical", "message": message}], "success": False}


UNREACHABLE = critical(
    "Multiple errors occured:\nDownload error (7) Could not connect to server [http://a/repodata.json]"
)
MISSING = critical("Transfer finalized, status: 404 [https://mirror.example/noarch/repodata.json.zst] 153 bytes")
DIGEST = critical('File not valid: SHA256 sum doesn\'t match expectation "/opt/conda/pkgs/six-1.17.0-py_0.conda"')
FULL = critical("filesystem error: cannot copy: No space left on device [/opt/conda/pkgs/six]")
PIP_FAILED = """ERROR: Could not find a version that satisfies the requirement nix==9
ERROR: No matching distribution found for nix==9
"""


@pytest.mark.parametrize(
    ("told", "printed", "code", "says"),
    [
        (CONFLICT, "", "E004", "old-1.0-0 requires six <1.17"),
        (UNREACHABLE, "", "E012", "Could not connect to server"),
        (MISSING, "", "E012", "status: 404"),
        (DIGEST, "", "E003", "six-1.17.0"),
        (FULL, "", "E011", "No space left"),
        (None, "OSError: [Errno 28] No space left on device\n", "E011", "No space left"),
        (AGAIN, PIP_FAILED, "E005", "nix==9"),
        (None, "Segmentation fault\n", "E009", "Segmentation fault"),
        (None, "", "E009", "it printed nothing"),
    ],
)
def test_failures_are_told_apart(told, printed, code, says):
    refusal = conda.classify(json.dumps(told) if told else "", printed, "lab", "/log")
    assert refusal.code == code
    assert says in refusal.cause
    assert venv.FORMER in refusal.remedy


def test_success_in_the_json_does_not_hide_a_failure_of_pip():
    """With a pip: section that fails micromamba says success, and ends with 1."""
    assert conda.succeeded(json.dumps(AGAIN), 0)
    assert not conda.succeeded(json.dumps(AGAIN), 1)
    assert conda.classify(json.dumps(AGAIN), PIP_FAILED, "lab", "/log").code == "E005"


@pytest.mark.parametrize("printed", ["", "killed", "{", "[]", '{"success": false}', '{"actions": {}}'])
def test_nothing_but_a_clear_success_is_one(printed):
    assert not conda.succeeded(printed, 0)


def test_json_is_found_behind_what_else_is_printed():
    assert conda.succeeded(f"warning  libmamba old cache\n{json.dumps(RELINKED)}", 0)
    assert conda.linked(json.dumps(RELINKED)) == {"six": "1.17.0 py_0"}


def found(record, names=("bin/python",), sizes=None):
    return venv.Build(1, {"names": ["bin/python"], "sizes": {}, **record}, names, python=True, sizes=sizes or {})


def test_a_lock_that_is_there_is_not_linked_again():
    """Of an explicit lock micromamba links everything again each time, so it is compared before micromamba runs."""
    wanted = conda.Wanted("lab", lock=LOCK)
    assert conda.reasons(found({"fingerprint": wanted.fingerprint}), wanted) == []
    assert conda.reasons(found({"fingerprint": WANTED.fingerprint, "content": wanted.fingerprint}), wanted) == []
    other = replace(wanted, lock=LOCK.replace(SIX, HELLO))
    assert conda.reasons(found({"content": wanted.fingerprint}), other) == ["its definition has changed"]


def test_a_pip_package_that_changes_is_a_change():
    """Of one micromamba's JSON says that all is installed already."""
    build = found({"fingerprint": replace(WANTED, pip=("alpha==1.0",)).fingerprint})
    assert conda.reasons(build, replace(WANTED, pip=("alpha==2.0",))) == ["its definition has changed"]


def test_the_driver_that_is_planned_decides_on_cuda_and_its_version_does_not():
    assert WANTED.fingerprint != replace(WANTED, cuda=None).fingerprint
    assert WANTED.fingerprint == replace(WANTED, cuda="13.0").fingerprint


def test_servers_do_not_decide_what_an_environment_holds():
    mirror = replace(WANTED, channels=("https://mirror.example/conda-forge/",))
    assert mirror.fingerprint == WANTED.fingerprint
    assert replace(WANTED, channels=("nvidia",)).fingerprint != WANTED.fingerprint
    elsewhere = LOCK.replace(URL, "https://mirror.example/conda-forge")
    assert conda.Wanted("lab", lock=LOCK).fingerprint == conda.Wanted("lab", lock=elsewhere).fingerprint


def test_damage_to_conda_meta_is_found():
    record = {"fingerprint": WANTED.fingerprint, "sizes": {"six-1.17.0-py_0.json": 900}}
    assert conda.reasons(found(record, sizes={"six-1.17.0-py_0.json": 900}), WANTED) == []
    assert conda.reasons(found(record, sizes={"six-1.17.0-py_0.json": 40}), WANTED) == [
        "six-1.17.0-py_0.json is damaged"
    ]
    assert conda.reasons(found(record, names=()), WANTED) == ["bin/python no longer exists"]
    assert conda.reasons(None, WANTED) == ["it does not exist"]


def test_a_lock_is_read_and_written():
    lock = conda.locked(LOCK)
    assert lock.versions() == {"hello": "1.0 h123_0", "six": "1.17.0 py_0", "alpha": "2.0 (pip)"}
    assert conda.locked(lock.text()) == lock
    assert "alpha" not in lock.explicit()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (f"{URL}/noarch/six-1.17.0-py_0.conda", "six-1.17.0-py_0.conda"),
        (f"{URL}/noarch/six-1.17.0-py_0.conda#{'0' * 32}", "0" * 32),
        ("six=1.17", "six=1.17"),
        ("# pip alpha==2.0", "alpha==2.0"),
    ],
)
def test_a_line_that_pins_nothing_is_refused(line, told):
    with pytest.raises(Refusal) as refusal:
        conda.locked(f"@EXPLICIT\n{line}\n")
    assert refusal.value.code == "E007"
    assert told in refusal.value.cause


def test_what_is_no_explicit_lock_is_refused():
    with pytest.raises(Refusal) as refusal:
        conda.locked("six==1.17.0 --hash=sha256:00\n")
    assert refusal.value.code == "E007"


def record(name, *depends):
    return {
        "name": name,
        "version": "1.0",
        "build": "0",
        "url": f"{URL}/noarch/{name}-1.0-0.conda",
        "sha256": SIX,
        "depends": depends,
    }


def test_a_lock_has_each_package_after_those_that_it_depends_on():
    records = [
        record("app", "lib >=1", "python"),
        record("lib", "python"),
        record("python", "loop"),
        record("loop", "python"),
    ]
    names = [package.name for package in conda.lock_of(records, {}).packages]
    assert sorted(names) == ["app", "lib", "loop", "python"]
    assert names.index("python") < names.index("lib") < names.index("app")


def test_a_package_without_its_digest_cannot_be_locked():
    with pytest.raises(Refusal) as refusal:
        conda.lock_of([{**record("app"), "sha256": None}], {})
    assert refusal.value.code == "E007"


def test_a_lock_has_what_pip_reported():
    info = {
        "metadata": {"name": "alpha", "version": "2.0"},
        "download_info": {"archive_info": {"hashes": {"sha256": SIX}}},
    }
    assert conda.lock_of([], {"install": [info]}).pip == (f"alpha==2.0 --hash=sha256:{SIX}",)


def installed(**source):
    """Return what pip reports of a package."""
    direct = {"is_direct": True} if source.pop("direct", False) else {}
    return {"install": [{"metadata": {"name": "alpha", "version": "2.0"}, "download_info": source, **direct}]}


HASHES = {"hashes": {"sha256": SIX}}
WHEEL = "https://mirror.example/alpha-2.0-py3-none-any.whl"
GIT = {"url": "https://git.example/x.git", "vcs_info": {"vcs": "git", "commit_id": "4" * 40}}


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (installed(url=WHEEL, archive_info=HASHES), f"alpha==2.0 --hash=sha256:{SIX}"),
        (installed(url=WHEEL, archive_info=HASHES, direct=True), f"alpha @ {WHEEL} --hash=sha256:{SIX}"),
        (installed(url=WHEEL, archive_info={"hash": f"sha256={SIX}"}), f"alpha==2.0 --hash=sha256:{SIX}"),  # pip 23.0
        (installed(**GIT, direct=True), f"alpha @ git+https://git.example/x.git@{'4' * 40}"),
        (
            installed(**GIT, subdirectory="a", direct=True),
            f"alpha @ git+https://git.example/x.git@{'4' * 40}#subdirectory=a",
        ),
    ],
)
def test_the_line_of_a_package_leads_there_again(report, line):
    lock = conda.lock_of([], report, ("--extra-index-url https://a.example", "--pre"))
    assert lock.pip == ("--extra-index-url https://a.example", line)
    assert conda.locked(lock.text()) == lock


@pytest.mark.parametrize(
    "source",
    [
        {"url": "file:///srv/alpha", "dir_info": {}},
        {"url": "https://a.example/x", "vcs_info": {"vcs": "hg", "commit_id": "4" * 40}},
        {"url": "https://a.example/x", "vcs_info": {"vcs": "git"}},
        {},
    ],
)
def test_a_package_of_a_place_that_can_change_cannot_be_locked(source):
    with pytest.raises(Refusal) as refusal:
        conda.lock_of([], installed(**source))
    assert (refusal.value.code, "alpha==2.0" in refusal.value.cause) == ("E030", True)


@pytest.mark.parametrize(
    "line", ["--requirement /etc/shadow", "-r x", "-e .", "--index-url https://a", "a @ git+https://a/b@main"]
)
def test_a_lock_has_packages_and_further_indexes_alone(line):
    with pytest.raises(Refusal) as refusal:
        conda.locked(f"@EXPLICIT\n# pip {line}\n")
    assert (refusal.value.code, line in refusal.value.cause) == ("E007", True)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("https://a.example/x/Alpha-1.0-py3-none-any.whl", "alpha"),
        (f"git+https://git.example/NVIDIA/dllogger.git@{'4' * 40}", "dllogger"),
        (f"git+https://git.example/x@{'4' * 40}#egg=clip", "clip"),
        ("beta @ https://a.example/x.zip", "beta"),
        ("conda-forge::numpy>=1", "numpy"),
    ],
)
def test_a_line_is_known_by_its_package(line, name):
    assert conda.name_of(line) == name


@pytest.mark.parametrize("archive", [{}, {"hashes": {"md5": "0"}}, {"hash": "md5=0"}])
def test_what_pip_reported_without_its_digest_cannot_be_locked(archive):
    """As pip before 23.1 does, where the index tells none."""
    info = {"metadata": {"name": "alpha", "version": "2.0"}, "download_info": {"archive_info": archive}}
    with pytest.raises(Refusal) as refusal:
        conda.lock_of([], {"install": [info]})
    assert refusal.value.code == "E022"


@pytest.mark.parametrize(
    ("packages", "version", "cuda"),
    [
        ({"pytorch": "2.9.1 cuda128_py312_300", "cuda-version": "12.8 h5"}, "2.9.1", "12.8"),
        ({"pytorch": "2.10.0 cuda130_py312_300", "cuda-version": "13.3 h5"}, "2.10.0", "13.0"),
        ({"pytorch": "2.5.1 py3.12_cuda12.4_cudnn9.1.0_0"}, "2.5.1", "12.4"),
        ({"pytorch": "2.9.1 cuda_py312_300", "cuda-version": "12.9 h5"}, "2.9.1", "12"),
        ({"pytorch": "2.9.1 cpu_py312_0", "cuda-version": "12.8 h5"}, "2.9.1", "any"),
        ({"torch": "2.9.1+cu130 (pip)"}, "2.9.1", "13.0"),
        ({"torch": "2.9.1 (pip)"}, "2.9.1", "any"),
        ({}, None, "any"),
    ],
)
def test_the_proof_expects_the_framework_that_was_installed(packages, version, cuda):
    expected = replace(WANTED, framework="pytorch").expected(packages)
    assert (expected["version"], expected["cuda"]) == (version, cuda)


@pytest.mark.parametrize(
    ("build", "answered", "asked"),
    [("cuda129_py312_202", "12", "six"), ("cuda130_py312_202", "13", "six"), ("cpu_py312_2", None, "jaxlib=*=cpu*")],
)
def test_the_build_of_jax_is_that_of_jaxlib(build, answered, asked):
    packages = {"jax": "0.7.2 pyhd8ed1ab_0", "jaxlib": f"0.7.1 {build}", "cuda-version": "13.3 h5"}
    expected = replace(WANTED, framework="jax", packages=(asked,)).expected(packages)
    answer = {"failure": None, "version": "0.7.2", "cuda": answered, "cpu_matmul": True}
    assert venv.faults(answer, expected) == []


@pytest.mark.parametrize(
    "asked", ["cpuonly", "pytorch::cpuonly", "pytorch-cpu=2.5", "pytorch=*=cpu*", "pytorch 2.5.1 cpu_1"]
)
def test_a_build_without_cuda_has_to_be_asked_for(asked):
    """conda/conda#14761: pytorch with torchvision resolves to a build for the CPU on a node with GPUs."""
    answer = {"failure": None, "version": "2.5.1", "cuda": None, "cpu_matmul": True}
    wanted = replace(WANTED, framework="pytorch", packages=("pytorch", "torchvision"))
    found = {"pytorch": "2.5.1 cpu_mkl_py312_h2a8c5bf_103"}
    (fault,) = venv.faults(answer, wanted.expected(found))
    assert "without CUDA" in fault
    assert venv.faults(answer, replace(wanted, packages=(asked,)).expected(found)) == []
    assert venv.faults(answer, replace(wanted, cuda=None).expected(found)) == []
