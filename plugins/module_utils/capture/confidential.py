# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a file that everybody may read is secret all the same: by its name, or by what is in it. No I/O happens here.

What looks like a secret and is none only takes its file into the encrypted archive. So this is rather too wide.
"""

from __future__ import annotations

from ansible_collections.gpulab.node.plugins.module_utils.capture.rules import Rules
from ansible_collections.gpulab.node.plugins.module_utils.core import secret_texts
from ansible_collections.gpulab.node.plugins.module_utils.core.secret_forms import PATHS

BLOCK = 1 << 20  # bytes that are looked at together
OVERLAP = 1 << 14  # bytes of a block that are looked at with the next one, too: no form but a key's text is longer
_WIDE = (b"\xff\xfe", b"\xfe\xff")  # how UTF-16 begins, which has a NUL beside each letter
_NAMES = Rules([(pattern, True) for pattern in PATHS])


def is_secret(path: str, content: bytes) -> bool:
    """Tell whether a file is secret, all of whose content is given."""
    search = Search(path)
    for start in range(0, len(content), BLOCK):
        search.add(content[start : start + BLOCK])
    return search.found


def named_secret(path: str) -> bool:
    """Tell whether a file of this name is secret whatever is in it."""
    return _NAMES.find(path) is not None


class Search:
    """A search in a file that is read block by block."""

    def __init__(self, path: str) -> None:
        """Begin with the path."""
        self.found = named_secret(path)
        self._last: bytes | None = None
        self._wide = False

    def add(self, block: bytes) -> None:
        """Look at the next block, together with the end of the one before."""
        if self._last is None:
            self._wide = block.startswith(_WIDE)
        text = block.replace(b"\0", b"") if self._wide else block
        self.found = self.found or secret_texts.holds((self._last or b"") + text)
        self._last = text[-OVERLAP:]
