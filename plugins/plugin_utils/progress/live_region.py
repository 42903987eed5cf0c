# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines at the foot of a terminal that are redrawn in place while everything else scrolls above them.

Everything Ansible prints ends in sys.stdout or sys.stderr, under the lock of its Display, which it also holds while
it forks. The region therefore draws through Display, and stands in for both streams, so as to clear itself before
anybody else writes.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import threading
from typing import TYPE_CHECKING, Any, TextIO

from ansible_collections.gpulab.node.plugins.plugin_utils.progress.board import Row, duration

try:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    HAS_RICH = True
except ImportError:  # then nobody makes a region
    HAS_RICH = False
if TYPE_CHECKING:
    from ansible.utils.display import Display

HOST_WIDTH = 24
MIN_WIDTH = 10


def render(rows: list[Row], at_rest: tuple[int, int], total: float, width: int, height: int) -> list[str]:
    """Return the region's lines, with colour, none wider than the terminal and not more than it can hold."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=HOST_WIDTH, style="bold")
    table.add_column(no_wrap=True, justify="right", style="cyan")
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    room = max(1, height - 3)
    for row in rows[:room]:
        text = Text(_plain(row.task))
        if row.line:
            text.append(f"  {_plain(row.line)}", style="dim")
        table.add_row(Text(_plain(row.host)), duration(row.seconds), text)
    tally = ((len(rows) - room, "more at work"), (at_rest[0], "waiting"), (at_rest[1], "failed"))
    summary = ", ".join([*(f"{count} {word}" for count, word in tally if count > 0), f"total {duration(total)}"])
    page = io.StringIO()
    console = Console(file=page, width=max(width - 1, MIN_WIDTH), force_terminal=True, highlight=False, emoji=False)
    console.print(table)
    console.print(Text(summary, style="dim"), no_wrap=True, overflow="ellipsis")
    return page.getvalue().splitlines()


def _plain(text: str) -> str:
    """Return a text as one line of printable characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


class LiveRegion:
    """The region. All writing goes through display, under its lock."""

    def __init__(self, display: Display) -> None:
        """Take the place of the standard streams."""
        self._display = display
        self._owner = os.getpid()
        self._drawing = threading.local()
        self._height = 0
        self._line_open = False  # somebody left a line unfinished: a prompt, which must not be drawn over
        self._stdout, self._stderr = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = _Above(self, self._stdout), _Above(self, self._stderr)

    def draw(self, rows: list[Row], at_rest: tuple[int, int], total: float) -> None:
        """Redraw the region."""
        size = shutil.get_terminal_size()
        lines = render(rows, at_rest, total, size.columns, size.lines)
        self._drawing.lines = lines
        try:
            self._display.display("\n".join(lines), screen_only=True)
        finally:
            self._drawing.lines = None
        self._stdout.flush()

    def close(self) -> None:
        """Clear the region and give the streams back."""
        if isinstance(sys.stdout, _Above):
            sys.stdout, sys.stderr = self._stdout, self._stderr
            self._stdout.write(self._clearing())
            self._stdout.flush()

    def before_write(self, text: str) -> str | None:
        """Return what is to be written instead of text to a stream; None for nothing."""
        if os.getpid() != self._owner:
            return text
        lines = getattr(self._drawing, "lines", None)
        clearing = self._clearing()
        if lines is None:
            self._line_open = not text.endswith("\n") if text else self._line_open
            self._stdout.write(clearing)
            self._stdout.flush()
            return text
        if self._line_open:
            return None
        self._height = len(lines)
        return clearing + text

    def _clearing(self) -> str:
        height, self._height = self._height, 0
        return f"\r\x1b[{height}A\x1b[J" if height else ""


class _Above:
    """A standard stream whose text goes above the region."""

    def __init__(self, region: LiveRegion, stream: TextIO) -> None:
        self._region = region
        self._stream = stream

    def write(self, text: str) -> int:
        """Write above the region."""
        shown = self._region.before_write(text)
        return self._stream.write(shown) if shown is not None else 0

    def __getattr__(self, name: str) -> Any:
        """Be the stream in everything else."""
        return getattr(self._stream, name)
