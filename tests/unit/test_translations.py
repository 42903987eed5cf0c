"""The Chinese pages: what they say in Chinese, and that their commands and links are right."""

from __future__ import annotations

import re
import string
from pathlib import Path

import documents
import pytest
import translations
import yaml

from .test_documented_commands import BLOCK

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs/zh").glob("*.md"))
CHINESE = translations.Chinese()
documents.pages(CHINESE)
MOST_MISSING = 0.05  # share of the texts; a release has none missing


def missing():
    """Return the records that are missing, as somebody who translates needs them."""
    return "\n".join(translations.record(key, texts) for (_section, key), texts in CHINESE.missing.items())


def test_nearly_all_is_translated_and_in_a_release_everything():
    released = "-dev" not in yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    most = 0 if released else MOST_MISSING * len(CHINESE.asked)
    assert len(CHINESE.missing) <= most, f"translate these and put them into docs/zh/texts.yml:\n{missing()}"


def test_every_record_is_asked_for():
    assert CHINESE.unknown() == [], "remove these from docs/zh/texts.yml"


def fields(texts):
    """Return the names in braces of each text."""
    return [sorted({name for _, name, _, _ in string.Formatter().parse(text) if name}) for text in texts]


@pytest.mark.parametrize("section", ["refusals", "words"])
def test_a_translation_fills_in_what_the_english_does(section):
    for key, (_digest, *translated) in CHINESE.table[section].items():
        if (section, key) not in CHINESE.missing:
            assert fields(translated) == fields(CHINESE.asked[section, key]), key


def test_a_text_without_a_translation_is_in_english_and_marked():
    table = {"refusals": {"H001": [translations.digest(("It is off.", "Turn it on.")), "已关闭", "请打开"]}}
    chinese = translations.Chinese(table)
    assert chinese("refusals", "H001", "It is off.", "Turn it on.") == ("已关闭", "请打开")
    assert chinese("refusals", "H001", "It is out.", "Turn it on.") == ("(English) It is out.", "(English) Turn it on.")
    assert chinese("refusals", "H002", "It is off.") == ("(English) It is off.",)
    assert list(chinese.missing) == [("refusals", "H001"), ("refusals", "H002")]
    assert translations.Chinese({"refusals": {"H003": ["", "没有"]}}).unknown() == ["refusals H003"]


def block_lines(page):
    """Return the lines of a page's blocks without their comments."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"\s+#\s.*", "", line).strip() for _language, block in blocks for line in block.splitlines()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_stands_in_an_english_page(page):
    english = set().union(*map(block_lines, [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]))
    assert sorted(block_lines(page) - english) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_leads_to_the_chinese_page_where_there_is_one(page):
    links = re.findall(r"\[([^\]]*)\]\(\.\./([\w-]+\.md)[^)]*\)", page.read_text(encoding="utf-8"))
    assert [name for text, name in links if (page.parent / name).exists() and text != "英文页"] == []


MIRROR = re.compile(r"^\|[^|]*\|([^|]*)\|[^|]*\| `((?:tests|molecule)/\S+)` \|$", re.MULTILINE)


@pytest.mark.parametrize(("names", "test"), MIRROR.findall((ROOT / "docs/zh/mirrors.md").read_text(encoding="utf-8")))
def test_a_mirrors_settings_are_tried_by_the_test_that_is_named(names, test):
    text = (ROOT / test).read_text(encoding="utf-8")
    assert [name for name in re.findall(r"`(\w+)`", names) if name not in text] == []
