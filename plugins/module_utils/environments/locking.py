# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program of its own that makes the lock of a virtual environment by uv, and says what that cost.

It is run with the path of a JSON file, {uv, python, project, lock, notes, scratch, more, index, requirements, compile,
toolkit, pythons, sources}. Where sources has packages of a lock that is given, it only tries them. Else it asks for
the newest versions, whether the index has a wheel of them or source code only. Source code is built once, to try it:
without a compiler, unless the package is listed in compile. What does not build is asked for as a wheel. So nothing
becomes old because of a missing wheel without being told: notes is a JSON file,
{built: [{name, version, needed_by}], older: [{name, version, newer, because}]}.

Where no set of packages can be had, it prints all that is in the way, a line each, and ends with 3. Only the standard
library of Python 3.9 is used, and nothing else of gpulab.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

BLOCKED = "gpulab: "  # before each line that says what is in the way
ROUNDS = 60  # a round takes one package out of the way
FALSE = "/bin/false"
COMPILERS = ("CC", "CXX", "FC", "CUDACXX", "NVCC", "CARGO", "RUSTC", "GO")
# What uv says of the package that is in the way, the first that matches; each has the name, and perhaps the version.
_BUILD = re.compile(r"(?:[Ff]ailed to (?:download and )?build|[Ff]ailed to prepare|Building) `([\w.-]+)(?:==([^`]+))?`")
_MISSING = (
    re.compile(
        r"Because there (?:is|are) no versions? of ([A-Za-z0-9][\w.-]*?)(?:\[[^\]]*\])?((?:[=<>!~]=?[^\s]+)?) and"
    ),
    re.compile(r"Because ([A-Za-z0-9][\w.-]*) was not found in the package registry()"),
    re.compile(r"Because only ([A-Za-z0-9][\w.-]*?)(?:\[[^\]]*\])?(?:[=<>!~]=?\S+)? is available()"),
    re.compile(
        r"Because (?:all versions of )?([A-Za-z0-9][\w.-]*?)(?:\[[^\]]*\])?((?:[=<>!~]=?\S+)?) (?:has|have) no "
    ),
    re.compile(r"Wheels are required for `([\w.-]+)()`"),
)
_ELSEWHERE = re.compile(
    r"Request failed|error sending request|Failed to fetch|Failed to download distributions|dns error|timed out"
    r"|No space left on device|Disk quota exceeded|Hash mismatch"
)
_INCLUDED = re.compile(r"included because `([^`]+)` \(v([^)]+)\) depends on")
_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*(?:==\s*([^\s;\\]+)|@\s*(\S+))")


def normalized(name: str) -> str:
    """Return a package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


class Locking:
    """The way to a lock; each package that does not build goes out of the way, and is remembered."""

    def __init__(self, given: dict[str, Any]) -> None:
        """Remember what is wanted; nothing is run yet."""
        self.given = given
        self.scratch = Path(given["scratch"])
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.compile = {normalized(one) for one in given["compile"]}
        self.python = given["python"]
        self.wheels: dict[str, dict[str, str]] = {}  # by name: {version, why}, what did not build
        self.blocked: dict[str, str] = {}  # by name: why it cannot be had at all
        self.newest: dict[str, str] = {}
        self.dependants: dict[str, str] = {}  # by the name of a package that did not build: NAME VERSION that needs it
        self.tried: dict[str, bool] = {}

    # running uv

    def _uv(self, *arguments: str, compilers: bool = False) -> subprocess.CompletedProcess[str]:
        settings = dict(os.environ)
        if compilers:
            settings.update(self.given["toolkit"])
        else:
            settings.update(dict.fromkeys(COMPILERS, FALSE))
            settings.pop("CUDA_HOME", None)
        return subprocess.run([self.given["uv"], *arguments], env=settings, capture_output=True, text=True, check=False)

    def _resolve(self, output: Path, *more: str) -> subprocess.CompletedProcess[str]:
        gone = self.scratch / "gone.txt"  # a marker that never holds takes a package out of the way of all
        gone.write_text("".join(f"{name} ; python_version < '0'\n" for name in self.blocked))
        barred = [word for name in self.wheels for word in ("--only-binary", name)]
        given = [*self.given["more"], *barred, *(("--overrides", str(gone)) if self.blocked else ())]
        return self._uv(
            *("pip", "compile", "--quiet", "--no-header", "--python-version", self.python, *given, *more),
            *("--output-file", str(output), self.given["project"]),
            compilers=bool(self.compile),
        )

    def check(self) -> int:
        """Try the source code of a lock that is given. Return 0 where all of it builds, and print what does not."""
        text = Path(self.given["lock"]).read_text()
        for name, found in self._broken(text, self.given["sources"]).items():
            self.wheels[name] = found
            self._block(name, self._source_only(name))
            sys.stderr.write(f"{BLOCKED}{name}: {self.blocked[name]}\n")
        return 3 if self.blocked else 0

    # the rounds

    def run(self) -> int:
        """Write lock and notes, and return 0; print what is in the way, and return another number."""
        said = ""
        for _round in range(ROUNDS):
            lock = self.scratch / "lock.txt"
            lock.write_text(Path(self.given["lock"]).read_text() if Path(self.given["lock"]).exists() else "")
            done = self._resolve(lock, "--generate-hashes")
            if done.returncode == 0:
                text = lock.read_text()
                if not self.newest:
                    self.newest = pinned(text)
                sources = self._sources()
                broken = self._broken(text, sources)
                if not broken:
                    return self._end(text, said, sources)
                self.wheels.update(broken)
                continue
            said = done.stderr
            if not self._step_aside(said):
                break
        if self.blocked and not _ELSEWHERE.search(said):
            return self._refuse(said)
        sys.stderr.write(said)
        return 1

    def _step_aside(self, said: str) -> bool:
        """Take the package that uv complains of out of the way. Return whether there was one."""
        if _ELSEWHERE.search(said):
            return False
        build = _BUILD.search(said)
        if build and "No solution found" not in said:
            name = normalized(build[1])
            needs = _INCLUDED.search(said)
            if needs:
                self.dependants[name] = f"{needs[1]} {needs[2]}"
            if name not in self.wheels:
                self.wheels[name] = {"version": build[2] or "", "why": _reason(said)}
                return True
            return self._block(name, "it does not build")
        for pattern in _MISSING:
            found = pattern.search(said)
            if found:
                name = normalized(found[1])
                if name in self.wheels:
                    return self._block(name, self._source_only(name))
                return self._block(name, f"the index has no {found[1]}{found[2]} for Python {self.python}")
        late = next((name for name in self.wheels if name not in self.blocked), None)
        return bool(late) and self._block(str(late), self._source_only(str(late)))

    def _block(self, name: str, why: str) -> bool:
        if name in self.blocked:
            return False
        self.blocked[name] = why
        return True

    def _source_only(self, name: str) -> str:
        needs = f"; {self.dependants[name]} needs it" if name in self.dependants else ""
        label = f"{name} {self.wheels[name]['version']}".strip()
        how = "does not build even with a compiler" if name in self.compile else "does not build without a compiler"
        return f"{label} is source code only and {how} ({self.wheels[name]['why']}){needs}"

    # source code

    def _broken(self, text: str, sources: list[str]) -> dict[str, dict[str, str]]:
        """Try the packages of a lock that are source code. Return what does not build: by name, {version, why}."""
        found = {}
        for name in sources:
            if name in self.wheels:
                continue
            line = block(text, name)
            if line not in self.tried:
                into = self.scratch / "built"
                wanted = self.scratch / "one.txt"
                wanted.write_text(f"{line}\n")
                done = self._uv(
                    *("pip", "install", "--quiet", "--no-deps", "--require-hashes", "--python-version", self.python),
                    *(*self.given["index"], "--target", str(into), "--requirement", str(wanted)),
                    compilers=name in self.compile,
                )
                self.tried[line] = done.returncode == 0
                if _ELSEWHERE.search(done.stderr) and not self.tried[line]:
                    sys.stderr.write(done.stderr)
                    sys.exit(1)
                if not self.tried[line]:
                    found[name] = {"version": pinned(text).get(name, ""), "why": _reason(done.stderr)}
                    needs = via(text).get(name)
                    if needs:
                        self.dependants[name] = ", ".join(needs)
        return found

    def _sources(self) -> list[str]:
        """Return the packages of the present set of which the index has no wheel that fits."""
        output = self.scratch / "pylock.toml"
        output.unlink(missing_ok=True)
        done = self._resolve(output, "--format", "pylock.toml", *self._as_before())
        return without_wheel(output.read_text()) if done.returncode == 0 else []

    def _as_before(self) -> list[str]:
        """Return what holds the second question to the answer of the first."""
        pins = self.scratch / "pins.txt"
        found = pinned((self.scratch / "lock.txt").read_text())
        pins.write_text("".join(f"{name}=={version}\n" for name, version in found.items() if "/" not in version))
        return ["--constraints", str(pins)]

    # the end

    def _end(self, text: str, said: str, sources: list[str]) -> int:
        if self.blocked:
            return self._refuse(said)
        found, needs = pinned(text), via(text)
        built = [
            {"name": name, "version": found.get(name, ""), "needed_by": ", ".join(needs.get(name, []))}
            for name in sources
        ]
        Path(self.given["lock"]).write_text(
            "".join(f"# built from source: {one['name']}\n" for one in built) + without_comments(text)
        )
        notes = {"built": built, "older": self._older(found)}
        Path(self.given["notes"]).write_text(json.dumps(notes))
        return 0

    def _older(self, found: dict[str, str]) -> list[dict[str, str]]:
        """Return the packages that are older than they could be with a compiler, or with wheels of others."""
        older = []
        for name, version in found.items():
            newer = self.newest.get(name) or self.wheels.get(name, {}).get("version") or self._as_dependant(name)
            if newer and newer != version and _key(newer) > _key(version):
                culprits = [name] if name in self.wheels else sorted(self.wheels)
                because = "; ".join(self._source_only(one) for one in culprits)
                older.append({"name": name, "version": version, "newer": newer, "because": because})
        return older

    def _as_dependant(self, name: str) -> str | None:
        told = (one.split(" ") for one in self.dependants.values() if "," not in one)
        return next((one[1] for one in told if len(one) == 2 and normalized(one[0]) == name), None)  # noqa: PLR2004

    def _refuse(self, said: str) -> int:
        """Print what is in the way, one thing a line, and what would help."""
        for name, why in sorted(self.blocked.items()):
            sys.stderr.write(f"{BLOCKED}{name}: {why}\n")
        other = self._other_python()
        if other:
            sys.stderr.write(f"{BLOCKED}with Python {other}, all of them can be had\n")
        elif self._resolve(self.scratch / "rest.txt").returncode == 0:
            named = {name_of(line): line for line in self.given.get("requirements", ())}
            edit = ", ".join(f"{named[name]!r}: null" for name in sorted(self.blocked) if name in named)
            if edit:
                sys.stderr.write(f"{BLOCKED}the others can be had: replace: {{{edit}}}; null leaves a line out\n")
        else:
            sys.stderr.write(said)
        return 3

    def _other_python(self) -> str | None:
        """Return another Python with which all that is in the way can be had as wheels, if there is one."""
        blocked, wheels, mine = self.blocked, self.wheels, self.python
        self.blocked, self.wheels = {}, {**{name: {} for name in blocked}, **wheels}
        try:
            for other in self.given["pythons"]:
                self.python = other
                if other != mine and self._resolve(self.scratch / "other.txt").returncode == 0:
                    return str(other)
        finally:
            self.python, self.blocked, self.wheels = mine, blocked, wheels
        return None


# reading what uv wrote


def name_of(requirement: str) -> str:
    """Return the package that a line names."""
    match = re.match(r"[A-Za-z0-9][\w.-]*", requirement)
    return normalized(match[0]) if match else ""


def pinned(text: str) -> dict[str, str]:
    """Return the version, or the address, of each package of a lock."""
    matches = (_PIN.match(line) for line in text.splitlines())
    return {normalized(match[1]): match[2] or match[3] for match in matches if match}


def via(text: str) -> dict[str, list[str]]:
    """Return for each package of an annotated lock the packages that need it."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        match = _PIN.match(line)
        name = normalized(match[1]) if match else name
        needs = re.match(r"^\s+#\s+(?:via\s+)?([A-Za-z0-9][\w.-]*)(?: \(.*\))?$", line)
        if needs and needs[1] != "via" and name:
            found.setdefault(name, []).append(needs[1])
    return {name: [one for one in needs if not one.startswith("gpulab-")] for name, needs in found.items()}


def block(text: str, name: str) -> str:
    """Return the lines of one package of a lock, as one line."""
    joined = without_comments(text).replace("\\\n", " ")
    for line in joined.splitlines():
        match = _PIN.match(line)
        if match and normalized(match[1]) == name:
            return " ".join(line.split())
    return name


def without_comments(text: str) -> str:
    """Return a lock without what uv says beside its packages."""
    return "".join(f"{line}\n" for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))


def without_wheel(text: str) -> list[str]:
    """Return the packages of a pylock.toml as uv writes it of which it has no wheel that fits, and no other file."""
    found = []
    for part in text.split("[[packages]]")[1:]:
        name = re.search(r'^name = "([^"]+)"', part, re.MULTILINE)
        archive = re.search(r'^archive = \{ url = "[^"]+\.whl"', part, re.MULTILINE)
        if name and not re.search(r"^wheels = \[", part, re.MULTILINE) and not archive:
            found.append(normalized(name[1]))
    return found


def _reason(said: str) -> str:
    """Return the most telling line of what a build printed."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [
        line for line in lines if re.match(r"(?:error|fatal|\w*(?:Error|Exception)):? ", line) and "uv" not in line
    ]
    told = [line for line in errors if not line.startswith("error: Failed")] or lines[-1:]
    return told[-1][:200] if told else "it printed nothing"


def _key(version: str) -> list[int]:
    """Return the numbers of a version, as far as they compare."""
    return [int(number) for number in re.findall(r"\d+", version.partition("+")[0])]


if __name__ == "__main__":
    making = Locking(json.loads(Path(sys.argv[1]).read_text()))
    sys.exit(making.check() if making.given.get("sources") else making.run())
