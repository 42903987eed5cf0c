# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of a board: by NVIDIA's lists, by its chip and architecture, and by what somebody wrote down of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

Record = dict[str, Any]

# A board's figure that nobody stands behind
UNKNOWN: Record = {"vram_gib": None, "power_w": None, "pcie": None}
# The first NVLink whose switches register GPUs as a fabric, and the first with switches that are no PCI devices
SWITCHED, FABRIC, HIDDEN_SWITCHES = 3, 4, 5


def records(architectures: Iterable[Record], listed: Iterable[Record], own: Iterable[Record]) -> dict[str, Record]:
    """Return the boards by PCI id, such as "10de:2330".

    architectures and own are those of gpus.yml, listed are the boards of boards.yml. What is written down of a board
    wins over the lists, and these over what follows from chip and class.
    """
    chips = {chip["chip"]: {**record, **chip} for record in architectures for chip in record["chips"]}
    by_list = {board["pci_id"]: board for board in listed}
    by_hand = {pci_id: board for board in own for pci_id in board["pci_ids"]}
    found = {}
    for pci_id in (*by_list, *(one for one in by_hand if one not in by_list)):
        board = {**by_list.get(pci_id, {}), **by_hand.get(pci_id, {})}
        found[pci_id] = {**UNKNOWN, **_following(board, chips[board["chip"]]), **board}
    return found


def _following(board: Record, chip: Record) -> Record:
    """Return what a board has by its chip, class and form. nvlink is the generation that it can have, None without."""
    nvlink, module = board.get("nvlink", chip.get("nvlink")), board["form"] != "pcie"
    managed = {"sxm": "always", "superchip": "rack"}[board["form"]] if module and nvlink == HIDDEN_SWITCHES else None
    return {
        "architecture": chip["architecture"],
        "compute_capability": chip["compute_capability"],
        "kernel_modules": ["open"] if board["form"] == "superchip" else chip["kernel_modules"],
        "nvlink": nvlink,
        "mig": chip.get("mig", False),
        "ecc": True if board["class"] == "data-center" and chip["spare_memory"] else None,
        "spare_memory": chip["spare_memory"],
        "fabric_manager": managed,
    }


def profiles(boards: dict[str, Record], figures: Iterable[Record]) -> dict[str, Record]:
    """Return what is expected of each board, by its PCI id.

    This is its name and form, how its GPUs are joined (fabric: none or nvswitch; bridge: whether a bridge joins cards,
    None for a chip without NVLink), its capabilities, whether anybody wrote down its lanes, and its figures of
    profiles.yml.
    """
    known = {device: record for record in figures for device in record["devices"]}
    return {pci_id: {**_expected(board), **known.get(pci_id, {})} for pci_id, board in boards.items()}


def _expected(board: Record) -> Record:
    """Return what a board is expected to have, without figures."""
    nvlink = board["nvlink"] or 0
    made = nvlink > 0 and board["form"] == "sxm"
    memory = ("ecc", board["spare_memory"]) if board["class"] == "data-center" and board["ecc"] else ()
    return {
        "name": board["name"],
        "form": board["form"],
        "fabric": "nvswitch" if made and nvlink >= SWITCHED else "none",
        "bridge": board["form"] == "pcie" if nvlink else None,
        "lanes_known": board["pcie"] is not None,
        "capabilities": [
            *memory,
            *(("nvlink",) if made else ()),
            *(("fabric_state",) if made and nvlink >= FABRIC else ()),
        ],
    }
