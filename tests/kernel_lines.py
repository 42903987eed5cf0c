"""Compare a source tree of NVIDIA's open kernel modules with catalog/kernel_lines.yml and catalog/xids.yml.

``python tests/kernel_lines.py DIRECTORY`` counts the lines that the tree prints at error level: those that a family
reads, those that are put aside, and why. It lists those that are neither, and XIDs of the header that the catalog
does not have, and ends with 1 if there are any.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

CATALOG = Path(__file__).parents[1] / "catalog"
# What always reaches the kernel log. UVM's ordinary errors are printed in debug builds only.
CALLS = re.compile(
    r"\b(nv_printf\s*\(\s*NV_DBG_ERRORS|NV_DEV_PRINTF(?:_STATUS)?\s*\(\s*NV_DBG_ERRORS"
    r"|NV_PRINTF(?:_COND|_EX)?\s*\((?:[^;\"]*?,)?\s*LEVEL_(?:ERROR|FATAL)"
    r"|nvEvoLog(?:Dev|Disp)?\s*\([^\"]*?EVO_LOG_ERROR|nvkms_log\s*\(\s*NVKMS_LOG_LEVEL_ERROR"
    r"|printk\s*\(\s*KERN_ERR|NV_DRM_(?:DEV_)?LOG_ERR\s*\(|UVM_ERR_PRINT_ALWAYS(?:_RL)?\s*\()"
)
# The words of one literal and those of the next; between them are macros of a format, as PRIx64.
WORDS = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*(?:[A-Z]\w*\s*)?(?="))?')
XID = re.compile(r"#define\s+\w+\s+\((\d+)\)")
MODULES = {"nvidia-modeset": "nvidia-modeset: ", "nvidia-drm": "[nvidia-drm] ", "nvswitch": "nvidia-nvswitch0: "}


def lines(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (file, text) of each line that the sources print at error level; of a format, its conversions stay."""
    for file in sorted(root.rglob("*.[ch]")):
        text = file.read_text(encoding="utf-8", errors="replace")
        for call in CALLS.finditer(text):
            yield str(file.relative_to(root)), _format(text, call.end())


def _format(text: str, place: int) -> str:
    """Return the literal that begins behind a place, before its statement ends."""
    found, at = "", text.find('"', place)
    if at < 0 or ";" in text[place:at]:
        return ""
    while (literal := WORDS.match(text, at)) is not None:
        found += literal.group(1)
        if literal.group(2) is None:
            break
        at = literal.end()
    return found.replace("\\n", " ").strip()


def spoken(file: str, text: str) -> str:
    """Return a line as the kernel log has it: its speaker, and values in the place of conversions."""
    begin = next((begin for name, begin in MODULES.items() if name in file), "NVRM: ")
    whole = text if text.startswith(("NVRM", begin)) else f"{begin}{text}"
    return re.sub(r"\bNVRM: ", "", re.sub(r"%[-+ #0]*\d*(?:ll|l|h|z)?[a-zA-Z]", "0", whole)).strip()


def sort(root: Path, known: dict[str, Any]) -> tuple[Counter[str], list[tuple[str, str]]]:
    """Return how many lines each family reads or each reason puts aside, and those that are left."""
    families = [(one["id"], re.compile(one["line"])) for one in known["lines"]]
    aside = [
        (one["because"], re.compile(one.get("files", "")), re.compile(one.get("line", ""))) for one in known["aside"]
    ]
    counts: Counter[str] = Counter()
    left = []
    for file, text in sorted(set(lines(root))):
        said = spoken(file, text)
        family = next((name for name, line in families if line.search(said)), None)
        reason = next((why for why, files, line in aside if files.search(file) and line.search(said)), None)
        if family or reason:
            counts[f"read as {family}" if family else f"aside: {reason}"] += 1
        else:
            left.append((file, text))
    return counts, left


def unlisted(root: Path, known: dict[str, Any]) -> list[int]:
    """Return the numbers of NVIDIA's header that the catalog does not have."""
    headers = [file.read_text(encoding="utf-8") for file in root.rglob("nverror.h")]
    numbers = {int(number) for text in headers for number in XID.findall(text) if "ROBUST_CHANNEL" in text}
    return sorted(numbers - {0} - {record["xid"] for record in known["xids"]})


def main(root: Path) -> int:
    """Print the comparison; return the exit status."""
    lines_known, xids = (yaml.safe_load((CATALOG / f"{name}.yml").read_text()) for name in ("kernel_lines", "xids"))
    counts, left = sort(root, lines_known)
    for what, count in sorted(counts.items()):
        print(f"{count:5}  {what}")
    for file, text in left:
        print(f"left   {file}: {text}")
    for number in unlisted(root, xids):
        print(f"left   XID {number}")
    print(f"{sum(counts.values())} known, {len(left)} left; looked through: {', '.join(lines_known['looked_through'])}")
    return int(bool(left or unlisted(root, xids)))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
