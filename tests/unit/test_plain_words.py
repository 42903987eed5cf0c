"""Task names, descriptions of options, refusals and checks use the field's words: for each habit, what to write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.checks import runner  # noqa: F401 - fills the registry
from ansible_collections.gpulab.node.plugins.module_utils.checks.model import REGISTRY
from ansible_collections.gpulab.node.plugins.module_utils.checks.remedies import REMEDIES
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import CODES

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"^ *(?:- )?name: (.+)$", re.MULTILINE)
HABITS = {
    r"\bwish(?:ed|es)?\b": "requested, configured",
    r"\bunasked\b": "without being requested",
    r"\bfore(?:see|seen|sees)\b": "predict",
    r"\bwhich there is not\b": "unknown, does not exist",
    r"\bnot to be had\b": "not available",
    r"\bis none of\b": "must be one of",
}


def texts():
    """Yield (where, text) of all that is held to plain words."""
    for place in ("roles/*/tasks/*.yml", "roles/*/handlers/*.yml", "playbooks/*.yml"):
        for path in ROOT.glob(place):
            yield from ((path.name, name) for name in NAME.findall(path.read_text(encoding="utf-8")))
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        yield path.parent.parent.name, path.read_text(encoding="utf-8")
    yield from ((code, " ".join(templates)) for code, templates in CODES.items())
    yield from ((check.id, check.proves) for check in REGISTRY.values())
    yield from REMEDIES.items()


@pytest.mark.parametrize(("habit", "instead"), HABITS.items())
def test_words_are_plain(habit, instead):
    found = [(where, match[0]) for where, text in texts() for match in re.finditer(habit, re.sub(r"\{\w+\}", "", text))]
    assert not found, f"write {instead}: {found}"


def test_nothing_is_done_anew():
    """Not in comments either: to read it takes two tries."""
    files = [
        path for place in ("plugins", "roles", "playbooks", "docs", "molecule") for path in (ROOT / place).rglob("*.*")
    ]
    found = [
        path
        for path in files
        if path.suffix in (".py", ".yml", ".md", ".sh", ".j2") and re.search(r"\banew\b", path.read_text("utf-8"))
    ]
    assert not found, "write again, or re-"


def test_all_kinds_of_texts_are_looked_at():
    seen = {where for where, _ in texts()}
    assert {"provision.yml", "nvidia_driver", "H001", "gpu-answers", "reboot"} <= seen
