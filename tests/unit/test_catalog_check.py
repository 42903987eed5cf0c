"""What make catalog-check reads from the registries, and what it calls newer than the catalog."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import catalog_check

PIP = """torch (2.15.0)
Available versions: 2.15.0, 2.14.1, 2.13.0+cpu, 2.13.0, 2.13.0rc1
"""
MADISON = """ docker.io | 20.10.24+dfsg1-1+deb12u1 | http://mirror.example/debian bookworm/main amd64 Packages
nvidia-kernel-dkms | 535.309.01-0+deb12u1 | http://mirror.example/security bookworm-security/non-free amd64 Packages
    podman | 1:4.3.1+ds1-8 | http://mirror.example/debian bookworm/main amd64 Packages
"""
INDEX = """Package: cuda-toolkit-13-5
Version: 13.5.0-1

Package: cuda-toolkit-13-5-config-common
Version: 13.5.37-1

Package: nvidia-driver-pinning-620.10.01
Version: 620.10.01-1

Package: nvidia-driver-pinning-620
Version: 620.10.01-1
"""


def test_pip_names_releases():
    assert catalog_check.of_pip(PIP) == ["2.15.0", "2.14.1", "2.13.0"]


def test_apt_names_upstream_versions():
    assert catalog_check.of_madison(MADISON) == ["20.10.24", "535.309.01", "4.3.1"]


def test_nvidia_names_drivers_and_toolkits():
    assert catalog_check.of_repository(INDEX) == (["620.10.01"], ["13.5"])


def test_newer_lists_of_boards_are_named(monkeypatch):
    told = {
        "git": "1\trefs/tags/595.45.04\n2\trefs/tags/9999.1\n3\trefs/tags/620.70.06\n4\trefs/tags/620.70.06^{}\n",
        "apt-cache": "nvidia-driver | 560.10-1 | http://mirror.example/debian sid/non-free amd64 Packages\n",
    }
    monkeypatch.setattr(catalog_check, "ask", lambda *command: told[command[0]])
    sources = {"ogkm": "releases 515.43.04 to 595.45.04", "supported-gpus": "supported-gpus-550.163.01.json"}
    known, report = SimpleNamespace(read=lambda _name: {"sources": sources}), catalog_check.Report()
    catalog_check.ask_boards(known, report)
    assert report.news == ["boards (open kernel modules): 620.70.06", "boards: nvidia-driver (APT): 560.10"]


def test_both_architectures_of_a_repository_are_asked(monkeypatch):
    asked = []
    monkeypatch.setattr(catalog_check, "fetched", asked.append)
    report = catalog_check.Report()
    catalog_check.ask_nvidia(catalog_check.catalog.load(), report)
    assert any("/x86_64/" in url for url in asked)
    assert any("/sbsa/" in url for url in asked)
    assert len(report.unreached) == 2 * len(asked)


@pytest.mark.parametrize(
    ("known", "found", "news"),
    [
        (["9.28.0", "9.28.1"], ["9.29.0.3", "9.28.1.4", "9.27.0.42"], ["9.29.0.3"]),
        (["13.4", "13.5"], ["13.5", "13.6", "14.0"], ["14.0", "13.6"]),
        (["2.9.1"], ["2.10.0"], ["2.10.0"]),
        ([], ["620.10.01"], ["620.10.01"]),
        (["1.0"], [], []),
    ],
)
def test_only_what_is_newer_than_all_that_is_known_is_news(known, found, news):
    assert catalog_check.newer_than(known, found) == news


def test_who_does_not_answer_is_said_and_is_no_answer():
    report = catalog_check.Report()
    report.add("there", ["1.0"], None)
    report.add("here", ["1.0"], ["1.1", "0.9"])
    assert (report.unreached, report.news) == (["there"], ["here: 1.1"])


def test_a_program_that_fails_or_is_not_there_does_not_answer():
    assert catalog_check.ask(sys.executable, "-c", "print('x'); raise SystemExit(1)") is None
    assert catalog_check.ask("/nonexistent/program") is None
    assert catalog_check.ask(sys.executable, "-c", "print('x')") == "x\n"


def test_a_repository_that_is_not_there_does_not_answer(tmp_path):
    assert catalog_check.fetched(f"{tmp_path.as_uri()}/") is None


def test_the_program_finds_this_checkout_by_itself():
    """It is no test, so that nobody has made the collection importable for it."""
    program = Path(catalog_check.__file__)
    argv = [sys.executable, "-c", f"import {program.stem}"]
    subprocess.run(argv, cwd=program.parent, check=True, capture_output=True)
