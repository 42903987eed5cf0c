"""The documents: links lead to files and headings that exist, and what is made from the code is up to date."""

from __future__ import annotations

import re
from pathlib import Path

import documents
import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "roles/*/README.md", "tests/**/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"  # antsibull-changelog writes it
)
# A path of the checkout in a text; what stands for any name is in <>, {} or *.
PATH = re.compile(
    r"(?<![\w/.~-])((?:catalog|docs|examples|lab|molecule|playbooks|plugins|roles|tests)/[\w./<>{}*-]*[\w/*>}])"
)
EXAMPLE = "/hello/"  # CONTRIBUTING.md has a role as an example, which unit/roles/test_new_role.py makes
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(page):
    """Return what a link to a page may end in: its headings as GitHub writes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(text)}


def broken(page):
    """Yield the relative links of a page that lead nowhere."""
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


def missing(page):
    """Yield the paths of the checkout that a page names and that are not there."""
    for path in PATH.findall(page.read_text(encoding="utf-8").replace("\\_", "_")):
        if EXAMPLE not in path and not any(ROOT.glob(re.sub(r"<[^>]*>|\{[^}]*\}", "*", path).rstrip("/"))):
            yield path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page):
    assert list(broken(page)) == []


def test_a_link_to_a_missing_file_or_heading_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One, two\n[a](#one-two) [b](page.md#three) [c](gone.md) [d](https://x.example/)\n", encoding="utf-8"
    )
    assert list(broken(page)) == ["page.md#three", "gone.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_that_a_page_names_exists(page):
    assert list(missing(page)) == []


def test_a_path_that_does_not_exist_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "`docs/gone.md`, docs/install.md, roles/<role>/tasks/main.yml, roles/<role>/gone.yml.", encoding="utf-8"
    )
    assert list(missing(page)) == ["docs/gone.md", "roles/<role>/gone.yml"]


MADE = {str(path.relative_to(ROOT)): text for path, text in documents.documents().items()}


@pytest.mark.parametrize("path", MADE)
def test_what_is_made_from_the_code_is_up_to_date(path):
    assert (ROOT / path).read_text(encoding="utf-8") == MADE[path], "run `make docs`"


def test_a_default_names_every_choice_that_its_description_leaves_out():
    record = {"type": "str", "choices": ["auto", "open"], "default": "auto", "description": "V(auto) decides."}
    text = documents.defaults("a", {"options": {"a_flavour": record, "gpulab_other": record}})
    assert text.endswith("\n\n# auto decides. Choices: auto, open.\na_flavour: auto\n")


def test_a_refusal_shows_its_template_as_text():
    assert documents.filled("{a} has *_{{b}}") == r"*a* has \*\_{b}"
