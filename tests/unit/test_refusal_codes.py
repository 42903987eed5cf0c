"""Where the codes of refusals are: each in one file, in order; and a module brings to the node what it raises."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.environments import conda, venv
from ansible_collections.gpulab.node.plugins.plugin_utils import refusals

PLUGINS = Path(__file__).parents[2] / "plugins"
FILES = sorted(path.stem for path in (PLUGINS / "module_utils/core/refusals").glob("*.py"))
PACKAGE = "ansible_collections.gpulab.node.plugins.module_utils.core.refusals"
ON_NODES = [*PLUGINS.glob("module_utils/**/*.py"), *PLUGINS.glob("modules/*.py")]


def codes_of(subject):
    return importlib.import_module(f"{PACKAGE}.{subject}").CODES


def test_the_controller_has_the_codes_of_all_files():
    given = [code for subject in FILES for code in codes_of(subject)]
    assert sorted(refusals.CODES) == sorted(given)


@pytest.mark.parametrize("subject", FILES)
def test_codes_stand_in_the_order_of_families_and_numbers(subject):
    codes = list(codes_of(subject))
    assert codes == [code for code in refusals.CODES if code in codes]


def unshipped(text):
    """Yield (line, what is called, code) where a file for nodes may raise a code that it does not import."""
    tree = ast.parse(text)
    subjects = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            yield from (
                (node.lineno, part.asname, None) for part in node.names if part.name == "refuse" and part.asname
            )
            subjects |= {
                part.asname or part.name: part.name if node.module == PACKAGE else node.module.rpartition(".")[2]
                for part in node.names
            }
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func).split(".")
        if called[-1] != "refuse":
            continue
        subject = subjects.get(called[0])
        code = node.args[0] if node.args else None
        named = constants.get(code.id) if isinstance(code, ast.Name) else getattr(code, "value", None)
        if subject is None or (isinstance(named, str) and named not in codes_of(subject)):
            yield node.lineno, ast.unparse(node.func), named


def test_a_module_brings_each_code_that_it_raises():
    """Imports are what ships: a refuse() of a subject's file is on the node with all of its codes."""
    texts = {path: path.read_text(encoding="utf-8") for path in ON_NODES}
    missing = [f"{path}:{found}" for path, text in texts.items() for found in unshipped(text)]
    assert missing == []
    assert sum(text.count("refuse(") for text in texts.values()) > 150


@pytest.mark.parametrize(
    "text",
    [
        f'from {PACKAGE}.runs import refuse\nrefuse("H051")',
        f'from {PACKAGE} import runs, packages\nruns.refuse("H051")',
        f'from {PACKAGE}.runs import refuse\nCODE = "H051"\nrefuse(CODE)',
        f'from {PACKAGE}.runs import refuse as say\nsay("H051")',
        'from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse\nrefuse("H051")',
    ],
)
def test_a_code_that_is_not_brought_is_found(text):
    assert list(unshipped(text))


def test_a_code_that_a_table_gives_is_brought_too():
    """The table of apt and dnf is held to this by core/test_tool_words.py."""
    assert {code for code, _pattern in [*conda.CAUSES, *venv.CAUSES]} <= set(codes_of("environments"))
