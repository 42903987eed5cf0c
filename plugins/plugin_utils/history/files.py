# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history on the controller: a file of JSON lines for each host, to which each report adds one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.core.directory import locked
from ansible_collections.gpulab.node.plugins.plugin_utils.core.host_file import file_name
from ansible_collections.gpulab.node.plugins.plugin_utils.history.lines import SCHEMA, Line
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

if TYPE_CHECKING:
    from pathlib import Path

# Of a file that has grown to this, its later half stays: years of nightly proofs of eight GPUs.
MOST_BYTES = 8_000_000
# So much of its end is read for a report: the proofs of about a month.
TAIL_BYTES = 200_000


def read(directory: Path, host: str, most: int = TAIL_BYTES) -> list[Line]:
    """Return the lines of a host, the latest last, out of the last so many bytes; none for a host without history.

    What is no line of ours, such as one that was cut off, is passed over. Raises Refusal V003.
    """
    path = _path(directory, host)
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - most))
            return [line for line in map(_line, stream.read().split(b"\n")) if line]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise refuse("V003", path=path, detail=error.strerror) from error


def append(directory: Path, lines: Mapping[str, Line]) -> None:
    """Add a line to the history of each host. Raises Refusal V003."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with locked(directory):
            for host, line in lines.items():
                _append(_path(directory, host), json.dumps(line, sort_keys=True).encode() + b"\n")
    except OSError as error:
        raise refuse("V003", path=directory, detail=error.strerror) from error


def number(directory: Path) -> int:
    """Return how many hosts have a history."""
    return sum(1 for _path in directory.glob("*.jsonl"))


def remembered(directory: Path, host: str) -> str | None:
    """Return what is remembered of the rates of a host (see memory.py); None where nothing is. Raises Refusal V003."""
    path = _path(directory, host).with_suffix(".json")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise refuse("V003", path=path, detail=error) from error


def remember(directory: Path, texts: Mapping[str, str]) -> None:
    """Write what is remembered of the rates of hosts. Raises Refusal V003."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with locked(directory):
            for host, text in texts.items():
                path = _path(directory, host).with_suffix(".json")
                shorter = path.with_name(f".{path.name}")
                shorter.write_text(text, encoding="utf-8")
                shorter.replace(path)
    except OSError as error:
        raise refuse("V003", path=directory, detail=error.strerror) from error


def _append(path: Path, text: bytes) -> None:
    if path.exists() and path.stat().st_size > MOST_BYTES:
        shorter = path.with_name(f".{path.name}")
        shorter.write_bytes(path.read_bytes()[MOST_BYTES // 2 :].partition(b"\n")[2])
        shorter.replace(path)
    with path.open("ab+") as stream:
        if stream.seek(0, os.SEEK_END):
            stream.seek(-1, os.SEEK_END)
            text = text if stream.read() == b"\n" else b"\n" + text  # the last line was cut off
        stream.write(text)


def _path(directory: Path, host: str) -> Path:
    return directory / f"{file_name(host)}.jsonl"


def _line(text: bytes) -> Line | None:
    try:
        line: Line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, Mapping) and line.get("schema") == SCHEMA else None
