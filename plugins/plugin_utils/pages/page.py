# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTML file from a template: it needs no network, and has the same frame, style and script as every other page.

One script of ours searches, filters and sorts. The page's own policy lets no other run, and without it all is shown.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import SEVERITIES
from ansible_collections.gpulab.node.plugins.plugin_utils.core.host_file import file_name
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.board import duration
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

REPORTS = Path("reports")
ROOMS = Path(__file__).parents[1]
SYMBOLS = {"ok": "✓", "skipped": "·", "info": "i", "unknown": "?", "warn": "!", "fail": "✗"}
GRAVEST_FIRST = SEVERITIES[::-1]
# More names are shown when they are opened.
MANY = 24
# From so many hosts on, what a person must look at stands first, hosts that are fit are folded, and what is of each
# host is not printed.
LARGE = 30
READABLE = 0o644


def render(template: str, **values: Any) -> str:
    """Return a page; its template is named by its room, as report/report.html.j2, and extends pages/frame.html.j2."""
    environment = Environment(
        loader=FileSystemLoader(ROOMS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(shown=shown, anchor=file_name, duration=duration, at=at, some=some)
    style = environment.get_template("pages/page.css").render(severities=GRAVEST_FIRST)
    script = (ROOMS / "pages/page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template(template).render(
        style=Markup(style),  # noqa: S704 - ours, and made of severities only
        script=Markup(script),  # noqa: S704 - ours
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'",
        symbols=SYMBOLS,
        severities=GRAVEST_FIRST,
        many=MANY,
        **values,
    )


def write(path: Path, text: str) -> None:
    """Write the text beside path, then rename it there: a reader sees the old file or the new one."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            os.fchmod(stream.fileno(), READABLE)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink()
        raise


def place(path: str, text: str) -> str:
    """Write a page beside the reports, and say where it is, or why it could not be written."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write(Path(path), text)
    except OSError as error:
        return f"page: not written to {path}: {error.strerror}"
    return f"page: {path}"


def shown(value: Any, unit: str = "") -> str:
    """Return a value for a table's cell: a dash for what is not known, words for yes and no."""
    if value is None:
        return "-"
    return ("no", "yes")[value] if isinstance(value, bool) else f"{value}{unit}"


def at(time: str) -> str:
    """Return a time of a document for people."""
    return time.replace("T", " ").replace("Z", " UTC")


def some(names: list[str]) -> str:
    """Return names, or the first of many and how many more there are."""
    return ", ".join(names) if len(names) <= MANY else f"{', '.join(names[:MANY])} and {len(names) - MANY} more"
