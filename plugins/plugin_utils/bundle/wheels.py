# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheels of environments: uv says which it takes for a Python on a machine, and which package index has them.

uv resolves here for the node's Python, machine and libc, with a lock where there is one. In the bundle they lie in a
package index of static pages, in which each file stands with its SHA-256.
"""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

import tomllib
from ansible_collections.gpulab.node.plugins.module_utils.core.environment_packages import normalized
from ansible_collections.gpulab.node.plugins.module_utils.environments import builds, uv_words, venv
from ansible_collections.gpulab.node.plugins.plugin_utils.bundle.fetching import File
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FILES, INDEX, BUILDS = "pypi/files", "pypi/simple", "pypi/whl"  # the last has an index for each build of PyTorch
LIBCS = (17, 28, *range(31, 41))  # of glibc 2, those that uv can resolve for; wheels for an older one fit a newer one
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Wheel:
    """A wheel: the package, its file, and the build whose index has it ("cu126"); empty for the common index."""

    name: str
    version: str
    file: File
    build: str = ""


@dataclass(frozen=True)
class Asked:
    """An environment of a host: what is wanted of it, the lock on the node, the machine and the version of its libc."""

    host: str
    wanted: venv.Wanted
    lock: str
    machine: str
    libc: str
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def platform(self) -> str:
        """Return the machine as uv calls it."""
        minor = int(self.libc.partition(".")[2])
        return f"{self.machine}-manylinux_2_{max((known for known in LIBCS if known <= minor), default=LIBCS[0])}"


def fetch_uv(requirement: str, machine: str, directory: Path) -> Path:
    """Fetch uv's wheel by pip into a directory and return its path. Raises Refusal E002 and the like, or E003."""
    directory.mkdir(parents=True, exist_ok=True)
    wanted = directory / "requirements.txt"
    wanted.write_text(requirement, encoding="utf-8")
    call = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-input",
        "--disable-pip-version-check",
        "--quiet",
        "--no-deps",
    ]
    call += ["--only-binary=:all:", "--require-hashes", "--platform", f"manylinux_2_17_{machine}"]
    call += ["--platform", f"manylinux_2_28_{machine}", "--dest", str(directory), "--requirement", str(wanted)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        raise venv.classify(done.stderr, "uv", "its message")
    return next(directory.glob("uv-*.whl"))


def unpack_uv(wheel: Path, directory: Path) -> Path:
    """Unpack uv's wheel into a directory and return the program."""
    call = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--upgrade"]
    subprocess.run([*call, "--disable-pip-version-check", "--target", str(directory), str(wheel)], check=True)
    return directory / "bin/uv"


class Uv:
    """uv on this machine, with a directory for what it is asked."""

    def __init__(self, directory: Path, program: Path) -> None:
        """Remember where it is."""
        self.directory = directory
        self.program = program

    def lock(self, asked: Asked) -> str:
        """Return the lock of an environment, in which the versions of the node's lock stay. Raises Refusal E."""
        wanted, work = asked.wanted, self._work(asked)
        if wanted.lock is not None:
            return wanted.lock
        (work / "pyproject.toml").write_text(venv.project(wanted), encoding="utf-8")
        more = ["--prerelease", "allow"] if wanted.prereleases else []
        for option, lines in (("--constraints", wanted.constraints), ("--overrides", wanted.overrides)):
            if lines:
                (work / option[2:]).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
                more += [option, str(work / option[2:])]
        output = work / "lock.txt"
        output.write_text(asked.lock, encoding="utf-8")
        self._compile(asked, work / "pyproject.toml", output, "--generate-hashes", "--only-binary", ":all:", *more)
        return uv_words.without_comments(output.read_text(encoding="utf-8"))

    def wheels(self, asked: Asked, lock: str) -> list[Wheel]:
        """Return the wheels that uv takes for a lock. Raises Refusal B011, which names packages that have none."""
        work = self._work(asked)
        text, output = work / "given.txt", work / "pylock.toml"
        text.write_text(lock, encoding="utf-8")
        output.unlink(missing_ok=True)
        self._compile(asked, text, output, "--no-deps", "--format", "pylock.toml")
        hashes, build = set(_HASH.findall(lock)), (asked.wanted.index or "").rstrip("/").rpartition("/")[2]
        own = {*map(normalized, asked.wanted.index_packages)}
        found, without = [], []
        for package in tomllib.loads(output.read_text(encoding="utf-8")).get("packages", []):
            fitting = [wheel for wheel in _wheels(package) if wheel["hashes"]["sha256"] in hashes]
            found += [_wheel(package, wheel, build if package["name"] in own else "") for wheel in fitting]
            without += [] if fitting else [package["name"]]
        if without:
            raise refuse("B011", name=asked.wanted.name, host=asked.host, names=", ".join(without))
        return found

    def _work(self, asked: Asked) -> Path:
        work = self.directory / "environments" / asked.host / asked.wanted.name
        work.mkdir(parents=True, exist_ok=True)
        return work

    def _compile(self, asked: Asked, given: Path, output: Path, *more: str) -> None:
        settings = {
            **os.environ,
            **builds.pip_settings(),
            **asked.settings,
            "UV_NO_PROGRESS": "1",
            "UV_SYSTEM_CERTS": "1",
        }
        if asked.wanted.index:
            settings["UV_INDEX"] = f"{asked.wanted.index} {settings.get('UV_INDEX', '')}".strip()
        call = [str(self.program), "pip", "compile", "--quiet", "--no-header", "--index-strategy", "unsafe-best-match"]
        call += [
            "--python",
            sys.executable,
            "--python-version",
            asked.wanted.python,
            "--python-platform",
            asked.platform,
            *more,
        ]
        done = subprocess.run(
            [*call, "--output-file", str(output), str(given)], env=settings, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise venv.classify(done.stderr, f"{asked.wanted.name} of {asked.host}", "its message")


def write_index(directory: Path, wheels: Iterable[Wheel]) -> None:
    """Write the pages of the indexes: one of all packages, and one for each build of PyTorch."""
    pages: dict[str, dict[str, File]] = {}
    for wheel in wheels:
        top = f"{BUILDS}/{wheel.build}" if wheel.build else INDEX
        pages.setdefault(f"{top}/{normalized(wheel.name)}", {})[wheel.file.path] = wheel.file
    for page, files in pages.items():
        (directory / page).mkdir(parents=True, exist_ok=True)
        up = "../" * (page.count("/") + 1)
        links = [
            f'<a href="{up}{quote(file.path)}#sha256={file.sha256}">{html.escape(path.rpartition("/")[2])}</a><br>\n'
            for path, file in sorted(files.items())
        ]
        (directory / page / "index.html").write_text(f"<!DOCTYPE html>\n{''.join(links)}", encoding="utf-8")


def _wheels(package: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the wheels of a package in a pylock.toml; one that is named by its address stands there as an archive."""
    archive = package.get("archive")
    found = package.get("wheels", []) + ([archive] if archive and archive.get("url", "").endswith(".whl") else [])
    return [wheel for wheel in found if wheel.get("hashes", {}).get("sha256")]


def _wheel(package: dict[str, Any], wheel: dict[str, Any], build: str) -> Wheel:
    url = wheel.get("url") or f"file://{quote(wheel['path'])}"
    name = unquote(urlsplit(url).path.rpartition("/")[2])
    version = package.get("version") or name.split("-")[1]
    file = File(f"{FILES}/{name}", url, wheel.get("size", 0), wheel["hashes"]["sha256"])
    return Wheel(package["name"], version, file, build)
