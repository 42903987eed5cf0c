# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let a machine boot once from elsewhere, and see that it was once: else each boot would install the machine again.

Some BMCs take "Once" and keep "Continuous". So what was asked is read back before the machine is turned off, and after
it was turned on it has to be as before again, which is asked for where it does not become so by itself.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.base import DISABLED, ONCE, PartError, looked

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.base import Bmc, Reading

AFTER = 600.0  # seconds after power on in which firmware takes the setting back
_LOOK = 5.0


def refuse_unknown(bmc: Bmc, reading: Reading, target: str) -> None:
    """Raise Refusal F118 where the BMC does not name this target."""
    if target not in reading.boot.targets:
        raise bmc.refusal("F118", target=target, detail=f"it names {', '.join(reading.boot.targets) or 'nothing'}")


def ask(bmc: Bmc, reading: Reading, target: str) -> None:
    """Ask for one boot from a target, and read it back.

    Raises Refusal F118 after it was taken back, F121 where that was not possible.
    """
    why = _set(bmc, reading, ONCE, target)
    if why:
        left = take_back(bmc, reading)
        if left:
            raise bmc.refusal("F121", target=target, detail=f"{why}, and to take it back: {left}")
        raise bmc.refusal("F118", target=target, detail=why)


def take_back(bmc: Bmc, reading: Reading) -> str:
    """Let the machine boot as it did; return why that is not so, empty where it is. Raises Refusal.

    A BMC may take no Disabled, and have had its disk each time.
    """
    before = reading.boot
    left = _set(bmc, reading, DISABLED, "")
    if left and before.enabled not in {"", DISABLED}:
        left = _set(bmc, reading, before.enabled, before.target)
    return left


def see_it_kept(bmc: Bmc, reading: Reading, target: str) -> None:
    """Ask again where the BMC has forgotten it while the machine was turned off; by IPMI it may do so after 60 s.

    Raises Refusal F122 where that is not possible.
    """
    found, _why = looked(lambda: bmc.boot(reading))
    if found and found.enabled == ONCE and found.target == target:
        return
    why = _set(bmc, reading, ONCE, target)
    if why:
        raise bmc.refusal("F122", target=target, detail=why)


def see_it_gone(bmc: Bmc, reading: Reading, target: str, most: float = AFTER, look: float = _LOOK) -> str:
    """Wait until the machine boots as before again; return a line. Raises Refusal F119 where it had to be asked for."""
    begun = time.monotonic()
    state = ""
    while time.monotonic() - begun < most:
        state, usual = _state(bmc, reading)
        if usual:
            return f"boot once from {target}: read {state} after {time.monotonic() - begun:.0f} s"
        time.sleep(look)
    left = take_back(bmc, reading)
    after = f"it could not be taken back: {left}" if left else "gpulab has taken it back"
    raise bmc.refusal("F119", target=target, detail=f"it stayed {state}, and {after}")


def _set(bmc: Bmc, reading: Reading, enabled: str, target: str) -> str:
    """Set it and read it back; return what is wrong, empty where nothing is.

    One BMC wants the mode with each change and another takes none with it: first with it, where it tells one.
    """
    why = ""
    for mode in dict.fromkeys((reading.boot.mode, "")):
        try:
            bmc.set_boot(reading, enabled, target, mode)
            found = bmc.boot(reading)
        except PartError as error:
            why = str(error)
            continue
        if found.enabled == enabled and target in {"", found.target}:
            return ""
        why = f"asked for {enabled} {target}, it reads {found.enabled or 'nothing'} {found.target}".rstrip()
    return why


def _state(bmc: Bmc, reading: Reading) -> tuple[str, bool]:
    """Return from where the machine boots next, in words, and whether that is known and as ever."""
    found, why = looked(lambda: bmc.boot(reading))
    if found is None:
        return why, False
    return found.elsewhere or found.enabled or "not told", bool(found.enabled) and not found.elsewhere
