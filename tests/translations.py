"""Chinese for the pages that `make docs` writes: docs/zh/texts.yml, and what is missing there.

A record of that file is a digest of English texts, and then these texts in Chinese. A text that has no record, or whose
English has changed since, stands in English on the page with a mark, so whoever writes no Chinese need do nothing. As a
program this prints the records that are missing: translate their texts, put them into the file, and run `make docs`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    Language = Callable[..., tuple[str, ...]]

TABLE = Path(__file__).parents[1] / "docs/zh/texts.yml"
MARK = "(English) "


def english(_section: str, _key: str, *texts: str) -> tuple[str, ...]:
    """Return the texts as they are."""
    return texts


class Chinese:
    """Answers as C(english) does, in Chinese where its table has a record; notes what was asked and what is missing."""

    def __init__(self, table: dict[str, dict[str, list[str]]] | None = None) -> None:
        """Read the table, unless one is given: section, key, digest and texts."""
        self.table = yaml.safe_load(TABLE.read_text(encoding="utf-8")) if table is None else table
        self.asked: dict[tuple[str, str], tuple[str, ...]] = {}
        self.missing: dict[tuple[str, str], tuple[str, ...]] = {}

    def __call__(self, section: str, key: str, *texts: str) -> tuple[str, ...]:
        """Return the texts in Chinese, or in English with a mark."""
        self.asked[section, key] = texts
        written, *translated = self.table.get(section, {}).get(key, [""])
        if written == digest(texts) and len(translated) == len(texts):
            return tuple(translated)
        self.missing[section, key] = texts
        return tuple(MARK + text for text in texts)

    def unknown(self) -> list[str]:
        """Return the records that nothing asks for, as C(section key)."""
        return [
            f"{section} {key}" for section, of in self.table.items() for key in of if (section, key) not in self.asked
        ]


def digest(texts: tuple[str, ...]) -> str:
    """Return what changes when one of the texts does."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]


def record(key: str, texts: tuple[str, ...], translated: Any = None) -> str:
    """Return a record as a line of the table has it, in English where nobody has translated it."""
    return f"  {key}: {json.dumps([digest(texts), *(translated or texts)], ensure_ascii=False)}"


def main() -> None:
    """Print the records that are missing."""
    import documents  # noqa: PLC0415  it imports this file

    chinese = Chinese()
    documents.pages(chinese)
    for (section, key), texts in chinese.missing.items():
        print(f"{section}:\n{record(key, texts)}")


if __name__ == "__main__":
    main()
