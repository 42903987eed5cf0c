"""The settings of a simulated node, as settings.c reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Settings:
    """Text files of "key = value" lines; "gpu.*.key" is for every GPU, "gpu.3.key" for one; the last that fits wins."""

    def __init__(self, *files: Path) -> None:
        """Read those of the files that exist, in this order."""
        self._lines = []
        for file in files:
            for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
                key, equals, value = line.partition("#")[0].partition("=")
                if equals:
                    self._lines.append((key.strip(), value.strip()))
        self.gpus = range(int(self.node("count", "0")))

    def _last(self, keys: tuple[str, ...], missing: str) -> str:
        return next((value for key, value in reversed(self._lines) if key in keys), missing)

    def node(self, key: str, missing: str = "") -> str:
        """Return a setting of the node."""
        return self._last((key,), missing)

    def every(self, key: str) -> list[str]:
        """Return a setting of the node that may be there several times."""
        return [value for known, value in self._lines if known == key]

    def gpu(self, index: int, key: str, missing: str = "") -> str:
        """Return a setting of one GPU."""
        return self._last((f"gpu.{index}.{key}", f"gpu.*.{key}"), missing)

    def announcement(self) -> str:
        """Return the line by which a simulated node tells that it is one."""
        return f"simulated GPU (gpulab tests/sim): {self.gpu(0, 'name', 'none')} x{len(self.gpus)}"
