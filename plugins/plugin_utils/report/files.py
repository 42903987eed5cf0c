# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a proof's document to disk, each file whole or not at all; keep the newest reports and an index over them."""

from __future__ import annotations

import contextlib
import json
import os
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.core.directory import locked
from ansible_collections.gpulab.node.plugins.plugin_utils.core.host_file import file_name
from ansible_collections.gpulab.node.plugins.plugin_utils.pages import page
from ansible_collections.gpulab.node.plugins.plugin_utils.pages.page import REPORTS
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse
from ansible_collections.gpulab.node.plugins.plugin_utils.report import written
from ansible_collections.gpulab.node.plugins.plugin_utils.report.formats import junit, prometheus
from ansible_collections.gpulab.node.plugins.plugin_utils.report.html import html, index, summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.plugin_utils.report.html import Listed, Summary
    from ansible_collections.gpulab.node.plugins.plugin_utils.report.model import Report

OTHERS = ("plan", "history", "diagnosis")  # pages that other playbooks write beside the reports
DATED = re.compile(r"\d{4}-\d\d-\d\dT\d{6}Z")
# What a report's directory has; names that begin with a dot are what an interrupted run left there.
OURS = re.compile(r"\.?(report\.json|summary\.json|junit\.xml|report\.html|.+\.prom)(\..+)?")


def place(directory: str | None, now: datetime) -> Path:
    """Return the directory for this run's report, made if need be.

    Without one given it is reports/<UTC time>, and reports/latest points to it. Of two runs that end in one second,
    one is dated a second later. Raises Refusal V003.
    """
    path = Path(directory) if directory else REPORTS
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not directory:
            path = _dated(now)
            _point(REPORTS / "latest", path.name)
    except OSError as error:
        raise refuse("V003", path=path, detail=error.strerror) from error
    return path


def _dated(now: datetime) -> Path:
    """Make the directory of this moment, or of the next second of which there is none."""
    while True:
        path = REPORTS / f"{now:%Y-%m-%dT%H%M%SZ}"
        try:
            path.mkdir()
        except FileExistsError:
            now += timedelta(seconds=1)
        else:
            return path


def write(document: Report, directory: Path) -> None:
    """Write report.json, summary.json, junit.xml, report.html and a <host>.prom for each host. Raises Refusal V003."""
    try:
        for name, text in _texts(document):
            page.write(directory / name, text)
    except OSError as error:
        raise refuse("V003", path=directory, detail=error.strerror) from error


def _texts(document: Report) -> Iterator[tuple[str, str]]:
    created = datetime.strptime(document["created"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    yield "report.json", written.text(document)
    yield "summary.json", json.dumps(summary(document), indent=1) + "\n"
    yield "junit.xml", junit(document)
    for host in document["hosts"]:
        yield f"{file_name(host['name'])}.prom", prometheus(host, created.timestamp())
    yield "report.html", html(document)


def tidy(kept: int | None) -> None:
    """Remove the oldest of the dated reports until so many are left, and list those in reports/index.html.

    None keeps them all. A directory in which there is anything else is left alone. Raises Refusal V003.
    """
    try:
        with locked(REPORTS):
            dated = sorted((path for path in REPORTS.iterdir() if DATED.fullmatch(path.name)), reverse=True)
            for path in dated[max(kept, 1) :] if kept is not None else ():
                _remove(path)
            left = [path for path in dated if (path / "report.html").is_file()]
            others = [name for name in OTHERS if (REPORTS / f"{name}.html").is_file()]
            months = sorted(REPORTS.glob("usage/*/usage.html"))
            others += [str(path.relative_to(REPORTS).with_suffix("")) for path in months[-1:]]
            listed: list[Listed] = [{"place": path.name, "summary": _summary(path)} for path in left]
            page.write(REPORTS / "index.html", index(listed, others))
    except OSError as error:
        raise refuse("V003", path=REPORTS, detail=error.strerror) from error


def _remove(directory: Path) -> None:
    """Remove a report that holds nothing but what gpulab wrote; one that cannot be removed stays."""
    latest = directory.parent / "latest"
    files = [] if directory.is_symlink() or latest.resolve() == directory.resolve() else [*directory.iterdir()]
    if files and all(OURS.fullmatch(path.name) and not path.is_dir() for path in files):
        with contextlib.suppress(OSError):
            for path in files:
                path.unlink()
            directory.rmdir()


def _summary(directory: Path) -> Summary | None:
    """Return what the index says of a report; None where nothing is known of it."""
    try:
        found: Summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def _point(link: Path, target: str) -> None:
    """Let the symbolic link point to target, without a moment at which there is none."""
    temporary = link.with_name(f".{link.name}.{os.getpid()}")
    temporary.symlink_to(target)
    temporary.replace(link)
