"""Every refusal hands over what its text is filled with, and nothing else: in YAML, and in Python."""

import ast
import string
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import CODES

ROOT = Path(__file__).parents[2]
FILES = sorted(
    [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("roles/*/handlers/*.yml"), *ROOT.glob("playbooks/**/*.yml")]
)


def needed(code):
    return {field for text in CODES[code] for _, field, _, _ in string.Formatter().parse(text) if field}


def refusals(part):
    """Yield (code, names of the values) of every gpulab.node.refuse in a part of a file that names a code."""
    if isinstance(part, list):
        for one in part:
            yield from refusals(one)
    elif isinstance(part, dict):
        arguments = part.get("gpulab.node.refuse", {})
        if "code" in arguments:
            yield arguments["code"], set(arguments.get("values", {}))
        for one in part.values():
            yield from refusals(one)


FOUND = [
    (path, code, names) for path in FILES for code, names in refusals(yaml.safe_load(path.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize(("path", "code", "names"), FOUND, ids=[f"{path.parts[-3]}-{code}" for path, code, _ in FOUND])
def test_a_refusal_is_given_what_its_text_needs(path, code, names):
    assert names == needed(code), path


def test_there_are_some():
    assert len(FOUND) > 10


def calls(path):
    """Yield (line, code, names of the values) of each call that names a code and every value."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        names = [keyword.arg for keyword in node.keywords]
        if called == "refuse" and node.args[0].value in CODES and None not in names:
            yield node.lineno, node.args[0].value, set(names)


def test_refusals_in_python_are_given_what_their_texts_need():
    found = [(path, *call) for path in sorted(ROOT.glob("plugins/**/*.py")) for call in calls(path)]
    wrong = [f"{path}:{line}: {code} {names}" for path, line, code, names in found if names != needed(code)]
    assert wrong == []
    assert len(found) > 100
