"""The pure part of virtual environments."""

import hashlib
import json
from dataclasses import replace

import pytest
from ansible_collections.gpulab.node.plugins.filter.venv_options import venv_options
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.environments import venv

WANTED = venv.Wanted("lab", "3.11", ("torch==2.13.0",), "https://mirror.example/whl/cu130", ("torch",))

# What uv 0.13.9 printed on a machine, in parts.
CONFLICT = """error: No solution found when resolving dependencies
  cause: Because torch==2.13.0 depends on sympy>=1.13.3 and you require torch==2.13.0, we can conclude that you \
require sympy>=1.13.3.
         And because you require sympy==1.10, we can conclude that your requirements are unsatisfiable.
"""
UNREACHABLE = """error: Request failed after 3 retries in 5.9s
  cause: Failed to fetch: http://127.0.0.1:9/simple/numpy/
  cause: error sending request for url (http://127.0.0.1:9/simple/numpy/)
  cause: client error (Connect)
  cause: tcp connect error
  cause: Connection refused (os error 111)
"""
PYTHON = """error: Request failed after 3 retries in 8.0s
  cause: Failed to download `https://mirror.example/python-build-standalone/releases/cpython-3.12.16.tar.gz`
  cause: error sending request for url (https://mirror.example/python-build-standalone/releases/cpython-3.12.16.tar.gz)
"""
HASH = """Downloading numpy (16.1MiB)
error: Failed to download `mpmath==1.3.0`
  cause: Hash mismatch for `mpmath==1.3.0`

         Expected:
           sha256:0a28eb2a9774d00c7bc92411c19a89209d5da7c4c9a9e227be8330a23a25b91f
"""
NO_HASH = (
    "error: In `--require-hashes` mode, all requirements must have a hash, but none were provided for: six==1.17.0\n"
)
FULL = "error: Failed to install: numpy\n  cause: failed to write: No space left on device (os error 28)\n"
PIP = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n    uv==0.13.9\n"


@pytest.mark.parametrize(
    ("printed", "code", "says"),
    [
        (CONFLICT, "E004", "And because you require sympy==1.10"),
        (UNREACHABLE, "E002", "Connection refused"),
        (PYTHON, "E006", "cpython-3.12.16"),
        (HASH, "E003", "mpmath==1.3.0"),
        (NO_HASH, "E003", "six==1.17.0"),
        (FULL, "E011", "No space left"),
        (PIP, "E003", "DO NOT MATCH"),
        ("Segmentation fault\n", "E009", "Segmentation fault"),
        ("", "E009", "nothing"),
    ],
)
def test_failures_are_told_apart(printed, code, says):
    refusal = venv.classify(printed, "lab", "/log")
    assert refusal.code == code
    assert says in refusal.cause
    assert "The former environment stays in use." in refusal.remedy


def test_a_lock_is_read():
    text = (
        "# note\nAlpha_x==1.0 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\ntorch==2.13.0+cpu --hash=sha256:22\n"
    )
    assert venv.locked(text) == {"alpha-x": "1.0", "torch": "2.13.0+cpu"}


def test_a_lock_with_addresses_and_indexes_is_read():
    text = "--index-url https://a.example\n--extra-index-url https://b.example\n"
    text += (
        "flash_attn @ https://a.example/flash_attn-2.7.4%2Bcu12-cp311-cp311-linux_x86_64.whl \\\n    --hash=sha256:00\n"
    )
    assert venv.locked(text) == {"flash-attn": "2.7.4+cu12"}


@pytest.mark.parametrize(
    "line",
    [
        *("alpha", "alpha>=1 --hash=sha256:00", "alpha==1.0", "-r other.txt", "--requirement /etc/shadow"),
        *(
            "--editable .",
            "alpha @ https://a.example/alpha-1.0-py3-none-any.whl",
            "alpha @ git+https://a.example/b@main",
        ),
    ],
)
def test_a_lock_that_pins_nothing_is_refused(line):
    with pytest.raises(Refusal) as refusal:
        venv.locked(f"{line}\n")
    assert refusal.value.code == "E007"


def test_a_lock_without_a_requested_package_is_refused():
    lock = "torch==2.13.0+cpu --hash=sha256:22\nzope-interface==1 --hash=sha256:33\n"
    requested = ("torch[extra]==2.13.0", "Zope.Interface>0", 'tomli; python_version < "3.11"', "./wheels/x.whl")
    venv.check_lock(venv.Wanted("lab", "3.11", requested, lock=lock))
    venv.check_lock(venv.Wanted("lab", "3.11", ("ipykernel",)))
    with pytest.raises(Refusal) as refusal:
        venv.check_lock(venv.Wanted("lab", "3.11", ("torch", "ipykernel"), lock=lock))
    assert (refusal.value.code, "not contain ipykernel" in refusal.value.cause) == ("E020", True)


def test_another_mirror_of_the_same_index_changes_nothing_and_another_build_does():
    def fingerprint(index):
        return venv.Wanted("lab", "3.11", ("torch==2.13.0",), index, ("torch",)).fingerprint

    assert fingerprint("https://other.example/pytorch/cu130/") == WANTED.fingerprint
    assert fingerprint("https://mirror.example/whl/cu126") != WANTED.fingerprint


def test_only_the_named_packages_come_from_the_index_of_the_plan():
    assert venv.project(WANTED).splitlines()[5:] == [
        "[[tool.uv.index]]",
        'name = "plan"',
        'url = "https://mirror.example/whl/cu130"',
        "explicit = true",
        "[tool.uv.sources]",
        'torch = { index = "plan" }',
    ]


def test_settings_of_pip_are_handed_to_uv():
    system = "[global]\ncert = /etc/ssl/ca.crt\nproxy = http://proxy.example:3128\n"
    users = "[global]\nindex-url = https://mirror.example/simple\ntimeout = 60\n[install]\nfind-links = /a\n  /b\n"
    assert venv.pip_settings([system, users]) == {
        "UV_DEFAULT_INDEX": "https://mirror.example/simple",
        "UV_FIND_LINKS": "/a,/b",
        "UV_HTTP_TIMEOUT": "60",
        "SSL_CERT_FILE": "/etc/ssl/ca.crt",
        "HTTPS_PROXY": "http://proxy.example:3128",
        "HTTP_PROXY": "http://proxy.example:3128",
    }
    assert venv.pip_settings(["", ""]) == {}


def test_several_indexes_are_taken_as_pip_takes_them():
    """The best of all; uv by itself stops at the first that has the name (astral-sh/uv#2775)."""
    found = venv.pip_settings(["[global]\nindex_url = https://a.example\nextra-index-url =\n  https://b.example\n"])
    assert found == {
        "UV_DEFAULT_INDEX": "https://a.example",
        "UV_INDEX": "https://b.example",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_a_later_file_of_pip_wins():
    texts = ["[global]\nindex-url = https://one.example/\n", "[global]\nindex-url = https://two.example/\n"]
    assert venv.pip_settings(texts) == {"UV_DEFAULT_INDEX": "https://two.example/"}


@pytest.mark.parametrize(
    ("answered", "planned", "right"),
    [
        ("13.0", "13.0", True),
        ("12", "12.1", True),
        ("12.5.1", "12.5", True),
        ("12.6", "13.0", False),
        (None, "13.0", False),
    ],
)
def test_cuda_versions_agree_as_far_as_both_go(answered, planned, right):
    expected = {"framework": "jax", "version": None, "cuda": planned}
    answer = {"failure": None, "version": "0.9.2", "cuda": answered, "cpu_matmul": True}
    assert (venv.faults(answer, expected) == []) is right


def test_options_of_the_module_come_from_the_plan(tmp_path):
    (tmp_path / "a.lock").write_text("alpha==1.0 --hash=sha256:00\n")
    planned = {
        **dict.fromkeys(("requirements", "index_packages", "variables", "framework", "version", "cuda", "group")),
        "name": "lab",
        "jupyter": True,
        "python": "3.11",
        "because": ["x"],
        **dict.fromkeys(("constraints", "overrides", "compile", "prereleases", "lock_text")),
        "index_url": "https://download.pytorch.org/whl/cu130",
        "lock": str(tmp_path / "a.lock"),
    }
    (options,) = venv_options([planned], "https://mirror.example/pytorch/")
    assert {"because", "jupyter", "framework"}.isdisjoint(options)
    assert options["index_url"] == "https://mirror.example/pytorch/cu130"
    assert options["lock"] == "alpha==1.0 --hash=sha256:00\n"
    (options,) = venv_options([{**planned, "lock": None, "lock_text": "beta==1.0 --hash=sha256:00\n"}])
    assert (options["index_url"], options["lock"]) == (planned["index_url"], "beta==1.0 --hash=sha256:00\n")


def test_what_came_with_a_later_gpulab_rebuilds_nothing_where_it_is_not_set():
    """The digest of an environment before constraints, overrides, compile and prereleases were known."""
    given = {"name": "lab", "python": "3.12", "requirements": ["six"], "index_packages": [], "lock": None}
    former = {**given, "variables": {}, "framework": None, "version": None, "cuda": None, "index": ""}
    digest = hashlib.sha256(json.dumps(former, sort_keys=True).encode()).hexdigest()
    wanted = venv.Wanted("lab", "3.12", ("six",))
    assert wanted.fingerprint == digest
    assert replace(wanted, compile=("six",)).fingerprint != digest


def test_a_local_version_of_pytorch_is_about_its_index():
    """NVlabs/FoundationPose: torch==2.0.0+cu118. The words of uv 0.13.9."""
    said = (
        "error: No solution found when resolving dependencies:\n  cause: Because there is no version of"
        " torch==2.0.0+cu118 and gpulab-lab depends on torch==2.0.0+cu118, we can conclude that your requirements are"
        " unsatisfiable.\n"
    )
    refusal = venv.classify(said, "lab", "/log")
    assert (refusal.code, "index: cu118" in refusal.remedy) == ("E069", True), refusal


@pytest.mark.parametrize(
    ("text", "tool"), [('version = 1\n\n[[package]]\nname = "torch"\n', "uv.lock"), ("[[packages]]\n", "pylock.toml")]
)
def test_a_lock_of_another_form_is_known_by_its_face(text, tool):
    with pytest.raises(Refusal) as refusal:
        venv.locked(text)
    assert (refusal.value.code, tool in refusal.value.cause) == ("E072", True), refusal.value


@pytest.mark.parametrize("port", [40771, 407, 404, 401])
def test_a_port_is_no_status_of_http(port):
    page = f"Skipping page http://127.0.0.1:{port}/alpha/ because the GET request got Content-Type: text/plain."
    refusal = venv.classify(f"WARNING: {page}\nERROR: No matching distribution found for alpha", "lab", "/log")
    assert "login page" in refusal.remedy, refusal
