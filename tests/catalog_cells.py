"""Compare each framework x CUDA x Python cell of the catalog, and each package set in it, with the package index.

uv resolves what the plan would ask for, for wheels only and without installing anything. Of PyTorch that is the build
that the package index itself has; those of PyTorch's own index are not asked for.
"""

from __future__ import annotations

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.gpulab.node.plugins.module_utils.environments import builds
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import environments, framework_builds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.gpulab.node.plugins.plugin_utils.catalog import Catalog

    Answer = dict[str, str] | str | None  # versions by package, why there is no solution, or None: nobody answered
    Resolve = Callable[["tuple[str, ...]", str], Answer]

SECONDS = 600
AT_ONCE = 4
PLATFORM = "x86_64-manylinux_2_34"
UNREACHED = re.compile(r"Failed to fetch|error sending request|Could not connect|timed out")
RUNTIME = re.compile(r"nvidia-cuda-runtime(?:-cu\d+)?$")


class Cell(NamedTuple):
    """A release, one build of it, a Python, and the sets beside it; known tells whether the catalog has that Python."""

    release: dict[str, Any]
    build: dict[str, Any]
    python: str
    sets: tuple[str, ...] = ()
    known: bool = True

    def __str__(self) -> str:
        """Return what a person calls it."""
        beside = f" with {', '.join(self.sets)}" if self.sets else ""
        cuda = f" for CUDA {self.build['cuda']}"
        return f"{self.release['framework']} {self.release['version']}{cuda} and Python {self.python}{beside}"


def neighbours(release: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield the Pythons of a release, and the one before and the one behind them, each with whether it is its own."""
    first, last = (int(release["python"][end].partition(".")[2]) for end in ("min", "max"))
    for minor in range(first - 1, last + 2):
        yield f"3.{minor}", first <= minor <= last


def cells(known: Catalog) -> Iterator[Cell]:
    """Yield every cell that the package index can be asked for, without sets."""
    for release in chain.from_iterable(releases.values() for releases in known.frameworks.values()):
        for build in release["builds"]:
            if release["framework"] != "pytorch" or build.get("pypi"):
                yield from (Cell(release, build, python, (), own) for python, own in neighbours(release))


def with_sets(known: Catalog, cell: Cell) -> Cell:
    """Return the cell with all sets that the plan would allow in it."""

    def fits(record: dict[str, Any]) -> bool:
        if "refused" in record or record.get("framework", cell.release["framework"]) != cell.release["framework"]:
            return False
        if environments.obstacle_of_set(record, cell.release, cell.build):
            return False
        limit = environments.pythons_of_set(record, cell.build)
        return limit is None or framework_builds.is_within(cell.python, limit)

    return cell._replace(sets=tuple(name for name, record in known.package_sets.items() if fits(record)))


def requirements(known: Catalog, cell: Cell) -> tuple[str, ...]:
    """Return what the plan asks for in a cell."""
    records = (known.package_sets[name] for name in cell.sets)
    further = chain.from_iterable(environments.packages_of_set(one, cell.release, cell.build) for one in records)
    return tuple(dict.fromkeys(environments.requirements(cell.release, cell.build, list(further))))


def resolve(wanted: tuple[str, ...], python: str) -> Answer:
    """Ask uv, at the index that pip is set up for on this machine."""
    command = ["uv", "pip", "compile", "-", "--quiet", "--no-header", "--no-annotate", "--only-binary", ":all:"]
    command += ["--python-version", python, "--python-platform", PLATFORM]
    settings = {**os.environ, **builds.pip_settings()}
    try:
        run = subprocess.run(
            command, input="\n".join(wanted), capture_output=True, text=True, timeout=SECONDS, check=False, env=settings
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if run.returncode == 0:
        return dict(re.findall(r"^([\w.-]+)==(\S+)$", run.stdout, re.MULTILINE))
    return None if UNREACHED.search(run.stderr) else " ".join(run.stderr.split())


def faults(known: Catalog, cell: Cell, ask: Resolve) -> Iterator[str]:
    """Yield where the index does not bear out what the catalog says of a cell, and the sets that fit it.

    Yields nothing where nobody answered.
    """
    answer = ask(requirements(known, cell), cell.python)
    if answer is None:
        return
    if not cell.known:
        if not isinstance(answer, str):
            yield f"{cell}: the index has it, the catalog has not"
        return
    if isinstance(answer, str):
        yield f"{cell}: {answer[:400]}"
        return
    yield from _of_cuda(cell, answer)
    full = with_sets(known, cell)
    if isinstance(ask(requirements(known, full), cell.python), str):
        for name in full.sets:
            alone = cell._replace(sets=(name,))
            reason = ask(requirements(known, alone), cell.python)
            if isinstance(reason, str):
                full = full._replace(sets=tuple(one for one in full.sets if one != name))
                yield f"{alone}: {reason[:400]}"
        reason = ask(requirements(known, full), cell.python)
        if isinstance(reason, str):
            yield f"{full}: {reason[:400]}"


def _of_cuda(cell: Cell, answer: dict[str, str]) -> Iterator[str]:
    """Yield where the CUDA that is resolved is another one than the catalog's.

    PyTorch pins its CUDA; of the others the catalog has the oldest that they take.
    """
    found = next((version for name, version in answer.items() if RUNTIME.match(name)), None)
    wanted = cell.build["cuda"]
    if found is None:
        return  # TensorFlow 2.14 takes it from other packages
    seen = found.split(".")[:2]
    if cell.release["framework"] == "pytorch":
        right = seen == wanted.split(".")
    else:
        right = seen[0] == wanted.split(".")[0] and int(seen[1]) >= int(wanted.split(".")[1])
    if not right:
        yield f"{cell}: the index has CUDA {'.'.join(seen)}"


def compare(known: Catalog, ask: Resolve = resolve) -> tuple[list[str], int, int]:
    """Return the faults of all cells, how many cells there are, and how many nobody answered for."""
    unanswered: list[str] = []

    def of(cell: Cell) -> list[str]:
        def noted(wanted: tuple[str, ...], python: str) -> Answer:
            answer = ask(wanted, python)
            if answer is None:
                unanswered.append(str(cell))
            return answer

        return list(faults(known, cell, noted))

    every = list(cells(known))[::-1]  # the newest first
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(chain.from_iterable(pool.map(of, every)))
    return found, len(every), len(set(unanswered))
