"""Print how far data have types on their way through the code, and what else tells how hard it is to carry on.

The last line puts wrong keys into a copy of the code and counts those that mypy finds. Complexity is counted as radon
does: 21 and more are grade D, E or F.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import layout

ROOT = Path(__file__).parents[1]
COLLECTION = "collections/ansible_collections/gpulab/node"
PLAN_MODEL = re.compile(r"plugin_utils\.plan(\.model import|  *import.*\bmodel\b)")
LONG, HARD = 400, 21
# Plugins have these names for Ansible.
OF_ANSIBLE = {"ActionModule", "CallbackModule", "FilterModule", "LookupModule"}
FORKS = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.Assert, ast.Lambda)
# Where a wrong key is put: the file, the text that it replaces there, and the key.
SEEDS = (
    ("plugin_utils/plan/conda.py", '"sha256": record', '"sha_256": record'),
    ("plugin_utils/plan/driver.py", '"newest_known": version,', '"newest": version,'),
    ("plugin_utils/plan/cuda.py", "driver['newest_known']", "driver['newest_know']"),
    ("plugin_utils/preflight/guards.py", 'need=plan["disk"][mount]', 'need=plan["disks"][mount]'),
    ("plugin_utils/preview/outlook.py", 'plan["imex"]["restart"]', 'plan["imex"]["restarts"]'),
    ("plugin_utils/plan/driver_steps.py", '["system"]["packages_unfinished"]', '["system"]["unfinished"]'),
    ("plugin_utils/preview/document.py", '"sessions": users["sessions"]', '"sessions": users["session"]'),
    ("module_utils/facts/system.py", '"memory_mib": memory_mib', '"memory": memory_mib'),
    ("module_utils/facts/fence.py", '"overdue": ', '"over_due": '),
    ("module_utils/fence/host.py", 'before["since"]', 'before["start"]'),
)


def main() -> None:
    """Print one measure a line."""
    plugins, tests = read("plugins"), read("tests") | read("molecule")
    lines = [line for text in plugins.values() for line in text.splitlines()]
    functions = [
        node
        for text in plugins.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    say(sum("dict[str, Any]" in line for line in lines), "lines say dict[str, Any]")
    say(
        f"{sum(map(has_any, functions)) / len(functions):.1%}",
        f"of {len(functions)} functions have Any in the signature",
    )
    say(sum(bool(re.search(r'\["[^"\]]+"\]', line)) for line in lines), 'lines read ["key"]')
    say(sum(bool(PLAN_MODEL.search(text)) for text in plugins.values()), "files import the plan's model")
    say(sum(complexity(one) >= HARD for one in functions), "functions are of radon's grade D, E or F")
    say(sum(text.count("\n") > LONG for text in plugins.values()), f"files of plugins have more than {LONG} lines")
    say(sum(text.count("\n") > LONG for text in tests.values()), f"files of tests have more than {LONG} lines")
    say(len(list((ROOT / "plugins/plugin_utils").glob("*.py"))), "files of the controller's code are in no room")
    say(sum(map(up, layout.LEVELS)), "arrows between rooms lead up")
    say(len(list((ROOT / "plugins/filter").glob("*.py"))), "filters")
    names = Counter(name for text in plugins.values() for name in re.findall(r"^class ([A-Z]\w+)", text, re.MULTILINE))
    say(sum(names[name] > 1 for name in names.keys() - OF_ANSIBLE), "public class names stand more than once")
    say(len(lines), "lines of plugins")
    say(sum(text.count("\n") for text in tests.values()), "lines of tests")
    say(f"{found()} of {len(SEEDS)}", "wrong keys are found by mypy")


def say(measure: object, what: str) -> None:
    """Print a measure."""
    print(f"{measure:>9}  {what}")


def read(top: str) -> dict[Path, str]:
    """Return the Python files below a directory, with their texts."""
    return {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / top).rglob("*.py"))}


def up(half: str) -> int:
    """Return how many arrows of a half do not lead to a lower level."""
    level = layout.rooms(half)
    return sum(level[other] >= level[room] for room, others in layout.arrows(half).items() for other in others)


def has_any(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether Any stands in the types of a function."""
    types = [one.annotation for one in ast.walk(function.args) if isinstance(one, ast.arg)] + [function.returns]
    return any(isinstance(part, ast.Name) and part.id == "Any" for one in types if one for part in ast.walk(one))


def complexity(function: ast.AST) -> int:
    """Return McCabe's number, with the forks in comprehensions and in conditions."""
    found = 1
    for node in ast.walk(function):
        if isinstance(node, FORKS):
            found += 1
        elif isinstance(node, ast.comprehension):
            found += 1 + len(node.ifs)
        elif isinstance(node, ast.BoolOp):
            found += len(node.values) - 1
    return found


def found() -> int:
    """Return in how many of the lines with a wrong key mypy finds an error."""
    with tempfile.TemporaryDirectory() as directory:
        top = Path(directory, COLLECTION)
        shutil.copytree(ROOT / "plugins", top / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
        lines = {one: put(top / "plugins" / one[0], *one[1:]) for one in SEEDS}
        argv = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir", "/dev/null"]
        argv += ["--namespace-packages", "--explicit-package-bases", "-p", "ansible_collections.gpulab.node.plugins"]
        environment = {"MYPYPATH": "collections", "PATH": "/usr/bin:/bin"}
        run = subprocess.run(argv, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1):
        sys.exit(run.stdout + run.stderr)
    errors = {(path, int(number)) for path, number in re.findall(r"plugins/([\w/.]+):(\d+)", run.stdout)}
    missed = [one for one in SEEDS if not any((one[0], number) in errors for number in lines[one])]
    for path, _text, wrong in missed:
        say("", f"not found: {wrong} in {path}")
    return len(SEEDS) - len(missed)


def put(path: Path, text: str, wrong: str) -> range:
    """Put a wrong key into a file; return the lines of the statement, at one of which mypy reports it."""
    before, right, after = path.read_text(encoding="utf-8").partition(text)
    if not right:
        sys.exit(f"{path.name} no longer has {text}: put that wrong key elsewhere in tests/measure.py")
    path.write_text(before + wrong + after, encoding="utf-8")
    line = before.count("\n") + 1
    nodes = [one for one in ast.walk(ast.parse(before + wrong + after)) if isinstance(one, ast.stmt)]
    around = [one for one in nodes if one.lineno <= line <= (one.end_lineno or 0)]
    inner = min(around, key=lambda one: (one.end_lineno or 0) - one.lineno)
    return range(inner.lineno, (inner.end_lineno or 0) + 1)


if __name__ == "__main__":
    main()
