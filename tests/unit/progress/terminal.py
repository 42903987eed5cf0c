"""A terminal as far as our output needs one: what is on the screen, and what was ever on it."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\x1b\[(?P<count>[\d;]*)(?P<code>[A-Za-z])|(?P<control>[\r\n])|(?P<text>[^\x1b\r\n]+)")


class Terminal:
    """Lines of text with a cursor; knows the cursor going up, clearing to the end, and colours."""

    def __init__(self):
        """Start with an empty screen."""
        self.lines = [""]
        self.row = self.column = 0
        self.ever = []

    def feed(self, text):
        """Take output."""
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            assert match, f"not understood: {text[position : position + 20]!r}"
            position = match.end()
            self._apply(match)
        return self

    def _apply(self, match):
        if match["control"] == "\r":
            self.column = 0
        elif match["control"] == "\n":
            self.ever.append(self.lines[self.row])
            self.row += 1
            self.column = 0
            if self.row == len(self.lines):
                self.lines.append("")
        elif match["code"] == "A":
            self.row -= int(match["count"])
            assert self.row >= 0, "above the top"
        elif match["code"] == "J":
            self.lines[self.row] = self.lines[self.row][: self.column]
            del self.lines[self.row + 1 :]
        elif match["text"]:
            line = self.lines[self.row]
            end = self.column + len(match["text"])
            self.lines[self.row] = line[: self.column].ljust(self.column) + match["text"] + line[end:]
            self.column = end
