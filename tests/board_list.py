"""Write catalog/boards.yml from NVIDIA's own lists of what its drivers drive, or count what is in it.

Without arguments it counts. With the four sources it writes the file anew:

    tests/board_list.py OPEN_GPU_KERNEL_MODULES SUPPORTED_GPUS.JSON PCI.IDS DIAG-SKUS.YAML.IN

The first is a clone of NVIDIA/open-gpu-kernel-modules with its tags, the second is in a package of the driver (of
Debian: nvidia-driver), the third in the package pci.ids, the fourth in NVIDIA/DCGM. What no list says is read from the
name.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parents[1] / "catalog" / "boards.yml"
HEAD = """\
# yamllint disable rule:line-length
# NVIDIA's boards by PCI id: name, chip, what each is made for, and its form. Written by tests/board_list.py from
# NVIDIA's own lists; what somebody knows better stands in gpus.yml, which wins.
# source is the newest list that has the id. class and form are read from the product's name, and from who sells it.
# form: pcie is a card, sxm a module that is made with NVLink where its chip has it, superchip one with its processor.
# vram_gib is given where the name says it.
# first_driver is given for boards younger than driver 515 and Turing only: the first branch that lists the id, and each
# later one whose first release did not; null is a branch that never did.
"""
NVIDIA = "10de"
ROW = re.compile(r"^\| (\S.*?) +\| ([0-9A-F]{4})(?: ([0-9A-F]{4}) [0-9A-F]{4})? +\|", re.MULTILINE)
# The first release whose list has all kinds of boards; what it lists may be older.
OLDEST = "515.48.07"
# The class of a product is that of the first pattern in its name.
CLASSES = (
    ("consumer", re.compile(r"GeForce|TITAN|\bCMP\b|\bMX\d|\bP10[46]-")),
    ("data-center", re.compile(r"Tesla|Server Edition")),
    ("workstation", re.compile(r"Quadro|NVS|RTX|\bT\d{3,4}E?\b|Matrox|DGX Display|GB10\b")),
)
# Chips of which all boards are cards, but for those whose name says otherwise (PG503, PG506 and PG509 are SXM) ...
CARDS = ("GP100", "GV100", "GA100")
MODULE = re.compile(r"SXM|PG50[369]|DGX1")
# ... and chips of which all boards are modules, but for those whose name says otherwise.
MODULES = ("GH100", "GB100", "GB102", "GB110")
CARD = re.compile(r"PCIe|\bNVL\b|DRIVE")
SUPERCHIP = re.compile(r"\bG[HB](?:10|200|300)\b")

Names = dict[str, set[str]]  # product name -> makers of its subsystems, "" where none is named


def version(text: str) -> tuple[int, ...]:
    """Return what sorts versions such as "535.54.03"."""
    return tuple(int(part) for part in text.split("."))


def of_readme(text: str) -> dict[str, Names]:
    """Read the table of a release of the open modules, by id."""
    found: dict[str, Names] = {}
    for name, device, maker in ROW.findall(text):
        found.setdefault(device.lower(), {}).setdefault(name, set()).add(maker.lower())
    return found


def of_supported(text: str) -> dict[str, Names]:
    """Read supported-gpus.json, by id: what the driver itself drives, without what it names for older branches."""
    found: dict[str, Names] = {}
    for chip in json.loads(text)["chips"]:
        if "legacybranch" not in chip:
            maker = chip.get("subvendorid", "")[2:].lower()
            found.setdefault(chip["devid"][2:].lower(), {}).setdefault(chip["name"], set()).add(maker)
    return found


def of_pci_ids(text: str) -> dict[str, tuple[str, str]]:
    """Read NVIDIA's part of pci.ids: id -> (chip without the letters of its kind, name)."""
    part = re.search(rf"^{NVIDIA}  .*\n((?:[\t#].*\n)*)", text, re.MULTILINE)
    lines = re.findall(r"^\t([0-9a-f]{4})  (\w+).*?(?:\[(.+)\])?$", part.group(1) if part else "", re.MULTILINE)
    return {device: (re.sub(r"(?:GLM|BM|GL|M)$", "", chip), name) for device, chip, name in lines}


def of_dcgm(text: str) -> set[str]:
    """Read the ids of the boards that DCGM diagnoses."""
    return {device[:4].lower() for device in re.findall(r"^\s*id: '([0-9A-Fa-f]{4,})'", text, re.MULTILINE)}


def first_drivers(lists: dict[str, set[str]], device: str) -> dict[str, str | None]:
    """Return what boards.yml has as first_driver; lists are the ids of each release."""
    branches: dict[str, list[str]] = {}
    for release in sorted(lists, key=version):
        branches.setdefault(release.partition(".")[0], []).append(release)
    firsts = {
        branch: next((one for one in releases if device in lists[one]), None) for branch, releases in branches.items()
    }
    listing = [branch for branch, first in firsts.items() if first]
    if not listing or version(firsts[listing[0]] or "0") <= version(OLDEST):
        return {}
    return {
        branch: first
        for branch, first in firsts.items()
        if listing[0] <= branch <= listing[-1] and (branch == listing[0] or first != branches[branch][0])
    }


def class_of(name: str, makers: set[str]) -> str:
    """Return consumer, workstation or data-center.

    A professional board that no maker of workstations sells, NVIDIA sells to those of servers.
    """
    found = next((one for one, pattern in CLASSES if pattern.search(name)), None)
    servers = makers == {NVIDIA} and "RTX" in name
    if found == "workstation" and not servers:
        return found
    return found if found == "consumer" else "workstation" if found is None and makers - {NVIDIA, ""} else "data-center"


def form_of(name: str, chip: str) -> str:
    """Return pcie, sxm or superchip."""
    if SUPERCHIP.search(name):
        return "superchip"
    module = MODULE.search(name) if chip in CARDS else chip in MODULES and not CARD.search(name)
    return "sxm" if module else "pcie"


def board(device: str, names: Names, chip: str, source: str, first: dict[str, Any]) -> dict[str, Any]:
    """Return the record of one id. Its name is the one for all subsystems where there is one, else all of them."""
    name = " / ".join([name for name, makers in names.items() if "" in makers] or sorted(names))
    form, sizes = form_of(name, chip), {int(size) for size in re.findall(r"\b(\d+)GB\b", name)}
    record: dict[str, Any] = {"pci_id": f"{NVIDIA}:{device}", "name": name, "chip": chip}
    record |= {"class": class_of(name, set().union(*names.values())), "form": form}
    if len(sizes) == 1 and form != "superchip":  # whose name counts the processor's memory
        record["vram_gib"] = sizes.pop()
    if first and not chip.startswith("TU"):
        record["first_driver"] = first
    return record | {"source": source}


def releases_of(clone: Path) -> dict[str, dict[str, Names]]:
    """Return the tables of all releases in a clone, without those for Vulkan's developers.

    These are on branches VK* alone, several of one line (535.43.08, 535.43.09); a single one there is an ordinary one.
    """

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(clone), *words], capture_output=True, text=True, check=True).stdout

    def line(tag: str) -> str:
        return tag.rpartition(".")[0]

    tags = [tag for tag in git("tag").split() if re.fullmatch(r"\d{3}(\.\d+)+", tag)]
    branches = [name for name in git("branch", "--all", "--format=%(refname)").split() if "/VK" not in name]
    apart = set(tags).difference(git("tag", *(f"--merged={name}" for name in branches)).split())
    lines = Counter(map(line, apart))
    return {
        tag: of_readme(git("show", f"{tag}:README.md")) for tag in tags if tag not in apart or lines[line(tag)] == 1
    }


def document(clone: Path, supported: Path, pci_ids: Path, dcgm: Path) -> dict[str, Any]:
    """Return the list by the four sources. The newest list that has an id names it."""
    releases = releases_of(clone)
    tables = [releases[release] for release in sorted(releases, key=version)]
    chips = of_pci_ids(pci_ids.read_text(encoding="utf-8", errors="replace"))
    lists: dict[str, dict[str, Names]] = {
        "dcgm": {one: {chips[one][1]: {""}} for one in of_dcgm(dcgm.read_text(encoding="utf-8")) if one in chips},
        "supported-gpus": of_supported(supported.read_text(encoding="utf-8")),
        "ogkm": {one: names for table in tables for one, names in table.items()},
    }
    source_of = {device: source for source, table in lists.items() for device in table}
    ids = {release: set(table) for release, table in releases.items()}
    first, last = min(releases, key=version), max(releases, key=version)
    return {
        "as_of": datetime.now(tz=timezone.utc).date().isoformat(),
        "sources": {
            "ogkm": f"README.md of {len(releases)} releases of NVIDIA/open-gpu-kernel-modules, {first} to {last}",
            "supported-gpus": f"{supported.name} of a driver's package",
            "dcgm": f"nvvs/{dcgm.name} of NVIDIA/DCGM, with names of {pci_ids.name}",
        },
        "boards": [
            board(device, lists[source][device], chips[device][0], source, first_drivers(ids, device))
            for device, source in sorted(source_of.items())
        ],
    }


def written(made: dict[str, Any]) -> str:
    """Return the file's text, one line for each board."""

    def line(value: Any, *, flow: bool) -> str:
        return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1000, default_flow_style=flow)

    boards = "".join(f"  - {line(one, flow=True)}" for one in made["boards"])
    top = line({name: made[name] for name in ("as_of", "sources")}, flow=False)
    return f"{HEAD}---\n{top}boards:\n{boards}"


def count(made: dict[str, Any]) -> str:
    """Return how many ids there are, by source, class and form."""
    lines = [f"{len(made['boards'])} ids, read {made['as_of']}"]
    for part in ("source", "class", "form"):
        kinds = Counter(one[part] for one in made["boards"])
        lines.append(f"  by {part}: {', '.join(f'{number} {name}' for name, number in kinds.most_common())}")
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        FILE.write_text(written(document(*map(Path, sys.argv[1:]))), encoding="utf-8")
    print(count(yaml.safe_load(FILE.read_text(encoding="utf-8"))))
