# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program of its own that makes the lock of a virtual environment by uv, and says what that cost.

It is run with the path of a JSON file, {uv, python, project, lock, notes, scratch, more, index, requirements, compile,
toolkit, beside, pythons, sources}. Where sources has packages of a lock that is given, it only tries them. Else it asks
for the newest versions, whether the index has a wheel of them or source code only. Source code is built once, to try
it: without a compiler, unless the package is listed in compile. What does not build is asked for as a wheel. So nothing
becomes old because of a missing wheel without being told: notes is a JSON file,
{built: [{name, version, needed_by}], older: [{name, version, newer, because}]}.

Where no set of packages can be had, it prints all that is in the way, a line each, and what helps, as uv has found it
out, and ends with 3. uv is asked many times, so all that it has fetched is kept meanwhile, whatever the index says of
that. Only the standard library of Python 3.9 is used, and nothing else of gpulab.
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core.environment_packages import normalized
from ansible_collections.gpulab.node.plugins.module_utils.environments import uv_words

BLOCKED = "gpulab: "  # before each line that says what is in the way
ROUNDS = 60  # a round takes one package out of the way
LOOK_SECONDS = 90  # so long what helps is looked for
FRESH_SECONDS = 180  # so long an answer of the index holds; files of a name never change
FALSE = "/bin/false"
# What old source code takes for granted where it is built, by the module that it does not find.
NEEDED = {
    "pkg_resources": "setuptools<81",
    "numpy": "numpy",
    "Cython": "cython",
    "packaging": "packaging",
    "wheel": "wheel",
    "six": "six",
}
COMPILERS = ("CC", "CXX", "FC", "CUDACXX", "NVCC", "CARGO", "RUSTC", "GO")


class Locking:
    """The way to a lock; each package that does not build goes out of the way, and is remembered."""

    def __init__(self, given: dict[str, Any]) -> None:
        """Remember what is wanted; nothing is run yet."""
        self.given = given
        self.scratch = Path(given["scratch"])
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.compile = {normalized(one) for one in given["compile"]}
        self.asked = {uv_words.name_of(line) for line in given["requirements"]}
        self.until = 0.0
        self.beside: dict[str, list[str]] = dict(given["beside"])  # by name: what source code is built beside
        self.indexes: list[tuple[str, str]] = []
        self.tried: dict[str, str] = {}  # by line of a lock: what its build printed, nothing where it builds
        self.begin(given["python"])

    def begin(self, python: str) -> None:
        """Start again from what is wanted, for a Python."""
        self.python = python
        self.wheels: dict[str, dict[str, str]] = {}  # by name: {version, why}, what did not build
        self.blocked: dict[str, str] = {}  # by name: why it cannot be had at all
        self.newest: dict[str, str] = {}
        self.dependants: dict[str, str] = {}  # by the name of a package that did not build: NAME VERSION that needs it
        self.roots: dict[str, set[str]] = {}  # by name: those that are asked for, by which it comes
        self.edit: dict[str, str | None] = {}  # lines that others stand in for, None for none

    # running uv

    def _uv(self, *arguments: str, compilers: bool = False, typed: str = "") -> subprocess.CompletedProcess[str]:
        settings = dict(os.environ)
        if self.indexes:  # uv.toml has them
            settings = {name: value for name, value in settings.items() if name not in ("UV_DEFAULT_INDEX", "UV_INDEX")}
        if compilers:
            settings.update(self.given["toolkit"])
        else:
            settings.update(dict.fromkeys(COMPILERS, FALSE))
            settings.pop("CUDA_HOME", None)
        call = [self.given["uv"], *arguments]
        streams: dict[str, Any] = {"input": typed, "capture_output": True, "text": True}
        return subprocess.run(call, env=settings, cwd=self.scratch, check=False, **streams)

    def configure(self) -> None:
        """Write uv.toml, which uv reads where it is started: the indexes that uv has, and what builds need."""
        if not self.indexes:
            said = self._uv("pip", "compile", "--quiet", "--no-header", "--emit-index-url", "-").stdout
            self.indexes = uv_words.INDEX.findall(said)
        kept = f'cache-control = {{ api = "max-age={FRESH_SECONDS}", files = "max-age=365000000, immutable" }}'
        text = "".join(
            f"[[index]]\nurl = {json.dumps(url)}\ndefault = {'false' if extra else 'true'}\n{kept}\n"
            for extra, url in sorted(self.indexes, reverse=True)
        )
        text += "[extra-build-dependencies]\n"
        text += "".join(f"{json.dumps(name)} = {json.dumps(needs)}\n" for name, needs in self.beside.items())
        (self.scratch / "uv.toml").write_text(text)

    def _resolve(self, output: Path, *more: str) -> subprocess.CompletedProcess[str]:
        gone = self.scratch / "gone.txt"  # a marker that never holds takes a package out of the way of all
        gone.write_text("".join(f"{name} ; python_version < '0'\n" for name in self.blocked))
        barred = [word for name in self.wheels for word in ("--only-binary", name)]
        given = [*self.given["more"], *barred, *(("--overrides", str(gone)) if self.blocked else ())]
        return self._uv(
            *("pip", "compile", "--quiet", "--no-header", "--python-version", self.python, *given, *more),
            *("--output-file", str(output), self._project()),
            compilers=bool(self.compile),
        )

    def _project(self) -> str:
        """Return the project, in which lines are replaced."""
        if not self.edit:
            return str(self.given["project"])
        lines = [new for line in self.given["requirements"] if (new := self.edit.get(line, line))]
        text = Path(self.given["project"]).read_text()
        file = self.scratch / "edited" / "pyproject.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(re.sub(r"(?m)^dependencies = .*$", lambda _: f"dependencies = {json.dumps(lines)}", text))
        return str(file)

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
                    self.newest = uv_words.pinned(text)
                sources = self._sources()
                broken = self._broken(text, sources)
                if not broken:
                    return self._end(text, said, sources)
                self.wheels.update(broken)
                continue
            said = done.stderr
            if not self._step_aside(said):
                break
        if self.blocked and not uv_words.ELSEWHERE.search(said):
            return self._refuse(said)
        sys.stderr.write(said)
        return 1

    def _step_aside(self, said: str) -> bool:
        """Take the package that uv complains of out of the way. Return whether there was one."""
        if uv_words.ELSEWHERE.search(said):
            return False
        build = uv_words.BUILD.search(said)
        if build and "No solution found" not in said:
            return self._does_not_build(normalized(build[1]), build[2] or "", said)
        told = uv_words.unfolded(said)
        found = next((match for pattern in uv_words.MISSING if (match := pattern.search(told))), None)
        if found:
            name = normalized(found[1])
            self.roots[name] = uv_words.asked_for(said) or self.roots.get(name, set())
            why = f"the index has no {found[1]}{found[2]} for Python {self.python}"
            return self._block(name, self._source_only(name) if name in self.wheels else why)
        late = next((name for name in self.wheels if name not in self.blocked), None)
        return bool(late) and self._block(str(late), self._source_only(str(late)))

    def _does_not_build(self, name: str, version: str, said: str) -> bool:
        """Have a package built beside what it needs, else as a wheel, else not at all."""
        needs = uv_words.INCLUDED.search(uv_words.unfolded(said))
        if needs:
            self.dependants[name] = f"{needs[1]} {needs[2]}"
            self.roots[name] = {normalized(needs[1])}
        if self._stand_beside(name, said):
            return True
        if name in self.wheels:
            return self._block(name, "it does not build")
        self.wheels[name] = {"version": version, "why": uv_words.reason(said)}
        return True

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
        lines = {name: uv_words.block(text, name) for name in sources if name not in self.wheels}
        todo = [name for name, line in lines.items() if line not in self.tried]
        while todo:
            with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
                said = dict(zip(todo, pool.map(lambda name: self._try(name, lines[name]), todo)))
            self.tried.update((lines[name], one) for name, one in said.items())
            elsewhere = next((one for one in said.values() if uv_words.ELSEWHERE.search(one)), None)
            if elsewhere:
                sys.stderr.write(elsewhere)
                sys.exit(1)
            todo = [name for name, one in said.items() if one and self._stand_beside(name, one)]
        found, needs = {}, uv_words.via(text)
        for name, line in lines.items():
            if self.tried[line]:
                found[name] = {"version": uv_words.pinned(text).get(name, ""), "why": uv_words.reason(self.tried[line])}
                if needs.get(name):
                    self.dependants[name] = ", ".join(needs[name])
                self.roots[name] = uv_words.above(text, name, self.asked)
        return found

    def _try(self, name: str, line: str) -> str:
        """Build a package of a lock. Return what it printed, nothing where it builds."""
        wanted = self.scratch / f"{name}.txt"
        wanted.write_text(f"{line}\n")
        done = self._uv(
            *("pip", "install", "--quiet", "--no-deps", "--require-hashes", "--python", self.python),
            *(*self.given["index"], "--target", str(self.scratch / "built" / name), "--requirement", str(wanted)),
            compilers=name in self.compile,
        )
        return done.stderr or "it printed nothing" if done.returncode else ""

    def _stand_beside(self, name: str, said: str) -> bool:
        """Have a package built beside what it did not find. Return whether that is known, and new."""
        missing = re.search(r"No module named '(\w+)", said)
        need = NEEDED.get(missing[1]) if missing else None
        if not need or need in self.beside.get(name, ()):
            return False
        self.beside[name] = [*self.beside.get(name, ()), need]
        self.configure()
        return True

    def _sources(self) -> list[str]:
        """Return the packages of the present set of which the index has no wheel that fits."""
        output = self.scratch / "pylock.toml"
        output.unlink(missing_ok=True)
        done = self._resolve(output, "--format", "pylock.toml", *self._as_before())
        return uv_words.without_wheel(output.read_text()) if done.returncode == 0 else []

    def _as_before(self) -> list[str]:
        """Return what holds the second question to the answer of the first."""
        pins = self.scratch / "pins.txt"
        found = uv_words.pinned((self.scratch / "lock.txt").read_text())
        pins.write_text("".join(f"{name}=={version}\n" for name, version in found.items() if "/" not in version))
        return ["--constraints", str(pins)]

    # the end

    def _end(self, text: str, said: str, sources: list[str]) -> int:
        if self.blocked:
            return self._refuse(said)
        found, needs = uv_words.pinned(text), uv_words.via(text)
        built = [
            {"name": name, "version": found.get(name, ""), "needed_by": ", ".join(needs.get(name, []))}
            for name in sources
        ]
        heads = (uv_words.built_line(name, self.beside.get(name, ())) for name in sources)
        Path(self.given["lock"]).write_text("".join(f"{one}\n" for one in heads) + uv_words.without_comments(text))
        notes = {"built": built, "older": self._older(found)}
        Path(self.given["notes"]).write_text(json.dumps(notes))
        return 0

    def _older(self, found: dict[str, str]) -> list[dict[str, str]]:
        """Return the packages that are older than they could be with a compiler, or with wheels of others."""
        older = []
        for name, version in found.items():
            newer = self.newest.get(name) or self.wheels.get(name, {}).get("version") or self._as_dependant(name)
            if newer and newer != version and uv_words.key(newer) > uv_words.key(version):
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
        helps = self.helps()
        if helps:
            sys.stderr.write(f"{BLOCKED}{helps}\n")
        elif self._resolve(self.scratch / "rest.txt").returncode != 0:
            sys.stderr.write(said)
        return 3

    # what helps

    def helps(self, seconds: int = LOOK_SECONDS) -> str:
        """Return the settings with which a lock can be made, as few as there are; nothing where none were found."""
        self.until = time.monotonic() + seconds
        best: Locking | None = None
        for python in self.given["pythons"]:
            other = copy.copy(self)  # with what was tried
            other.begin(python)
            other.wheels = dict(self.wheels)
            if python != self.python:  # without its interpreter, nothing is built with it
                other.wheels.update((name, {"version": "", "why": ""}) for name in self.blocked)
            if other.give_way(best.cost() if best else None):
                best = other
            if best and not best.edit:
                return f"with Python {python}, all of them can be had"
        if best is None:
            late = time.monotonic() > self.until
            return f"what helps was looked for during {seconds} seconds, and not found" if late else ""
        setting = "" if best.python == self.python else f"python: {best.python!r}, "
        lines = ", ".join(f"{line!r}: {new!r}" if new else f"{line!r}: null" for line, new in best.edit.items())
        return f"the others can be had: {setting}replace: {{{lines}}}; null leaves a line out"

    def cost(self) -> int:
        """Return how much has to be set otherwise: a line that is left out counts twice."""
        return sum(1 if line else 2 for line in self.edit.values()) + (self.python != self.given["python"])

    def give_way(self, limit: int | None) -> bool:
        """Replace lines that are in the way, by ones for newer versions or by none.

        Return whether a set can be had, for a cost below the limit.
        """
        lock = self.scratch / "lock.txt"
        while time.monotonic() < self.until and (limit is None or self.cost() < limit):
            lock.unlink(missing_ok=True)
            done = self._resolve(lock, "--generate-hashes")
            if done.returncode == 0:
                text = lock.read_text()
                broken = self._broken(text, self._sources()) if self.python == self.given["python"] else {}
                if not broken:
                    return any(self.edit.get(line, line) for line in self.given["requirements"])
                self.wheels.update(broken)
                continue
            aside = self._step_aside(done.stderr)
            at_fault = {root for name in self.blocked for root in self._asked_for(name)}
            if not aside:  # what was replaced does not go together with the others
                at_fault = uv_words.asked_for(done.stderr) & {uv_words.name_of(line) for line in self.edit}
            replaced = [self._replace(name) for name in sorted(at_fault)]
            if (self.blocked or not aside) and not any(replaced):
                return False
            self.blocked = {}
        return False

    def _asked_for(self, name: str) -> set[str]:
        """Return the packages that lines name, because of which a package is there."""
        return {name} if name in self.asked else self.roots.get(name, set()) & self.asked

    def _replace(self, name: str) -> bool:
        """Have newer versions stand in for a package, or nothing where that was of no use. Return whether one does."""
        lines = [line for line in self.given["requirements"] if uv_words.name_of(line) == name]
        for line in lines:
            now = self.edit.get(line, line)
            newer = uv_words.EXACT.sub(r"\1>=\2", now) if now else None
            self.edit[line] = newer if newer != now else None
            if now:
                return True
        return False


def main() -> None:
    """Read what is wanted, make the lock or try the one that is given, and end with what that says."""
    making = Locking(json.loads(Path(sys.argv[1]).read_text()))
    making.configure()
    sys.exit(making.check() if making.given.get("sources") else making.run())
